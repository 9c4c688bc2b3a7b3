package session

import (
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Seat is one connection's place in a session. Only the last that was taken speaks for the session: what an earlier
// connection had still in hand when it was replaced comes again over the next one.
type Seat struct {
	session *Session
	link    Link
}

// ID is the session's name.
func (t *Seat) ID() core.SessionID { return t.session.ref.Name }

// speak does what a message of this seat asks for, if the seat is the session's.
func (t *Seat) speak(fn func(s *Session) *wire.Error) *wire.Error {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != t.link || s.over {
		return nil
	}
	s.heard = time.Now()
	return fn(s)
}

// Leave notes that the connection is lost. The session waits for somebody to come back; so does an utterance that is
// open, because what is missing of it may be on its way.
func (t *Seat) Leave() {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hush(t.link)
	if s.link != t.link {
		return // it was replaced
	}
	s.link = nil
	for _, u := range s.spoken {
		u.voice.hush(s.rooms.Sounds)
	}
	if s.over {
		return
	}
	s.heard = time.Now()
	s.guard()
}

// Keepalive is a sign of life and nothing else.
func (t *Seat) Keepalive() { _ = t.speak(func(*Session) *wire.Error { return nil }) }

// Begin opens an utterance. One that is open is committed.
func (t *Seat) Begin(id string, src core.Lang, request core.RequestID) *wire.Error {
	return t.speak(func(s *Session) *wire.Error {
		if s.ending {
			return over()
		}
		if s.counted < s.cut {
			return nil // it is said again, of sound that was cut before: the numbers of its frames say where it belongs
		}
		s.commit(byHand)
		return s.begin(id, src, request)
	})
}

func over() *wire.Error {
	return wire.Errorf(wire.InvalidRequest, "the session was asked to end; start another one")
}

// Hear takes in audio. The error, if any, is the peer's fault.
func (t *Seat) Hear(w Words) *wire.Error {
	return t.speak(func(s *Session) *wire.Error {
		if s.ending {
			return over()
		}
		if w.Seq != 0 && w.Seq <= s.counted {
			s.acknowledge(false)
			return nil // it was sent again, and had arrived
		}
		if w.Seq > s.counted+1 {
			return wire.Invalid("seq", "the next audio frame is %d, not %d", s.counted+1, w.Seq)
		}
		s.counted++
		if e := s.hear(&w); e != nil {
			s.counted-- // what is refused does not count
			return e
		}
		s.acknowledge(false)
		return nil
	})
}

// Cancel gives up an utterance: the open one, or one whose terminal message has not come.
func (t *Seat) Cancel(id string, job core.JobID) *wire.Error {
	return t.speak(func(s *Session) *wire.Error {
		if u := s.open; u != nil && (id == "" && job == "" || id != "" && u.id == id) {
			s.drop(u)
			s.open, s.cut = nil, s.counted
			s.remember(u.id)
			s.change()
			return nil
		}
		for _, u := range s.turn {
			if u.job == job && job != "" || u.id == id && id != "" {
				s.giveUp(u)
				return nil
			}
		}
		return wire.Errorf(wire.NotFound, "there is no such utterance, or it has ended")
	})
}

// Update changes what holds from the next utterance on.
func (t *Seat) Update(src core.Lang, options *core.Options, u *wire.SessionUpdate) *wire.Error {
	return t.speak(func(s *Session) *wire.Error {
		next := s.set
		if src != "" {
			if _, ok := next.direction(src); !ok {
				return wire.Invalid("src_lang", "must be one of the session's languages")
			}
			next.Src = src
		}
		if u.Segmentation != nil {
			if e := next.segment(&s.rooms.cfg, u.Segmentation); e != nil {
				return e
			}
		}
		if u.Partials != nil {
			next.Partials = *u.Partials
		}
		if u.TTS != nil {
			next.TTS = *u.TTS
		}
		if options != nil {
			next.Options = *options
		}
		s.set, s.kept = next, nil
		s.change()
		return nil
	})
}

// End commits what is open and says goodbye when every utterance has its terminal message.
func (t *Seat) End() {
	_ = t.speak(func(s *Session) *wire.Error {
		s.commit(byEnd)
		s.ending = true
		s.farewell()
		return nil
	})
}

// remember notes the name of an utterance that has ended, to tell late audio by.
func (s *Session) remember(id string) {
	if id == "" {
		return
	}
	if s.past = append(s.past, id); len(s.past) > pastNames {
		s.past = slices.Delete(s.past, 0, 1)
	}
}
