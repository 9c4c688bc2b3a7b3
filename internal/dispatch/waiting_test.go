package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestTheCallerDoesNotWaitForANodeToTurnUp: the job is accepted by then, and goes on without the caller.
func TestTheCallerDoesNotWaitForANodeToTurnUp(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.sent.fails("node-a", errLost)
		began := time.Now()
		p := w.dispatch()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the caller was kept for %v", took)
		}
		w.wantState(p.Job, core.StateRetrying, core.ReasonDeliveryUnknown)
		if again := w.dispatch(); again != p {
			t.Errorf("the repeat: %+v, want %+v", again, p)
		}

		w.node("node-b", 1)
		w.pass(2*time.Second, "node-a", "node-b")
		second := w.placed(p.Job)
		if second.Node != "node-b" || second.Attempt != 2 {
			t.Fatalf("placed at %+v, want the second attempt on node-b", second)
		}
		if err := w.done(second); err != nil {
			t.Fatal(err)
		}
		w.wantState(p.Job, core.StateDone, "")
	})
}

// TestALateACKWhileNobodyElseHasTheJob is no reason to drop it: the node's result will be taken.
func TestALateACKWhileNobodyElseHasTheJob(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		w.pass(3*time.Second, "node-a")
		w.wantState(p.Job, core.StateRetrying, core.ReasonACKTimeout)
		if err := w.ack(p); err != nil {
			t.Errorf("the ACK: %v", err)
		}
		if err := w.done(p); err != nil {
			t.Errorf("the result: %v", err)
		}
		w.wantState(p.Job, core.StateDone, "")
		w.wantFree("node-a")
	})
}

// TestAResultBeforeTheDeliveryIsAnsweredIsNoMiss: the node's answer to the delivery went wrong, its work did not.
func TestAResultBeforeTheDeliveryIsAnsweredIsNoMiss(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.sent.fails("node-a", errLost)
		go func() {
			time.Sleep(time.Second)
			p := dispatch.Placement{Job: core.JobID(w.sent.deliveries()[0].JobID), Node: "node-a", Attempt: 1}
			if err := w.done(p); err != nil {
				t.Error(err)
			}
		}()
		p := w.dispatch()
		w.wantState(p.Job, core.StateDone, "")
		if w.life.SetAsideFor("node-a") != 0 {
			t.Error("the node is set aside although it did its work")
		}
	})
}

// TestAWaitingRetryDoesNotKeepADrainWaiting: whoever is left takes it over.
func TestAWaitingRetryDoesNotKeepADrainWaiting(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		if err := w.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if left := w.d.Drain(ctx); left != 0 || time.Since(began) > 2*time.Second {
			t.Errorf("%d jobs left after %v", left, time.Since(began))
		}
		w.wantState(p.Job, core.StateRetrying, core.ReasonNodeFailed)
		take := store.ApplyParams{Job: p.Job, Event: core.EventTakeover, AnyHolder: true, Owner: "i-other.1", RetryFor: time.Second}
		if a, err := w.mem.Apply(w.t.Context(), take); err != nil || a.Outcome != store.Decided {
			t.Errorf("another instance cannot take it over: %s, %v", a.Outcome, err)
		}
	})
}
