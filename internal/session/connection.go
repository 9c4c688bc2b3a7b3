package session

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Conn is the connection over which a session's messages are sent. It never blocks: when it cannot take a message it closes.
type Conn interface {
	Send(f wire.Frame) bool
	// SendText sends a frame that is already encoded.
	SendText(text []byte) bool
	// Feed sends binary frames as the connection can write them: next returns one after the other, nil when there is none for
	// now.
	Feed(next func() []byte) bool
	// Ping asks the other side for a pong with the same payload, which is passed to Connection.Pong.
	Ping(payload []byte) bool
	Close(code wire.CloseCode, e *wire.Error)
	// SendFinal sends a last frame, after everything that is queued, and closes the connection.
	SendFinal(f wire.Frame)
	// Done is closed when the connection has ended.
	Done() <-chan struct{}
}

// Connection is one connection of a session's client. Only the latest connection acts for the session: what an earlier one has
// not delivered when it is replaced is sent again over the new one.
type Connection struct {
	session  *Session
	conn     Conn
	numbered bool
}

// ID is the session's name.
func (c *Connection) ID() core.SessionID { return c.session.ref.Name }

// Numbered reports whether the session's binary frames begin with their sequence number.
func (c *Connection) Numbered() bool { return c.numbered }

// Detach records that the connection is lost. The session can be resumed.
func (c *Connection) Detach() { c.session.detach(c.conn) }

const (
	// controlRate is how many messages that are not audio a session may send each second, and controlBurst how many at once.
	controlRate  = 20
	controlBurst = 200
)

// handle handles a message of the client, if the connection is the session's.
func (c *Connection) handle(fn func(s *Session) *wire.Error) *wire.Error {
	s, arrived := c.session, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c.conn || s.finished {
		return nil
	}
	s.monitor.lastReceived, s.intake.due = arrived, arrived
	return fn(s)
}

// handleControl handles a message that is not audio, unless there are too many of them.
func (c *Connection) handleControl(fn func(s *Session) *wire.Error) *wire.Error {
	return c.handle(func(s *Session) *wire.Error {
		if !s.controlLimit.Allow() {
			return wire.Errorf(wire.RateLimited, "at most %d messages a second that are not audio", controlRate).RetryIn(time.Second)
		}
		return fn(s)
	})
}

// AllowControl counts a message that is not audio, and returns an error if there are too many of them. It is for work that precedes the
// message's own method.
func (c *Connection) AllowControl() *wire.Error {
	return c.handleControl(func(*Session) *wire.Error { return nil })
}

// Keepalive handles a message that only shows that the client uses the session.
func (c *Connection) Keepalive() { _ = c.handle(func(*Session) *wire.Error { return nil }) }

// Pong handles the answer to a ping. It does not count as a message of the client, whose library answers pings even when the
// session is no longer used.
func (c *Connection) Pong(payload []byte) {
	s, arrived := c.session, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c.conn && !s.finished {
		s.intake.pong(payload, arrived)
	}
}

// AckResults records that the client has the durable messages up to a position.
func (c *Connection) AckResults(seq int64) *wire.Error {
	return c.handle(func(s *Session) *wire.Error {
		if seq > s.outbox.sent {
			return wire.Invalid("seq", "no message after %d was sent", s.outbox.sent)
		}
		s.outbox.confirm(seq)
		return nil
	})
}

// AudioGone records that the client no longer has the audio of an utterance.
func (c *Connection) AudioGone(index int64) *wire.Error {
	return c.handleControl(func(s *Session) *wire.Error {
		u := s.outbox.pending[index+1]
		if u == nil {
			return wire.FieldErrorf(wire.NotFound, "utterance_index", "there is no such utterance, or it has ended")
		}
		if u.result.stored || !s.intake.isReplaying(u) {
			return nil // its audio is not needed
		}
		u.audioLost = true
		u.releaseAudio()
		s.intake.skipMissing()
		s.expireUtterance(u, core.ReasonAudioLost)
		return nil
	})
}

// Begin opens an utterance. One that is open is committed.
func (c *Connection) Begin(id string, src core.Lang, request core.RequestID) *wire.Error {
	return c.BeginTraced(id, src, request, "")
}

// BeginTraced is Begin with the trace context of the client, which is ignored if it is not valid.
func (c *Connection) BeginTraced(id string, src core.Lang, request core.RequestID, traceparent string) *wire.Error {
	return c.handleControl(func(s *Session) *wire.Error {
		in := &s.intake
		if s.end.requested {
			return endRequested()
		}
		if in.open != nil && in.open.id == id && id != "" {
			return nil // it is repeated
		}
		if _, e := s.settings.direction(src); e != nil {
			return e // and the open utterance stays open
		}
		start := &utteranceStart{id: id, src: src, request: request, traceparent: validTraceparent(traceparent)}
		if in.received < in.assigned {
			in.deferred = start
			return nil
		}
		return in.openNext(start)
	})
}

// Audio takes a frame of audio in. The error, if any, is the client's fault.
func (c *Connection) Audio(f AudioFrame) *wire.Error {
	return c.handle(func(s *Session) *wire.Error {
		if s.end.requested {
			return endRequested()
		}
		return s.intake.receive(&f)
	})
}

// Cancel cancels an utterance: the open one, or one whose terminal message was not sent. An utterance that is named is
// cancelled with all its parts; audio that names it from now on is late.
func (c *Connection) Cancel(id string, job core.JobID) *wire.Error {
	return c.handleControl(func(s *Session) *wire.Error {
		var first int64 // the turn of its first part; 0: none is committed
		in, u := &s.intake, s.intake.open
		open := u != nil && (id == "" && job == "" || id != "" && u.id == id)
		if open {
			in.closeOpen(in.received)
			in.discard(u, utteranceEnd{reason: reasonCancel, final: true})
			if first = u.firstPartTurn(); id == "" || first == 0 {
				return nil
			}
		}
		pending := s.outbox.pendingInOrder()
		for _, u := range pending {
			if !open && (u.job == job && job != "" || u.id == id && id != "") {
				first = u.firstPartTurn() // of the last with the name, if the name was used again
			}
		}
		if first == 0 {
			return wire.Errorf(wire.NotFound, "there is no such utterance, or it has ended")
		}
		for _, u := range pending {
			if u.firstPartTurn() == first && (u.job == job || id != "") {
				s.cancelUtterance(u)
			}
		}
		if in.closed.finalize(first) {
			s.saver.markChanged()
		}
		return nil
	})
}

// Update changes settings from the next utterance on.
func (c *Connection) Update(src core.Lang, options *core.Options, u *wire.SessionUpdate) *wire.Error {
	return c.handleControl(func(s *Session) *wire.Error {
		next := s.settings
		if src != "" {
			if _, e := next.direction(src); e != nil {
				return e
			}
			next.Src = src
		}
		if u.Segmentation != nil {
			if e := next.setSegmentation(&s.registry.cfg, u.Segmentation); e != nil {
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
		modeChanged := next.Manual != s.settings.Manual
		s.settings = next
		if modeChanged && s.intake.hasOpenAudio() {
			s.intake.awaitPause()
		}
		s.saver.markChanged()
		return nil
	})
}

// End commits the open utterance, and ends the session when every utterance has its terminal message.
func (c *Connection) End() (first bool) {
	_ = c.handle(func(s *Session) *wire.Error {
		first = !s.end.requested
		s.intake.commit(utteranceEnd{reason: reasonEnd, through: s.intake.received, final: true})
		s.end.requested = true
		s.endIfComplete()
		return nil
	})
	return first
}

func endRequested() *wire.Error {
	return wire.Errorf(wire.InvalidRequest, "the session was asked to end; start another one")
}
