package client

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Session is a conversation. Its methods may be called from any goroutine; audio is written by one at a time.
type Session struct {
	cfg     Config
	http    *http.Client
	log     *slog.Logger
	started wire.SessionStarted
	sound   sound

	ctx   context.Context // ends with the session; its cause says why
	stop  context.CancelCauseFunc
	gone  chan struct{} // closed when the session's goroutine is
	inbox *inbox

	// These are of the session's goroutine alone.
	where   addresses
	heard   heard
	haunted bool // a first message was sent and not answered: it may still replace the next connection

	more chan struct{} // holds one token when there may be something to send

	mu    sync.Mutex // guards what follows
	out   journal
	pace  pace
	rest  []byte              // the beginning of a sample whose end was not written yet
	begin wire.UtteranceStart // what the next utterance is called
	open  bool                // audio was written since the last utterance was ended from here
	ended bool                // End was called
	got   int64               // the last durable message that came
	acked int64               // the last that was acknowledged
	first []wire.Frame        // what a resumed connection begins with
	room  chan struct{}       // closed when there may be room again; nil: nobody waits
}

// Start connects and begins a session. The context is the whole session's: when it ends, so does the session. A
// scheduler that cannot be reached, at any of its addresses, is an error at once; one that is about to stop is asked again
// a few times.
func Start(ctx context.Context, cfg Config) (*Session, error) {
	where, err := cfg.addresses()
	if err != nil {
		return nil, err
	}
	s := &Session{
		cfg: cfg, where: where, http: cfg.httpClient(), log: cfg.log(),
		gone: make(chan struct{}), more: make(chan struct{}, 1), inbox: newInbox(), heard: newHeard(),
	}
	if s.cfg.Start.Audio.Framing == "" {
		s.cfg.Start.Audio.Framing = wire.FramingNumbered // so that no frame can stand in for another
	}
	if s.cfg.Start.ResumeToken == "" {
		s.cfg.Start.ResumeToken = rand.Text() // so that a start whose answer was lost can be said again
	}
	s.ctx, s.stop = context.WithCancelCause(ctx)
	l, err := s.begun()
	if err != nil {
		s.stop(err)
		s.disconnect()
		return nil, err
	}
	s.log = s.log.With("session_id", s.started.SessionID)
	s.sound = soundOf(s.started.Audio.Format(), s.started.Limits)
	s.pace = paceOf(s.started.Limits)
	s.out = newJournal(keepFor(s.started.Limits))
	go s.run(l)
	return s, nil
}

// keepFor is how long audio can be asked for again: it is at most as old as an utterance is long when that ends, which
// then has its terminal message in time, or after a resumption. 0: a limit is not known.
func keepFor(l wire.SessionLimits) time.Duration {
	if l.UtteranceMS <= 0 || l.ResultTimeoutMS <= 0 || l.ResumeMS <= 0 {
		return 0
	}
	return milliseconds(l.UtteranceMS) + milliseconds(l.ResultTimeoutMS) + 2*milliseconds(l.ResumeMS)
}

// milliseconds is a time the scheduler named: no longer than a day, which nothing here lasts.
func milliseconds(ms int64) time.Duration {
	const day = 24 * time.Hour
	return time.Duration(min(max(ms, 0), day.Milliseconds())) * time.Millisecond
}

// ID is the session's id.
func (s *Session) ID() string { return s.started.SessionID }

// Limits is what the session must keep to. Write does so by itself.
func (s *Session) Limits() wire.SessionLimits { return s.started.Limits }

// Events yields what comes, until the session is over: after Ended, or with an error that says why it will not go on.
// A loop that was left can be taken up again. Up to 8 MiB wait to be read.
func (s *Session) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := s.inbox.take()
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

// Close drops the session at once. Results that are still to come are lost to this program; use End to wait for them.
// It may be called after the end, and more than once.
func (s *Session) Close() error {
	s.stop(ErrClosed)
	<-s.gone
	return nil
}

// run is the session's goroutine.
func (s *Session) run(l *link) {
	defer close(s.gone)
	err := s.live(l)
	switch {
	case errors.Is(err, errOver):
		err = nil
		s.stop(ErrEnded)
	case s.ctx.Err() != nil:
		err = context.Cause(s.ctx)
	default:
		s.stop(err)
	}
	s.inbox.end(err)
	s.disconnect()
}

// disconnect leaves no idle connection behind, unless it is somebody else's.
func (s *Session) disconnect() {
	if s.cfg.HTTPClient == nil {
		s.http.CloseIdleConnections()
	}
}
