package session

import (
	"bytes"
	"slices"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// mostSpeech bounds what is kept of a spoken result that waits for its turn, or for its listener.
const mostSpeech = 4 << 20

// voice is the speech of an utterance on its way to the session: whole binary frames. A connection takes them as they
// can be written, with a lock of its own held, so the frames have a lock of their own too.
type voice struct {
	attempt int  // whose speech it is
	chunk   int  // the next piece of it
	whole   bool // its last piece has come
	lost    bool // a piece of it will never come to its listener

	mu     sync.Mutex
	frames [][]byte
	bytes  int
	fed    bool // a connection takes the frames
}

// push adds a frame if there is room for it.
func (v *voice) push(sounds *Sounds, frame []byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bytes+len(frame) > mostSpeech || !sounds.take(len(frame)) {
		return false
	}
	v.frames, v.bytes = append(v.frames, frame), v.bytes+len(frame)
	return true
}

// drop drops what was not taken.
func (v *voice) drop(sounds *Sounds) {
	v.mu.Lock()
	defer v.mu.Unlock()
	sounds.give(v.bytes)
	v.frames, v.bytes = nil, 0
}

// lose drops the speech: what is left of it would be none.
func (v *voice) lose(sounds *Sounds) {
	v.drop(sounds)
	v.lost, v.whole = true, true
}

// restart waits for the speech of another attempt.
func (v *voice) restart(sounds *Sounds, attempt int) {
	v.drop(sounds)
	v.attempt, v.chunk, v.whole, v.lost = attempt, 0, false, false
}

// isLost reports whether the speech of an attempt cannot come whole any more.
func (v *voice) isLost(attempt int) bool { return v.attempt == attempt && v.lost }

// feed has a link take the frames, unless it does.
func (v *voice) feed(sounds *Sounds, link Link) {
	v.mu.Lock()
	idle := !v.fed && len(v.frames) > 0
	v.fed = v.fed || idle
	v.mu.Unlock()
	if idle && !link.Feed(func() []byte { return v.next(sounds) }) {
		v.drop(sounds)
	}
}

// next hands out a frame, nil when there is none for now.
func (v *voice) next(sounds *Sounds) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.frames) == 0 {
		v.fed = false
		return nil
	}
	frame := v.frames[0]
	v.frames, v.bytes = v.frames[1:], v.bytes-len(frame)
	sounds.give(len(frame))
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
	link Link
	*voice
}

// hush drops the speech that a link was taking when it was lost: it is not repeated. Speech whose result was not sent yet
// waits for the next link.
func (s *Session) hush(link Link) {
	s.voices = slices.DeleteFunc(s.voices, func(f feeding) bool {
		if f.link == link {
			f.drop(s.rooms.Sounds)
		}
		return f.link == link
	})
	for _, u := range s.spoken {
		if u.ended && u.voice.chunk > 0 && s.link == link {
			u.voice.lose(s.rooms.Sounds)
		}
	}
}

// Speak passes on a piece of a spoken result: a whole binary frame. It waits for the result it belongs to, and goes with
// no other. It reports whether anybody here may hear it.
func (r *Rooms) Speak(h *wire.BinaryHeader, frame []byte) bool {
	u := r.utterance(core.JobID(h.JobID))
	if u == nil {
		return false
	}
	s, v := u.session, &u.voice
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || !s.set.TTS || h.AttemptID < v.attempt || u.ended && h.AttemptID != u.stands {
		return false // nobody listens, or its result is not the one that stands
	}
	if h.AttemptID > v.attempt {
		v.restart(r.Sounds, h.AttemptID)
	}
	if h.Chunk < v.chunk || v.lost {
		return !v.lost // it is here already, if it was not lost
	}
	gap := h.Chunk != v.chunk
	v.chunk, v.whole = h.Chunk+1, h.Last
	if gap || u.ended && s.link == nil || !v.push(r.Sounds, bytes.Clone(frame)) {
		v.lose(r.Sounds)
		s.warn("SPEECH_LOST", "the spoken result of "+h.JobID+" has a gap, or is too large to wait")
	}
	if u.ended && s.link != nil {
		s.voiced(u)
	}
	return !v.lost
}

// voiced passes on the speech of an utterance whose result has been sent.
func (s *Session) voiced(u *utterance) {
	s.rooms.counts.Messages.WithLabelValues("speech").Inc()
	s.voices = append(slices.DeleteFunc(s.voices, func(f feeding) bool { return f.voice == &u.voice || f.silent() }), feeding{s.link, &u.voice})
	u.voice.feed(s.rooms.Sounds, s.link)
	if u.voice.whole {
		s.forget(u) // what a connection still takes it has
		s.farewell()
	}
}
