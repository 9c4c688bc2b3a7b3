package session

import (
	"crypto/rand"
	"slices"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// AudioFrame is one frame of audio, with what its client declares about its utterance.
type AudioFrame struct {
	Seq       int64 // 0: the next
	Utterance string
	Src       core.Lang
	Request   core.RequestID
	Data      []byte // the caller does not change it until the call returns
	Final     bool
	// Traceparent is the trace context of the client, if the frame begins an utterance. It is ignored if it is not valid.
	Traceparent string
}

// intake takes the audio of a session in: it counts frames, divides them into utterances, and commits an utterance when it
// ends. The session's mutex guards it.
type intake struct {
	session *Session

	received int64 // the number of the last audio frame that was taken in
	acked    int64 // the last frame that was acknowledged to the client
	fresh    int64 // from which frame on all came over this connection; 0: none did
	assigned int64 // the last frame that was assigned to an utterance; saved with the session
	open     *utterance
	replays  []*utterance // utterances that were committed on another instance and whose audio the client sends again, in order
	closed   closedUtterances
	// deferred is an utterance_start that came where audio is sent again: the number of the next frame says whether it is repeated, too.
	deferred *utteranceStart

	pace       paceLimiter
	noise      noiseFloor
	startLimit *rate.Limiter // of utterances that begin

	pauseTimer *time.Timer   // ends the open utterance when no audio arrives
	ping       string        // the payload of the ping that tells a pause from a stall; empty: none is under way
	pingLate   time.Duration // how long after the pause it was sent
	// due is when the message arrived that is handled now. An utterance that ends by a message should end then.
	due time.Time
}

const (
	// silenceSaveInterval is how often it is saved that silence belongs to no utterance while nothing else is saved: a client keeps the
	// audio that another instance could ask for.
	silenceSaveInterval = 5 * time.Second
	// maxPendingFactor times MaxUnanswered is how many utterances of a session may be pending before no more can begin. No
	// speaker gets there.
	maxPendingFactor = 4
	// ackInterval is after how many frames audio is acknowledged.
	ackInterval = 10
	// pongTimeout is how long a peer may take to answer a ping before its connection counts as stalled.
	pongTimeout = 5 * time.Second
	// partSeparator separates the request_id of an utterance from the number of its further part. No client can use it in an
	// id, so a part is never taken for a repetition of another request.
	partSeparator = "~"
)

// init prepares the intake of a new session.
func (in *intake) init(s *Session, now time.Time) {
	in.session, in.pace.last = s, now
	perSecond := s.registry.cfg.UtteranceRate
	in.startLimit = rate.NewLimiter(rate.Limit(perSecond), max(perSecond, s.registry.cfg.MaxUnanswered))
	in.pauseTimer = time.AfterFunc(time.Hour, in.checkPause)
	in.pauseTimer.Stop()
}

// stop drops all audio that belongs to no job yet.
func (in *intake) stop() {
	in.pauseTimer.Stop()
	if in.open != nil {
		in.open.releaseAudio()
		in.open = nil
	}
	for _, u := range in.replays {
		u.releaseAudio()
	}
}

// receive counts a frame of audio and takes it in. A frame that is refused is not counted.
func (in *intake) receive(f *AudioFrame) *wire.Error {
	if f.Seq != 0 && f.Seq <= in.received {
		in.acknowledge(false)
		if in.fresh != 0 && f.Seq >= in.fresh { // not sent again after a reconnect: the client counts in another way
			return wire.Invalid("seq", "audio frame %d came over this connection before; frames are numbered from 1 and through all "+
				"utterances, so the next is %d", f.Seq, in.received+1)
		}
		return nil // it was sent again, and had arrived
	}
	if f.Seq > in.received+1 {
		if !in.maySkipTo(f.Seq - 1) {
			return wire.Invalid("seq", "the next audio frame is %d, not %d", in.received+1, f.Seq)
		}
		in.received, in.fresh = f.Seq-1, 0
	}
	if start := in.deferred; start != nil {
		in.deferred = nil
		if in.received >= in.assigned {
			if e := in.openNext(start); e != nil {
				return e
			}
		}
	}
	in.received++
	if in.fresh == 0 {
		in.fresh = in.received
	}
	if e := in.assign(f); e != nil {
		in.received--
		return e
	}
	in.acknowledge(false)
	return nil
}

// assign gives the frame that was just counted to its utterance.
func (in *intake) assign(f *AudioFrame) *wire.Error {
	if in.received <= in.assigned {
		return in.assignReplay(f)
	}
	if f.Utterance != "" && (in.open == nil || in.open.id != f.Utterance) {
		if c := in.closed.find(f.Utterance); c != nil {
			return in.assignClosed(c, f)
		}
		if in.open != nil && in.open.id != "" {
			in.commit(utteranceEnd{reason: reasonManual, through: in.received - 1})
		}
	}
	if len(f.Data) > 0 {
		if e := in.addOrBegin(f); e != nil {
			return e
		}
	}
	if f.Final {
		in.endManually(f.Utterance)
	}
	return nil
}

// assignClosed handles audio that names an utterance which has ended. If its client ended it, the audio is late; otherwise it
// is a further part, so that no speech is lost.
func (in *intake) assignClosed(c *closedUtterance, f *AudioFrame) *wire.Error {
	if len(f.Data) == 0 {
		c.Final = c.Final || f.Final
		in.assignNone()
		return nil
	}
	if c.Final {
		in.session.warn(wire.LateAudio, "", "utterance "+f.Utterance+" has ended; audio after its end is dropped")
		in.assignNone()
		return nil
	}
	part := *c
	in.commit(utteranceEnd{reason: reasonManual, through: in.received - 1})
	if e := in.checkBegin(); e != nil {
		return e
	}
	in.beginPart(&part)
	in.open.counted = true
	if e := in.add(f); e != nil {
		in.open = nil // it has no audio
		return e
	}
	if part.Turn == 0 {
		in.closed.remove(part.Name) // it is open again
	}
	if f.Final {
		in.endManually(f.Utterance)
	}
	return nil
}

// assignNone records that the frame that was just counted belongs to no utterance and never will.
func (in *intake) assignNone() {
	if in.open == nil {
		in.assigned = in.received
		in.session.saver.markChanged()
	}
}

// addOrBegin adds audio to the open utterance, or begins one. The first audio of an utterance counts towards the limits, however the
// utterance was opened.
func (in *intake) addOrBegin(f *AudioFrame) *wire.Error {
	begun := false
	if in.open == nil || !in.open.counted {
		if e := in.checkBegin(); e != nil {
			return e
		}
	}
	if in.open == nil {
		if c := in.closed.continuable(); c != nil && f.Utterance == "" {
			in.beginPart(c)
		} else if e := in.begin(f.Utterance, f.Src, f.Request); e != nil {
			return e
		}
		in.open.traceparent = validTraceparent(f.Traceparent)
		begun = true
	}
	in.open.counted = true
	e := in.add(f)
	if e != nil && begun {
		in.open = nil // a refused frame begins no utterance
	}
	return e
}

// add adds audio to the open utterance, and commits the utterance if it ends with it.
func (in *intake) add(f *AudioFrame) *wire.Error {
	s, u := in.session, in.open
	maxAhead := s.registry.cfg.Ahead
	if u.id == "" {
		u.id = f.Utterance
	}
	if u.request == "" {
		u.request = f.Request
	}
	first := u.firstFrame(f.Data)
	if e := audio.CheckFrame(&s.settings.Format, first, f.Data); e != nil {
		return e
	}
	now, duration := time.Now(), audio.FrameDuration(&s.settings.Format, first, f.Data)
	// The duration that a packet declares may be too short for its size: then the size counts.
	if wait := in.pace.add(now, max(duration, time.Duration(len(f.Data))*time.Second/audio.MaxByteRate), maxAhead); wait > 0 {
		e := wire.Errorf(wire.RateLimited, "audio runs further ahead of real time than %s", maxAhead)
		return e.RetryIn(min(max(wait, 100*time.Millisecond), maxAhead))
	}
	if e := u.reserveAudio(len(f.Data)); e != nil {
		return e
	}
	rules := s.settings.segmentRules()
	reason, dropped := u.add(&s.settings.Format, &rules, &in.noise, audioPiece{in.received, slices.Clone(f.Data), duration, now})
	s.registry.audio.Release(dropped)
	if dropped > 0 {
		in.dropSilence(u)
	}
	if reason != "" {
		in.commit(utteranceEnd{reason: reason, through: in.received})
		return nil
	}
	in.awaitPause()
	return nil
}

// dropSilence records that the frames before the first one of an open utterance belong to none, unless its client described it: the
// client repeats its utterance_start only with its first frame.
func (in *intake) dropSilence(u *utterance) {
	if u.id != "" || u.request != "" || u.src != "" || u.continues != nil {
		return
	}
	in.assigned = max(in.assigned, u.firstSeq-1)
	if v := &in.session.saver; time.Since(v.savedAt) >= silenceSaveInterval {
		v.markChanged()
	}
}

// endManually ends the open utterance at its client's request. If a pause has ended it before, audio that follows is no
// further part. The name is that of an utterance that is open or not known, or empty.
func (in *intake) endManually(name string) {
	if in.open != nil {
		in.commit(utteranceEnd{reason: reasonManual, through: in.received, final: true})
		return
	}
	if c := in.closed.last(); c != nil && name == "" {
		c.Final = true
	}
	in.assignNone()
}

// utteranceEnd describes the end of an utterance.
type utteranceEnd struct {
	reason  string
	through int64 // the last audio frame that may belong to it
	final   bool  // its client ended it: audio that names it from now on is late
}

// commit closes the open utterance and makes a job of it. An utterance without audio, or with nothing but silence that its
// client did not close, makes no job, nor does the repetition of an earlier request.
func (in *intake) commit(end utteranceEnd) {
	u, s := in.open, in.session
	if u == nil {
		return
	}
	in.closeOpen(end.through)
	if len(u.frames) == 0 || !u.hasSpeech && end.reason != reasonManual {
		in.discard(u, end)
		return
	}
	if u.request == "" {
		u.request = core.RequestID(string(s.ref.Name) + ":" + strconv.FormatInt(u.firstSeq, 10))
	}
	if first := s.requests.find(u.request); first != nil {
		end.final = true
		in.discard(u, end)
		s.warn(wire.DuplicateRequest, first.job,
			"request_id "+string(u.request)+" was used before in this session; the job is "+string(first.job))
		return
	}
	s.assignTurn(u, end.reason)
	in.closed.add(u, end)
	s.registry.metrics.CountUtterance(end.reason)
	s.submit(u)
	in.observeCommit(u)
}

// closeOpen makes the open utterance no longer the open one: no frame after through belongs to it.
func (in *intake) closeOpen(through int64) {
	in.open, in.ping = nil, ""
	in.pauseTimer.Stop()
	in.assigned = through
}

// discard drops an utterance that makes no job.
func (in *intake) discard(u *utterance, end utteranceEnd) {
	u.releaseAudio()
	in.closed.add(u, end)
	in.session.saver.markChanged()
}

// acknowledge acknowledges the audio that was received: now, or after every ackInterval frames.
func (in *intake) acknowledge(now bool) {
	conn := in.session.conn
	if conn != nil && (now && in.received > in.acked || in.received >= in.acked+ackInterval) {
		in.acked = in.received
		conn.Send(wire.AudioAck{Seq: in.received})
	}
}

// hasOpenAudio reports whether an utterance is open that has audio.
func (in *intake) hasOpenAudio() bool { return in.open != nil && len(in.open.frames) > 0 }

// connectionChanged restarts the wait for a pause over another connection.
func (in *intake) connectionChanged(now time.Time) {
	in.deferred, in.fresh = nil, 0 // the client sends again what is needed
	if in.hasOpenAudio() {
		in.open.receivedAt = now
		in.awaitPause()
	}
}

// connectionLost stops the wait for a pause: the rest of the open utterance may arrive over the next connection.
func (in *intake) connectionLost() {
	in.ping, in.deferred = "", nil
	in.pauseTimer.Stop()
}

// awaitPause starts the wait for the pause that ends the open utterance, unless only its client ends it.
func (in *intake) awaitPause() {
	in.ping = ""
	if in.session.settings.Manual {
		in.pauseTimer.Stop()
	} else {
		in.pauseTimer.Reset(in.session.settings.Pause)
	}
}

// checkPause runs when no audio has arrived for the length of a pause. The speaker may pause, or audio may be stuck on its
// way: a ping tells them apart. The connection keeps the order of what is sent, so when the pong arrives with no audio
// before it, none was on its way. While the connection is lost, the rest may arrive over the next one.
func (in *intake) checkPause() {
	s := in.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished || s.conn == nil || !in.hasOpenAudio() || s.settings.Manual {
		return
	}
	if left := s.settings.Pause - time.Since(in.open.receivedAt); left > 0 {
		in.pauseTimer.Reset(left)
		return
	}
	if in.ping != "" { // the pong is overdue
		in.ping = ""
		s.conn.Close(wire.CloseSlow, wire.Errorf(wire.DeadlineExceeded,
			"no audio arrived, and a ping was not answered within %s: connect again and resume; the utterance is still open", pongTimeout))
		return
	}
	in.ping, in.pingLate = rand.Text(), time.Since(in.open.receivedAt)-s.settings.Pause
	s.registry.metrics.PauseProbes.Inc()
	s.conn.Ping([]byte(in.ping))
	in.pauseTimer.Reset(pongTimeout)
}

// pong handles the answer to a ping: with no audio before it, the pause is one.
func (in *intake) pong(payload []byte, arrived time.Time) {
	if in.ping != "" && string(payload) == in.ping && in.open != nil {
		in.due = arrived.Add(-in.pingLate) // the time of the ping and the pong is the network's
		in.commit(utteranceEnd{reason: reasonPause, through: in.received})
	}
}

// paceLimiter limits how far audio may run ahead of real time. Time without audio earns nothing; time without a connection
// does, as credit, because the audio of that time arrives at once.
type paceLimiter struct {
	ahead  time.Duration
	credit time.Duration
	last   time.Time
}

// add adds audio of a duration. It returns 0, or, when the audio arrived too fast and was not added, after how long it may
// be sent again.
func (p *paceLimiter) add(now time.Time, d, limit time.Duration) (wait time.Duration) {
	p.ahead = max(0, p.ahead-now.Sub(p.last))
	p.last = now
	over := p.ahead + d - limit
	if over > p.credit {
		return over - p.credit
	}
	if over > 0 {
		p.credit -= over
		d -= over
	}
	p.ahead += d
	return 0
}
