package session

import (
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Seat is one connection's place in a session. Only the last that was taken speaks for the session: what an earlier
// connection had still in hand when it was replaced comes again over the next one.
type Connection struct {
	session  *Session
	link     Conn
	numbered bool
}

// ID is the session's name.
func (t *Connection) ID() core.SessionID { return t.session.ref.Name }

// speak does what a message of this seat asks for, if the seat is the session's.
func (t *Connection) speak(fn func(s *Session) *wire.Error) *wire.Error {
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
func (t *Connection) Detach() {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hush(t.link)
	if s.link != t.link {
		return // it was replaced
	}
	s.link, s.probe = nil, ""
	s.pause.Stop()
	if s.over {
		return
	}
	s.heard = time.Now()
	s.guard()
}

// Numbered reports whether the session's binary frames begin with their sequence number.
func (t *Connection) Numbered() bool { return t.numbered }

const (
	// controlRate is how many messages that are not audio a session may send each second, and controlBurst how many at once.
	controlRate  = 20
	controlBurst = 200
)

// steer does what a message that is not audio asks for, unless there are too many of them.
func (t *Connection) steer(fn func(s *Session) *wire.Error) *wire.Error {
	return t.speak(func(s *Session) *wire.Error {
		if !s.control.Allow() {
			return wire.Errorf(wire.RateLimited, "at most %d messages a second that are not audio", controlRate).RetryIn(time.Second)
		}
		return fn(s)
	})
}

// Keepalive is a sign of life and nothing else.
func (t *Connection) Keepalive() { _ = t.speak(func(*Session) *wire.Error { return nil }) }

// Confirm takes in that the client has the durable messages up to a position.
func (t *Connection) AckResults(seq int64) *wire.Error {
	return t.speak(func(s *Session) *wire.Error {
		if seq > s.sent {
			return wire.Invalid("seq", "no message after %d was sent", s.sent)
		}
		s.confirm(seq)
		return nil
	})
}

// AudioGone takes in that the client does not have the audio of an utterance any more.
func (t *Connection) AudioGone(index int64) *wire.Error {
	return t.steer(func(s *Session) *wire.Error {
		u := s.turn[index+1]
		if u == nil {
			return wire.FieldErrorf(wire.NotFound, "utterance_index", "there is no such utterance, or it has ended")
		}
		if u.told || !slices.Contains(s.again, u) {
			return nil // its audio is not needed
		}
		u.noAudio = true
		s.drop(u)
		s.skipMissing()
		s.expire(u, core.ReasonAudioLost)
		return nil
	})
}

// Begin opens an utterance. One that is open is committed.
func (t *Connection) Begin(id string, src core.Lang, request core.RequestID) *wire.Error {
	return t.steer(func(s *Session) *wire.Error {
		if s.ending {
			return over()
		}
		if s.counted < s.cut {
			return nil // it is repeated, with audio that was cut before: the numbers of its frames say where it belongs
		}
		if s.open != nil && s.open.id == id && id != "" {
			return nil // it is repeated
		}
		s.commit(ending{reason: byHand, through: s.counted})
		if c := s.recall(id); c != nil && !c.Final && c.Turn > 0 {
			s.beginPart(c)
			return nil
		}
		return s.begin(id, src, request)
	})
}

func over() *wire.Error {
	return wire.Errorf(wire.InvalidRequest, "the session was asked to end; start another one")
}

// Hear takes in audio. The error, if any, is the peer's fault.
func (t *Connection) Audio(w AudioFrame) *wire.Error {
	return t.speak(func(s *Session) *wire.Error {
		if s.ending {
			return over()
		}
		if w.Seq != 0 && w.Seq <= s.counted {
			s.acknowledge(false)
			return nil // it was sent again, and had arrived
		}
		if w.Seq > s.counted+1 {
			if !s.mayGoOnAfter(w.Seq - 1) {
				return wire.Invalid("seq", "the next audio frame is %d, not %d", s.counted+1, w.Seq)
			}
			s.counted = w.Seq - 1
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

// Cancel gives up an utterance: the open one, or one whose terminal message has not come. One that is named is given up
// with all its parts; audio that names it from now on is late.
func (t *Connection) Cancel(id string, job core.JobID) *wire.Error {
	return t.steer(func(s *Session) *wire.Error {
		var first int64 // the turn of its first part; 0: none is committed
		u := s.open
		open := u != nil && (id == "" && job == "" || id != "" && u.id == id)
		if open {
			s.drop(u)
			s.pause.Stop()
			s.open, s.probe, s.cut = nil, "", s.counted
			s.remember(u, ending{reason: byCancel, final: true})
			s.change()
			if first = u.firstPart(); id == "" || first == 0 {
				return nil
			}
		}
		waiting := s.waiting()
		for _, u := range waiting {
			if !open && (u.job == job && job != "" || u.id == id && id != "") {
				first = u.firstPart() // of the last that has the name, if it was used again
			}
		}
		if first == 0 {
			return wire.Errorf(wire.NotFound, "there is no such utterance, or it has ended")
		}
		for _, u := range waiting {
			if u.firstPart() == first && (u.job == job || id != "") {
				s.giveUp(u)
			}
		}
		s.closeFinally(first)
		return nil
	})
}

// Update changes what holds from the next utterance on.
func (t *Connection) Update(src core.Lang, options *core.Options, u *wire.SessionUpdate) *wire.Error {
	return t.steer(func(s *Session) *wire.Error {
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
			if e := s.setOptions(*options); e != nil {
				return e
			}
		}
		other := next.Manual != s.set.Manual
		s.set = next
		if other && s.open != nil && len(s.open.pieces) > 0 {
			s.awaitPause() // or do not any more
		}
		s.change()
		return nil
	})
}

// End commits what is open and says goodbye when every utterance has its terminal message.
func (t *Connection) End() {
	_ = t.speak(func(s *Session) *wire.Error {
		s.commit(ending{reason: byEnd, through: s.counted, final: true})
		s.ending = true
		s.farewell()
		return nil
	})
}
