package client

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Session is a session of the scheduler. Its methods may be called from any goroutine; audio is written by one at a time.
type Session struct {
	started   wire.SessionStarted
	log       *slog.Logger
	connector *connector
	sender    *sender
	receiver  *receiver
	events    *eventQueue

	ctx  context.Context // ends with the session; its cause is the reason
	stop context.CancelCauseFunc
	done chan struct{} // closed when the session's goroutine has ended
}

// Start connects and starts a session. The session ends when ctx ends. If the scheduler cannot be reached at any of its
// addresses, Start fails at once; an instance that is about to stop is retried a few times.
func Start(ctx context.Context, cfg Config) (*Session, error) {
	rotation, err := cfg.endpoints()
	if err != nil {
		return nil, err
	}
	if cfg.Start.Audio.Framing == "" {
		cfg.Start.Audio.Framing = wire.FramingNumbered // so that a lost or repeated frame is detected
	}
	if cfg.Start.ResumeToken == "" {
		cfg.Start.ResumeToken = rand.Text() // so that a start whose answer was lost can be repeated
	}
	if cfg.Start.KeepaliveMS == 0 {
		cfg.Start.KeepaliveMS = keepaliveMS
	}
	s := &Session{done: make(chan struct{}), events: newEventQueue()}
	s.ctx, s.stop = context.WithCancelCause(ctx)
	s.connector = &connector{cfg: cfg, ctx: s.ctx, http: cfg.httpClient(), endpoints: rotation}
	conn, err := s.connector.start()
	if err != nil {
		s.stop(err)
		s.connector.closeIdleConnections()
		return nil, err
	}
	s.started = s.connector.started
	s.log = cfg.log().With("session_id", s.started.SessionID)
	s.sender = newSender(s.ctx, &s.started)
	s.sender.token = cfg.TokenSource
	s.receiver = newReceiver(s.ctx, s.events, s.sender)
	go s.run(conn)
	return s, nil
}

// ID returns the session's id.
func (s *Session) ID() string { return s.started.SessionID }

// Limits returns the limits of the session. Write observes them by itself.
func (s *Session) Limits() wire.SessionLimits { return s.started.Limits }

// Events yields the events of the session until it is over. The last event is SessionEnded, or an error that tells why the
// session cannot continue. A loop that was left can be continued by another one. At most 8 MiB of events are buffered.
func (s *Session) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := s.events.take()
			if e == nil {
				if err != nil {
					yield(nil, err)
				}
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Write sends audio of the open utterance, or begins one. It splits audio into frames and waits while they would be too far
// ahead of real time, so that a file can be copied into a session. While the connection is lost it buffers audio up to a
// limit, and then waits. It returns when the session ends.
//
// Opus is neither split nor paced: each Write is one packet, and the caller writes in real time.
func (s *Session) Write(audio []byte) (int, error) { return s.sender.write(audio) }

// Begin sets the id, the request id and the language of the next utterance, which begins with the next audio. An open
// utterance is committed. Begin is optional: without it the settings of the session apply.
func (s *Session) Begin(u wire.UtteranceStart) error { return s.sender.begin(u) }

// Commit ends the open utterance. It does nothing if no audio was written since the last one.
func (s *Session) Commit() error { return s.sender.commit() }

// Cancel cancels an utterance whose result has not arrived, or the open one if c names none. The utterance then ends with
// UtteranceFailed and the reason CANCELLED.
func (s *Session) Cancel(c wire.SessionCancel) error { return s.sender.cancel(c) }

// Update changes settings of the session from the next utterance on.
func (s *Session) Update(u wire.SessionUpdate) error { return s.sender.sendFrame(u) }

// End ends the session: an open utterance is committed, pending results still arrive, and then SessionEnded. A second call
// does nothing.
func (s *Session) End() error { return s.sender.end() }

// Close closes the session at once. Pending results are lost; use End to receive them. Close may be called after the end,
// and more than once.
func (s *Session) Close() error {
	s.stop(ErrClosed)
	<-s.done
	return nil
}

// run is the goroutine of the session.
func (s *Session) run(conn *connection) {
	defer close(s.done)
	err := s.stayConnected(conn)
	switch {
	case errors.Is(err, errSessionEnded):
		err = nil
		s.stop(ErrEnded)
	case s.ctx.Err() != nil:
		err = context.Cause(s.ctx)
	default:
		s.stop(err)
	}
	s.events.end(err)
	s.connector.closeIdleConnections()
}

// stayConnected runs the session over as many connections as it takes. It returns why the session ended.
func (s *Session) stayConnected(conn *connection) error {
	tries := 0
	for {
		connectedAt := time.Now()
		err := s.serve(conn)
		if s.ctx.Err() != nil || !isRetryable(err) {
			return err
		}
		if time.Since(connectedAt) > maxBackoff {
			tries = 0 // not earlier: the scheduler may accept connections and close them at once
		}
		s.log.Info("connection lost", "error", err)
		if !s.events.put(s.ctx, Reconnecting{Err: err}, 0) {
			return err
		}
		if conn, tries, err = s.connector.resume(err, tries, s.receiver.lastSeq, s.applyResumed); err != nil {
			return err
		}
	}
}

// serve reads from a connection until it is lost or the session has ended, while the sender writes to it.
func (s *Session) serve(conn *connection) error {
	senderDone := make(chan struct{})
	go func() {
		defer close(senderDone)
		s.sender.run(conn)
	}()
	defer func() {
		conn.close()
		<-senderDone
	}()
	for {
		kind, body, err := conn.read(conn.ctx)
		if err != nil {
			return err
		}
		err = s.receiver.handle(conn, kind, body)
		if errors.Is(err, errSessionEnded) {
			conn.awaitClose()
		}
		if err != nil {
			return err
		}
	}
}

// applyResumed prepares the sender and the receiver for a resumed connection.
func (s *Session) applyResumed(r *wire.SessionResumed) error {
	resent, err := s.sender.rewind(r)
	if err != nil {
		return err
	}
	if !r.Recovered {
		s.receiver.lastSeq = min(s.receiver.lastSeq, r.LastSeq) // later messages were not received
	}
	s.log.Info("session resumed", "recovered", r.Recovered, "frames_resent", resent)
	if !s.events.put(s.ctx, SessionResumed{Recovered: r.Recovered, ResentFrames: resent}, 0) {
		return context.Cause(s.ctx)
	}
	return nil
}
