package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
)

// beatUnlisted lets time pass while a node keeps sending heartbeats that do not list its jobs.
func (w *world) beatUnlisted(d time.Duration, id string) {
	w.t.Helper()
	for range d / time.Second {
		time.Sleep(time.Second)
		w.beat(id, nil)
		synctest.Wait()
	}
}

// TestStalledDispatchDoesNotDeliver stops an instance between the reservation and the delivery until the lease has
// expired and the slot was given to another job. What it reserved does not entitle it to a delivery any more.
func TestStalledDispatchDoesNotDeliver(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		stalled := 2*(timing.Attempt+timing.ReservedTTL) + time.Second/2
		w.store.stallAfter("create", stalled)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			// Meanwhile others have judged the job: whatever the answer is, it is theirs.
			_, _ = w.d.Dispatch(t.Context(), dispatch.Request{Spec: spec()})
		}()
		w.beatUnlisted(timing.Attempt+timing.ReservedTTL+timing.Presence, "node-a")
		other := w.dispatch(request("req-2"))
		if err := w.ack(other); err != nil {
			t.Fatal(err)
		}
		w.beatUnlisted(6*time.Second, "node-a")
		select {
		case <-ended:
		default:
			t.Error("the stalled request was not answered")
		}
		if sent := w.sent.deliveries(); len(sent) != 1 {
			t.Errorf("node-a was sent %v on 1 slot", sent)
		}
	})
}

// TestStalledRetryReservesAnew stops an instance after it has moved a job, before it has delivered it. The job goes on with a new
// reservation and without losing an attempt.
func TestStalledRetryReservesAnew(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		first := w.dispatch()
		if err := w.ack(first); err != nil {
			t.Fatal(err)
		}
		w.node("node-b", 1)
		w.node("node-c", 1)
		w.store.stallAfter("move", timing.ReservedTTL+time.Second)
		if err := w.fail(first, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		time.Sleep(timing.ReservedTTL + 2*time.Second)
		synctest.Wait()
		sent := w.sent.deliveries()
		if len(sent) != 2 || sent[1].AttemptID != 2 {
			t.Fatalf("deliveries: %+v; want the second attempt once", sent)
		}
		at := w.placed(first.Job)
		if string(at.Node) != sent[1].NodeID || at.Attempt != 2 {
			t.Errorf("the record says %+v, the delivery went to %s", at, sent[1].NodeID)
		}
		history := w.job(first.Job).History
		if len(history) != 3 || history[1].Reason != core.ReasonDeliveryRefused || history[1].Node == at.Node {
			t.Errorf("history: %+v; want the stalled reservation given up", history)
		}
		for _, id := range []string{"node-a", "node-b", "node-c"} {
			if n := w.inFlight(id); (n == 1) != (id == string(at.Node)) {
				t.Errorf("%s has %d slots taken, the job is on %s", id, n, at.Node)
			}
		}
	})
}
