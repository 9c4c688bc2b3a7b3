package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestWithoutTheStoreNothingIsGranted takes the store away at each step of a dispatch, before the step or
// after it was carried out, and expects a refusal and, once the store is back, no trace of it.
func TestWithoutTheStoreNothingIsGranted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, operation string
		down            bool
	}{
		{"reserve fails", "reserve", true},
		{"the reply to reserve is lost", "reserve", false},
		{"create fails", "create", true},
		{"the reply to create is lost", "create", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.node("node-a", 1)
				w.store.breakNext(c.down, c.operation, 1)
				wantCode(t, w.refused(), wire.SchedulerDependencyDown)
				w.pass(time.Second, "node-a")
				w.wantFree("node-a")
				if n := len(w.sent.deliveries()); n != 0 {
					t.Errorf("%d deliveries of a refused job", n)
				}
				p := w.dispatch() // the same request, now that the store is back
				if err := w.ack(p); err != nil {
					t.Fatal(err)
				}
				if err := w.done(p); err != nil {
					t.Fatal(err)
				}
				w.wantState(p.Job, core.StateDone, "")
			})
		})
	}
}

func TestARefusalIsNotGuessedWhenTheRecordCannotBeRead(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.store.breakNext(true, "get", 1)
		wantCode(t, w.refused(), wire.SchedulerDependencyDown)
		wantCode(t, w.refused(), wire.NoCapableNode)
	})
}

// TestANodeRepeatsWhatTheStoreCouldNotHear: a report during an outage is refused as retryable, and the
// repeat has the one effect, whether or not the first was carried out.
func TestANodeRepeatsWhatTheStoreCouldNotHear(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{true, false} {
		play(t, func(w *world) {
			w.node("node-a", 1)
			p := w.dispatch()
			w.store.breakNext(down, "commit", 1)
			wantCode(t, w.ack(p), wire.SchedulerDependencyDown)
			if err := w.ack(p); err != nil {
				t.Fatal(err)
			}
			w.store.breakNext(down, "apply", 1)
			wantCode(t, w.done(p), wire.SchedulerDependencyDown)
			if err := w.done(p); err != nil {
				t.Fatal(err)
			}
			w.wantState(p.Job, core.StateDone, "")
			w.wantFree("node-a")
			if w.d.InFlight() != 0 {
				t.Errorf("%d flights left", w.d.InFlight())
			}
		})
	}
}

func TestAReleaseIsNotForgotten(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{true, false} {
		play(t, func(w *world) {
			w.node("node-a", 1)
			p := w.dispatch()
			w.store.breakNext(down, "release", 3)
			if err := w.done(p); err != nil {
				t.Fatalf("nobody waits for a release: %v", err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			w.wantFree("node-a")
		})
	}
}

// TestAMoveThroughAnOutage: the store goes away in the middle of a retry and comes back.
func TestAMoveThroughAnOutage(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{true, false} {
		play(t, func(w *world) {
			w.node("node-a", 1)
			w.node("node-b", 1)
			p := w.dispatch()
			if err := w.ack(p); err != nil {
				t.Fatal(err)
			}
			for _, operation := range []string{"apply", "reserve", "release"} {
				w.store.breakNext(down, operation, 3) // which a decision outlasts
			}
			if err := w.fail(p, core.ReasonNodeFailed); err != nil {
				t.Fatal(err)
			}
			w.pass(1500*time.Millisecond, "node-a", "node-b") // which is less than the next has to confirm
			now := w.placed(p.Job)
			if now.Attempt != 2 || now.Node == p.Node {
				t.Fatalf("after the outage: %+v %+v", now, w.job(p.Job))
			}
			if err := w.done(now); err != nil {
				t.Fatal(err)
			}
			w.pass(20*time.Second, "node-a", "node-b") // a slot whose grant was never heard of ends with its lease
			w.wantFree("node-a", "node-b")
			if n := len(w.sent.deliveries()); n != 2 {
				t.Errorf("%d deliveries, want 2", n)
			}
		})
	}
}
