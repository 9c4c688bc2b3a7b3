package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/lingua-scheduler/lingua/client"
)

// Session is a session of package client whose utterances come one after the other.
type Session struct {
	*client.Session
	Unbroken bool // for Result it is an error that the connection was lost, although the session goes on
}

// Start starts a session. If not configured otherwise, it is one in English and Spanish, and logs nothing.
func Start(ctx context.Context, cfg client.Config) (Session, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Start.Langs == nil {
		cfg.Start.Langs = []string{"en", "es"}
	}
	s, err := client.Start(ctx, cfg)
	return Session{Session: s}, err
}

// StartSession starts a session that is closed at the end of the test.
func StartSession(tb testing.TB, cfg client.Config) Session {
	tb.Helper()
	s, err := Start(context.WithoutCancel(tb.Context()), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// Speak sends an utterance, in frames, and returns its result.
func (s Session) Speak(frames ...[]byte) (client.Result, error) {
	if err := s.Utter(frames...); err != nil {
		return client.Result{}, err
	}
	return s.Result()
}

// Utter sends an utterance.
func (s Session) Utter(frames ...[]byte) error {
	for _, frame := range frames {
		if _, err := s.Write(frame); err != nil {
			return err
		}
	}
	return s.Commit()
}

// Result waits for the next result. It is an error that the utterance failed.
func (s Session) Result() (client.Result, error) {
	for e, err := range s.Events() {
		switch e := e.(type) {
		case nil:
			return client.Result{}, err
		case client.Result:
			return e, nil
		case client.Reconnecting:
			if s.Unbroken {
				return client.Result{}, fmt.Errorf("the connection was lost: %w", e.Err)
			}
		case client.UtteranceFailed:
			return client.Result{}, fmt.Errorf("utterance %d: %w", e.UtteranceIndex, e.Err)
		}
	}
	return client.Result{}, client.ErrClosed
}
