package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// follow watches the store until the test ends and returns the changes as they come.
func (h *Harness) follow(t *testing.T) <-chan store.Change {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan store.Change, 1024)
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Store.Watch(ctx, func() { close(ready) }, func(c store.Change) { changes <- c })
	}()
	<-ready
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return changes
}

func exerciseWatch(_ *testing.T, run runner) {
	run("every change is told, in order for each node", func(t *testing.T, h *Harness) {
		changes := h.follow(t)
		n := h.register(t, "node-a", 2)
		sick := h.beat(t, n, beat{seq: 1, health: core.HealthDegraded}).Node
		h.beat(t, sick, beat{seq: 2, health: core.HealthDegraded}) // says nothing new
		drained, err := h.Store.Drain(t.Context(), store.DrainParams{Node: "node-a", Drained: true})
		if err != nil {
			t.Fatal(err)
		}
		// Changes that come fast may be told as one, and repeated writes may tell one twice; but never an older one
		// after a newer, and the last is always told.
		told := core.Version(0)
		for told < drained.Version {
			now := (<-changes).Now.Node
			if now.Version < told || now.Version > drained.Version {
				t.Fatalf("version %d is told after %d; the last is %d", now.Version, told, drained.Version)
			}
			told = now.Version
		}

		if err := h.Store.Mark(t.Context(), store.Mark{Node: "node-a", Service: "asr", For: time.Minute}); err != nil {
			t.Fatal(err)
		}
		for c := range changes {
			if c.Mark != nil {
				if c.Node != "node-a" || c.Mark.Service != "asr" || c.Mark.For != time.Minute {
					t.Errorf("the mark is told as %+v", c.Mark)
				}
				break
			}
		}
		if err := h.Store.Remove(t.Context(), store.RemoveParams{Node: "node-a"}); err != nil {
			t.Fatal(err)
		}
		for c := range changes {
			if c.Removed && c.Node == "node-a" {
				break
			}
		}
	})

	run("a watch ends with its context", func(t *testing.T, h *Harness) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		ready := make(chan struct{})
		go func() { done <- h.Store.Watch(ctx, func() { close(ready) }, func(store.Change) {}) }()
		<-ready
		cancel()
		if err := <-done; err == nil {
			t.Error("a watch that was ended returned no error")
		}
	})
}
