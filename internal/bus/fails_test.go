package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// TestTheFifthFailure is the last: only before it the log says that the letter is tried again, and what was remembered of
// the letter is forgotten.
func TestTheFifthFailure(t *testing.T) {
	play(t, func(p *post) {
		const away, own = 2, 5 // failures that the store is to blame for, and others
		d := make(diary, 64)
		b := bus.New(bus.Config{
			Instance: "b", TTL: ttl, Block: time.Second, Keep: time.Hour, About: func() bus.About { return bus.About{} },
		}, p.Store, telemetry.New(), slog.New(slog.NewJSONHandler(d, nil)))
		tries := 0
		r := bus.NewReceiver(b, map[bus.Kind]bus.Handler{hello: {Handle: func(context.Context, *bus.Message) error {
			if tries++; tries <= away {
				return store.ErrDown
			}
			return errors.New("not today")
		}}}, nobodyDied)
		if err := b.Announce(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { r.Run(ctx); close(ended) }()
		defer func() { stop(); <-ended }()
		if err := b.Send(t.Context(), "b", hello, time.Hour, "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()

		again, dead := 0, 0
		for len(d) > 0 {
			switch e := <-d; {
			case strings.Contains(e.Msg, "it is tried again"):
				again++
			case e.Msg == isDead:
				dead++
				if e.Tries != away+own || e.Reason != "FAILED" {
					t.Errorf("%+v", e)
				}
			}
		}
		if tries != away+own || again != away+own-1 || dead != 1 {
			t.Errorf("tried %d times, said to be tried again %d times, dead %d times", tries, again, dead)
		}
		if n := r.Excused(); n != 0 {
			t.Errorf("%d dead letters are still excused", n)
		}
	})
}

// TestHandlerEndsWithItsMessage: a handler's context ends when its message expires.
func TestHandlerEndsWithItsMessage(t *testing.T) {
	play(t, func(p *post) {
		var took time.Duration
		b := bus.New(bus.Config{
			Instance: "b", TTL: ttl, Block: time.Second, Keep: time.Hour, About: func() bus.About { return bus.About{} },
		}, p.Store, telemetry.New(), slog.New(slog.DiscardHandler))
		r := bus.NewReceiver(b, map[bus.Kind]bus.Handler{hello: {Handle: func(ctx context.Context, _ *bus.Message) error {
			began := time.Now()
			<-ctx.Done()
			took = time.Since(began)
			return nil
		}}}, nobodyDied)
		if err := b.Announce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Send(t.Context(), "b", hello, 3*time.Second, "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { r.Run(ctx); close(ended) }()
		defer func() { stop(); <-ended }()
		time.Sleep(time.Minute)
		if took != 2*time.Second {
			t.Errorf("the handler of a message that had 2 s left ended after %v", took)
		}
	})
}
