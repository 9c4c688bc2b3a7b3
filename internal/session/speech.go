package session

import (
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// speechTimeout is how long the next chunk of speech is awaited after its result, or after the last chunk.
	speechTimeout = time.Minute
	// endSpeechTimeout is how long a session that was asked to end waits for speech that was promised.
	endSpeechTimeout = 10 * time.Second
)

// speechQueue is the speech of an utterance on its way to the client, in whole binary frames. The session's mutex guards all
// but the frames: a connection takes those when it can write them, while it holds a lock of its own, so they have their own
// mutex. It is taken under the session's mutex or a connection's lock, and only the audio buffer's is taken under it.
type speechQueue struct {
	attempt    int              // whose speech it is
	nextChunk  int              // the next chunk of it
	complete   bool             // its last chunk has arrived
	lost       bool             // a chunk of it will never reach the client
	format     wire.AudioFormat // once its first chunk has arrived
	progressAt time.Time        // when its result was sent, or its last chunk arrived after that

	mu      run.Mutex
	frames  [][]byte
	bytes   int
	feeding bool // a connection takes the frames
}

func newSpeechQueue() speechQueue { return speechQueue{mu: run.NewMutex("session_speech")} }

// push adds a frame. It reports false if the queue or the audio buffer is full.
func (q *speechQueue) push(buffer *audio.Buffer, frame []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+len(frame) > audio.MaxSpeech || !buffer.Reserve(len(frame)) {
		return false
	}
	q.frames, q.bytes = append(q.frames, frame), q.bytes+len(frame)
	return true
}

// discard drops the frames that no connection has taken.
func (q *speechQueue) discard(buffer *audio.Buffer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	buffer.Release(q.bytes)
	q.frames, q.bytes = nil, 0
}

// lose drops the speech and marks it as lost: a part of it is of no use.
func (q *speechQueue) lose(buffer *audio.Buffer) {
	q.discard(buffer)
	q.lost, q.complete = true, true
}

// restart drops the speech and waits for that of another attempt.
func (q *speechQueue) restart(buffer *audio.Buffer, attempt int) {
	q.discard(buffer)
	q.attempt, q.nextChunk, q.complete, q.lost = attempt, 0, false, false
}

// isLost reports whether the speech of an attempt can no longer be delivered.
func (q *speechQueue) isLost(attempt int) bool { return q.attempt == attempt && q.lost }

// hasBegun reports whether speech of an attempt has arrived.
func (q *speechQueue) hasBegun(attempt int) bool { return q.attempt == attempt && q.nextChunk > 0 }

// formatOf is the format of the speech that follows a result: that of the speech itself if it has begun to arrive, otherwise
// the one that its node declared.
func (q *speechQueue) formatOf(m *terminalMessage) wire.AudioFormat {
	switch {
	case q.hasBegun(m.Attempt):
		return q.format
	case m.Audio != nil:
		return m.Audio.OrDefault()
	}
	return wire.AudioFormat{}.OrDefault()
}

// feed makes a connection take the frames, unless one does.
func (q *speechQueue) feed(buffer *audio.Buffer, conn Conn) {
	q.mu.Lock()
	start := !q.feeding && len(q.frames) > 0
	q.feeding = q.feeding || start
	q.mu.Unlock()
	if start && !conn.Feed(func() []byte { return q.next(buffer) }) {
		q.discard(buffer)
	}
}

// next removes and returns the next frame; nil when there is none for now.
func (q *speechQueue) next(buffer *audio.Buffer) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.frames) == 0 {
		q.feeding = false
		return nil
	}
	frame := q.frames[0]
	q.frames, q.bytes = q.frames[1:], q.bytes-len(frame)
	buffer.Release(len(frame))
	return frame
}

// isEmpty reports whether no frames are left.
func (q *speechQueue) isEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.frames) == 0
}

// speechFeed is speech that a connection is taking.
type speechFeed struct {
	conn Conn
	u    *utterance
}

// speechDelivery delivers the speech of a session's results. The session's mutex guards it.
type speechDelivery struct {
	session     *Session
	feeds       []speechFeed
	interrupted []interruptedSpeech // of which the client is to be warned when it resumes
}

// interruptedSpeech is speech that was cut off with the connection of its client.
type interruptedSpeech struct {
	job core.JobID
	seq int64 // of its result
}

// accepts reports whether the speech of an attempt may reach the client. For a newer attempt it restarts the speech.
func (d *speechDelivery) accepts(u *utterance, attempt int) bool {
	s, q := d.session, &u.speech
	if s.finished || !s.settings.TTS || attempt < q.attempt || u.result.sent && attempt != u.result.attempt {
		return false // the client wants no speech, or the attempt's result does not stand
	}
	if attempt > q.attempt {
		q.restart(s.registry.audio, attempt)
	}
	return true
}

// add adds a chunk of speech, the first with its format. It reports whether the speech can still be delivered.
func (d *speechDelivery) add(u *utterance, h *wire.BinaryHeader, data []byte) bool {
	s, q := d.session, &u.speech
	if !d.accepts(u, h.AttemptID) {
		return false
	}
	if h.Chunk < q.nextChunk || q.lost {
		return !q.lost // the chunk is a repetition, unless the speech was lost
	}
	header := *h
	if header.Audio = nil; h.Chunk == 0 {
		if q.format = (wire.AudioFormat{}).OrDefault(); h.Audio != nil {
			q.format = h.Audio.OrDefault()
		}
		header.Audio = &q.format
	}
	frame, err := wire.AppendBinary(nil, &header, data)
	gap := h.Chunk != q.nextChunk || err != nil
	q.nextChunk, q.complete, q.progressAt = h.Chunk+1, h.Last, time.Now()
	if gap || !q.push(s.registry.audio, frame) {
		d.lose(u, "has a gap, or is too large to wait")
	}
	switch {
	case u.result.sent && s.conn != nil:
		d.send(u)
	case u.result.sent && q.lost:
		s.dropUtterance(u)
	}
	return !q.lost
}

// announced returns the jobs whose speech still comes, of results up to one that the client has.
func (d *speechDelivery) announced(received int64) (jobs []string) {
	for _, u := range d.sent() {
		if u.turn <= received {
			jobs = append(jobs, string(u.job))
		}
	}
	return jobs
}

// resume sends the speech that arrived while no client was connected, of results up to one that the client has. That of later ones is
// sent after their results, which are sent again.
func (d *speechDelivery) resume(received int64) {
	for _, u := range d.sent() {
		if u.turn <= received && !u.speech.isEmpty() {
			d.send(u)
		}
	}
}

// sent returns the utterances whose results were sent and whose speech was not, in the order of their turns.
func (d *speechDelivery) sent() (list []*utterance) {
	for _, u := range d.session.unfinished {
		if u.result.sent && !u.speech.lost {
			list = append(list, u)
		}
	}
	sortByTurn(list)
	return list
}

// send sends the speech of an utterance whose result was sent.
func (d *speechDelivery) send(u *utterance) {
	s := d.session
	s.registry.metrics.Messages.WithLabelValues(telemetry.MessageSpeech).Inc()
	d.feeds = append(slices.DeleteFunc(d.feeds, func(f speechFeed) bool { return f.u == u || f.u.speech.isEmpty() }), speechFeed{s.conn, u})
	u.speech.feed(s.registry.audio, s.conn)
	if u.speech.complete {
		s.dropUtterance(u) // the connection takes the frames that are left
		s.endIfComplete()
	}
}

// connectionLost drops the speech that a lost connection was taking: speech is not sent again. Speech whose result was not sent
// yet waits for the next connection.
func (d *speechDelivery) connectionLost(conn Conn) {
	s := d.session
	d.feeds = slices.DeleteFunc(d.feeds, func(f speechFeed) bool {
		if f.conn == conn {
			if !f.u.speech.isEmpty() {
				d.interrupt(f.u)
			}
			f.u.speech.discard(s.registry.audio)
		}
		return f.conn == conn
	})
	for _, u := range s.unfinished {
		if u.result.sent && u.speech.nextChunk > 0 && s.conn == conn {
			d.interrupt(u)
			u.speech.lose(s.registry.audio)
			s.dropUtterance(u)
		}
	}
}

// interrupt records that speech was cut off.
func (d *speechDelivery) interrupt(u *utterance) {
	if !slices.ContainsFunc(d.interrupted, func(i interruptedSpeech) bool { return i.job == u.job }) {
		d.interrupted = append(d.interrupted, interruptedSpeech{u.job, u.turn})
	}
}

// warnInterrupted warns a client that has resumed of the speech that was cut off, if it has the result: one that is sent again says
// itself that its speech is lost.
func (d *speechDelivery) warnInterrupted(received int64) {
	for _, i := range d.interrupted {
		if i.seq <= received {
			d.session.warn(wire.SpeechLost, i.job,
				"the spoken result of "+string(i.job)+" was cut off with the connection; it is not sent again")
		}
	}
	d.interrupted = nil
}

// lose gives up the speech of an utterance and warns the client, now or when it resumes.
func (d *speechDelivery) lose(u *utterance, why string) {
	u.speech.lose(d.session.registry.audio)
	if d.session.conn == nil && u.result.sent {
		d.interrupt(u)
		return
	}
	d.session.warn(wire.SpeechLost, u.job, "the spoken result of "+string(u.job)+" "+why)
}

// loseOverdue gives up speech that was promised and does not arrive.
func (d *speechDelivery) loseOverdue() {
	for _, u := range d.session.unfinished {
		if u.result.sent && time.Since(u.speech.progressAt) >= speechTimeout {
			d.lose(u, "was promised by its node and did not arrive")
			d.session.dropUtterance(u)
		}
	}
}

// DeliverSpeech delivers a chunk of a spoken result, the first with its format. The chunk waits for the result of its attempt,
// and is dropped with any other. It reports whether the speech can still be delivered to a session of this instance.
func (d *Directory) DeliverSpeech(h *wire.BinaryHeader, data []byte) bool {
	u := d.utterance(core.JobID(h.JobID))
	if u == nil {
		return false
	}
	s := u.session
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.speech.add(u, h, data)
}

// LoseSpeech gives up the speech of an attempt, a chunk of which was refused: its result says so, or the client is warned.
func (d *Directory) LoseSpeech(job wire.ActiveJob) {
	u := d.utterance(core.JobID(job.JobID))
	if u == nil {
		return
	}
	s := u.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.speech.accepts(u, job.AttemptID) || u.speech.lost {
		return
	}
	s.speech.lose(u, "is not in the format that its node declared")
	if u.result.sent && s.conn != nil {
		s.speech.send(u)
	}
}
