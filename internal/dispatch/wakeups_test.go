package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// A request that waits for one node only does not keep those behind it from being woken by another.
func TestStrictWaiterDoesNotHideOthers(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.node("node-b", 1)
		onA, onB := w.confirmed(w.dispatch(request("r-1"))), w.confirmed(w.dispatch(request("r-2")))
		if onA.Node == "node-b" {
			onA, onB = onB, onA
		}
		strict := w.wait(w.t.Context(), "strict", 30*time.Second, func(s *core.Spec) {
			s.Options.PreferredNode, s.Options.Strict = "node-b", true
		})
		time.Sleep(time.Millisecond)
		other := w.wait(w.t.Context(), "other", 30*time.Second)
		if err := w.done(onA); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if strict.over() || !other.over() {
			t.Errorf("node-a is free; for node-b only: %v, any: %v", strict.over(), other.over())
		}
		if err := w.done(onB); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !strict.over() || strict.p.Node != "node-b" {
			t.Errorf("node-b is free: %+v", strict.p)
		}
	})
}

// A request that goes away when it was just woken leaves the slot to the next.
func TestWokenWaiterThatLeavesPassesTheSlotOn(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		play(t, func(w *world) {
			w.node("node-a", 1)
			busy := w.confirmed(w.dispatch())
			ctx, cancel := context.WithCancel(w.t.Context())
			first := w.wait(ctx, fmt.Sprint("first-", round), 30*time.Second)
			time.Sleep(time.Millisecond)
			second := w.wait(w.t.Context(), fmt.Sprint("second-", round), 30*time.Second)
			go cancel()
			if err := w.done(busy); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if first.p.Node == "" && !second.over() {
				t.Errorf("the slot is free, and the next request was not woken")
			}
			if first.p.Node != "" {
				_ = w.done(w.confirmed(first.p))
			}
			synctest.Wait()
			if second.over() {
				_ = w.done(w.confirmed(second.p))
			}
		})
	}
}

// A slot that is freed between the refusal of a request and its wait is not missed.
func TestSlotFreedBeforeTheWaitBegan(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		busy := w.confirmed(w.dispatch())
		w.store.afterGet = func() {
			if err := w.done(busy); err != nil {
				t.Error(err)
			}
		}
		one := w.wait(w.t.Context(), "w", 30*time.Second)
		if !one.over() || one.p.Node != "node-a" {
			t.Errorf("the slot is free, and the request waits: %v", one.over())
		}
	})
}
