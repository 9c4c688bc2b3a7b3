package session

import (
	"slices"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// mostSpeech bounds what is kept of a spoken result that waits for its turn, or for its listener.
const mostSpeech = 4 << 20

// voice is the speech of an utterance on its way to the session: whole binary frames. A connection takes them as they
// can be written, with a lock of its own held, so the frames have a lock of their own too.
type voice struct {
	attempt int              // whose speech it is
	chunk   int              // the next piece of it
	whole   bool             // its last piece has come
	lost    bool             // a piece of it will never come to its listener
	format  wire.AudioFormat // once its first piece has come
	moved   time.Time        // when its result was sent, or its last piece came after that

	mu     sync.Mutex
	frames [][]byte
	bytes  int
	fed    bool // a connection takes the frames
}

// push adds a frame if there is room for it.
func (v *voice) push(sounds *audio.Buffer, frame []byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bytes+len(frame) > mostSpeech || !sounds.Reserve(len(frame)) {
		return false
	}
	v.frames, v.bytes = append(v.frames, frame), v.bytes+len(frame)
	return true
}

// drop drops what was not taken.
func (v *voice) drop(sounds *audio.Buffer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	sounds.Release(v.bytes)
	v.frames, v.bytes = nil, 0
}

// lose drops the speech: what is left of it would be none.
func (v *voice) lose(sounds *audio.Buffer) {
	v.drop(sounds)
	v.lost, v.whole = true, true
}

// restart waits for the speech of another attempt.
func (v *voice) restart(sounds *audio.Buffer, attempt int) {
	v.drop(sounds)
	v.attempt, v.chunk, v.whole, v.lost = attempt, 0, false, false
}

// isLost reports whether the speech of an attempt cannot come whole any more.
func (v *voice) isLost(attempt int) bool { return v.attempt == attempt && v.lost }

// formatOf is the format of an attempt's speech: that of the speech itself if it began to come, else what its node declared.
func (v *voice) formatOf(e *envelope) wire.AudioFormat {
	switch {
	case v.attempt == e.Attempt && v.chunk > 0:
		return v.format
	case e.Audio != nil:
		return e.Audio.OrDefault()
	}
	return wire.AudioFormat{}.OrDefault()
}

// feed has a link take the frames, unless it does.
func (v *voice) feed(sounds *audio.Buffer, link Conn) {
	v.mu.Lock()
	idle := !v.fed && len(v.frames) > 0
	v.fed = v.fed || idle
	v.mu.Unlock()
	if idle && !link.Feed(func() []byte { return v.next(sounds) }) {
		v.drop(sounds)
	}
}

// next hands out a frame, nil when there is none for now.
func (v *voice) next(sounds *audio.Buffer) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.frames) == 0 {
		v.fed = false
		return nil
	}
	frame := v.frames[0]
	v.frames, v.bytes = v.frames[1:], v.bytes-len(frame)
	sounds.Release(len(frame))
	return frame
}

// silent reports whether there is nothing left of it.
func (v *voice) silent() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.frames) == 0
}

// feeding is speech that a link is taking.
type feeding struct {
	link Conn
	*voice
}

// hush drops the speech that a link was taking when it was lost: it is not repeated. Speech whose result was not sent yet
// waits for the next link.
func (s *Session) hush(link Conn) {
	s.voices = slices.DeleteFunc(s.voices, func(f feeding) bool {
		if f.link == link {
			f.drop(s.rooms.audio)
		}
		return f.link == link
	})
	for _, u := range s.spoken {
		if u.ended && u.voice.chunk > 0 && s.link == link {
			u.voice.lose(s.rooms.audio)
			s.forget(u)
		}
	}
}

// Speak passes on a piece of a spoken result, the first with its format. It waits for the result it belongs to, and goes
// with no other. It reports whether anybody here may hear it.
func (d *Directory) Speak(h *wire.BinaryHeader, data []byte) bool {
	u := d.utterance(core.JobID(h.JobID))
	if u == nil {
		return false
	}
	s, v := u.session, &u.voice
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.awaitsSpeech(u, h.AttemptID) {
		return false
	}
	if h.Chunk < v.chunk || v.lost {
		return !v.lost // it is here already, if it was not lost
	}
	head := *h
	if head.Audio = nil; h.Chunk == 0 {
		if v.format = (wire.AudioFormat{}).OrDefault(); h.Audio != nil {
			v.format = h.Audio.OrDefault()
		}
		head.Audio = &v.format
	}
	frame, err := wire.AppendBinary(nil, &head, data)
	gap := h.Chunk != v.chunk || err != nil
	v.chunk, v.whole, v.moved = h.Chunk+1, h.Last, time.Now()
	if gap || u.ended && s.link == nil || !v.push(d.audio, frame) {
		s.loseSpeech(u, "has a gap, or is too large to wait")
	}
	switch {
	case u.ended && s.link != nil:
		s.voiced(u)
	case u.ended:
		s.forget(u)
	}
	return !v.lost
}

// awaitsSpeech reports whether somebody may hear the speech of an attempt, and makes ready for it.
func (s *Session) awaitsSpeech(u *utterance, attempt int) bool {
	v := &u.voice
	if s.over || !s.set.TTS || attempt < v.attempt || u.ended && attempt != u.stands {
		return false // nobody listens, or its result is not the one that stands
	}
	if attempt > v.attempt {
		v.restart(s.rooms.audio, attempt)
	}
	return true
}

// loseSpeech gives up the speech of an utterance.
func (s *Session) loseSpeech(u *utterance, why string) {
	u.voice.lose(s.rooms.audio)
	s.warn("SPEECH_LOST", "the spoken result of "+string(u.job)+" "+why)
}

// speechWithin is how long the next piece of speech is waited for after its result, or after the last piece.
const speechWithin = time.Minute

// loseLateSpeech gives up speech that was promised and does not come.
func (s *Session) loseLateSpeech() {
	for _, u := range s.spoken {
		if u.ended && time.Since(u.voice.moved) >= speechWithin {
			s.loseSpeech(u, "was promised by its node and did not come")
			s.forget(u)
		}
	}
}

// LoseSpeech gives up the speech of an attempt, a piece of which was refused: its result says so, or its listener is warned.
func (d *Directory) LoseSpeech(job wire.ActiveJob) {
	u := d.utterance(core.JobID(job.JobID))
	if u == nil {
		return
	}
	s := u.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.awaitsSpeech(u, job.AttemptID) || u.voice.lost {
		return
	}
	s.loseSpeech(u, "is not what its node says it is")
	if u.ended && s.link != nil {
		s.voiced(u)
	}
}

// voiced passes on the speech of an utterance whose result has been sent.
func (s *Session) voiced(u *utterance) {
	s.rooms.counts.Messages.WithLabelValues("speech").Inc()
	s.voices = append(slices.DeleteFunc(s.voices, func(f feeding) bool { return f.voice == &u.voice || f.silent() }), feeding{s.link, &u.voice})
	u.voice.feed(s.rooms.audio, s.link)
	if u.voice.whole {
		s.forget(u) // what a connection still takes it has
		s.farewell()
	}
}
