package scheduler_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

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
		fleet.StartNodes(r.t, fleet.Answer(node.Result{TextTgt: "hola"}), node.Config{
			URL: url, ID: fmt.Sprint("gpu-connected-", i), Token: r.secret("node"), Slots: 4,
		})
		s := fleet.Session{Unbroken: true}
		retryWhileDown(r.t, func() (err error) {
			s.Session, err = r.startSession(ctx)
			return err
		})
		r.speakers = append(r.speakers, s)
		r.run(ctx, "speaker", func(ctx context.Context, _ int64) error {
			run.Sleep(ctx, 50*time.Millisecond)
			_, err := s.Speak(tone(60))
			return err
		})
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
