package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// TestTakeoverThatFailedIsDoneAgain: taking over fails the first time (a lease set could not be read); it must be done again.
func TestTakeoverThatFailedIsDoneAgain(t *testing.T) {
	play(t, func(p *post) {
		a := p.start("a")
		tries := 0
		b := bus.New(bus.Config{Instance: "b", TTL: ttl, Block: time.Second, Keep: time.Hour, About: func() bus.About { return bus.About{} }},
			p.Store, telemetry.New(), slog.New(slog.DiscardHandler))
		r := bus.NewReceiver(b, nil, func(context.Context, core.InstanceID) error {
			if tries++; tries == 1 {
				return errAway
			}
			return nil
		})
		if err := b.Announce(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, kill := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { r.Run(ctx); close(ended) }()
		defer func() { kill(); <-ended }()
		a.die()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if tries < 2 {
			t.Errorf("onDead was called %d time(s) although it failed; a is %+v", tries, p.state("a"))
		}
	})
}

// downDead is a store whose dead letters cannot be read.
type downDead struct{ link }

func (downDead) DeadLetters(context.Context, core.InstanceID, string, int) ([]store.DeadLetter, error) {
	return nil, errAway
}

// TestStoreAwayIsNotNoLetter: a store that is away is not "there is no such letter".
func TestStoreAwayIsNotNoLetter(t *testing.T) {
	play(t, func(p *post) {
		b := bus.New(bus.Config{Instance: "b", TTL: ttl, About: func() bus.About { return bus.About{} }}, downDead{link{p, "b"}}, telemetry.New(), slog.New(slog.DiscardHandler))
		if _, err := b.DeadLetter(t.Context(), "a/1-1"); errors.Is(err, bus.ErrNoDeadLetter) {
			t.Errorf("the store was away, the answer is: %v", err)
		}
	})
}

// TestStoreAwayIsNoPoison: a letter whose handler could not reach the store for half a minute (another master of a cluster) is no poison.
func TestStoreAwayIsNoPoison(t *testing.T) {
	play(t, func(p *post) {
		a := p.start("a")
		p.start("b")
		p.mu.Lock()
		p.fails, p.excuse = 1<<20, true // what it needs is away
		p.mu.Unlock()
		if err := p.send(a, "b", slowly, "undelivered"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(45 * time.Second) // a failover of one master took that long
		p.mu.Lock()
		p.fails = 0
		p.mu.Unlock()
		time.Sleep(10 * time.Second)
		if s := p.state("b"); s.DeadLetters != 0 {
			t.Errorf("%+v", s)
		}
	})
}
