package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// speaker is an open session that speaks.
type speaker struct {
	*client.Session
	outcomes chan error // of its utterances: nil for a result
}

// startSpeakers connects a node and opens a session at every instance. Each session speaks without a pause.
func (r *rotation) startSpeakers() {
	r.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(r.t.Context()))
	stopCallers := r.stop
	r.stop = func() {
		stopCallers()
		stop()
	}
	for i, url := range r.urls {
		config := node.Config{
			URL: url, ID: fmt.Sprint("gpu-connected-", i), Token: r.secret("node"), Slots: 4, Log: discardLog,
			Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
		}
		r.callers.Go(func() {
			err := node.Run(ctx, config, func(context.Context, *node.Job) (node.Result, error) { return node.Result{TextTgt: "hola"}, nil })
			if err != nil {
				r.t.Errorf("%s: %v", config.ID, err)
			}
		})
		var session *client.Session
		retryWhileDown(r.t, func() (err error) {
			session, err = r.startSession(ctx)
			return err
		})
		s := &speaker{Session: session, outcomes: make(chan error, 1)}
		r.speakers = append(r.speakers, s)
		r.callers.Go(func() { s.listen(ctx) })
		r.run(ctx, "speaker", func(ctx context.Context, _ int64) error { return s.speak(ctx) })
	}
}

// speak says one utterance and waits for its result.
func (s *speaker) speak(ctx context.Context) error {
	run.Sleep(ctx, 50*time.Millisecond)
	_, err := s.Write(tone(60))
	if err = errors.Join(err, s.Commit()); err != nil {
		return err
	}
	select {
	case err := <-s.outcomes:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen reads the events of the session until the context ends. A lost connection is the outcome of an utterance.
func (s *speaker) listen(ctx context.Context) {
	end := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer end()
	for e, err := range s.Events() {
		switch e := e.(type) {
		case client.Result:
		case client.UtteranceFailed:
			err = e.Err
		case client.Reconnecting:
			err = fmt.Errorf("the connection was lost: %w", e.Err)
		default:
			if err == nil {
				continue
			}
		}
		select {
		case s.outcomes <- err:
		case <-ctx.Done():
		}
	}
}

// renewTokens gives every open session a token that is signed with the current secret.
func (r *rotation) renewTokens() {
	r.t.Helper()
	for _, s := range r.speakers {
		retryWhileDown(r.t, func() error {
			token, err := r.mint(r.t.Context(), s.ID())
			if err != nil {
				return err
			}
			return s.Update(wire.SessionUpdate{Token: token.Token})
		})
	}
}
