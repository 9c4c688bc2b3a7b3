package dispatch_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestCancel(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 2)
		p := h.dispatch()
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			job, cancelled, err := h.dispatcher.Cancel(h.t.Context(), p.Job)
			if err != nil || !cancelled || job.State != core.StateCancelled {
				t.Fatalf("cancel: %v %v %v", job.State, cancelled, err)
			}
		}
		if n := h.inFlight("node-a"); n != 1 {
			t.Errorf("%d slots taken, want 1: the node still runs the job", n)
		}
		if diff := cmp.Diff([]store.ActiveJob{{Job: p.Job, Attempt: 1}}, h.heartbeat("node-a", h.transport.heldBy("node-a"))); diff != "" {
			t.Errorf("cancels (-want +got):\n%s", diff)
		}
		h.transport.drop(p)
		h.heartbeat("node-a", h.transport.heldBy("node-a"))
		h.wantFree("node-a")
		wantCode(t, h.done(p), wire.StaleAttempt)
		h.wantState(p.Job, core.StateCancelled, core.ReasonCancelled)

		q := h.dispatch(withRequestID("req-2"))
		if err := h.done(q); err != nil {
			t.Fatal(err)
		}
		if job, cancelled, err := h.dispatcher.Cancel(h.t.Context(), q.Job); err != nil || cancelled || job.State != core.StateDone {
			t.Errorf("cancel of a done job: %v %v %v", job.State, cancelled, err)
		}
		_, _, err := h.dispatcher.Cancel(h.t.Context(), "job-unknown")
		wantCode(t, err, wire.NotFound)
	})
}

func TestCancelRetryingJob(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		if err := h.fail(p, core.ReasonModelNotAvailable); err != nil {
			t.Fatal(err)
		}
		h.advance(time.Second, "node-a")
		h.wantState(p.Job, core.StateRetrying, core.ReasonModelNotAvailable)
		if _, cancelled, err := h.dispatcher.Cancel(h.t.Context(), p.Job); err != nil || !cancelled {
			t.Fatalf("cancel: %v %v", cancelled, err)
		}
		h.addNode("node-b", 1)
		h.advance(3*time.Second, "node-a", "node-b")
		h.wantState(p.Job, core.StateCancelled, core.ReasonCancelled)
		h.wantFree("node-a", "node-b")
		if h.dispatcher.InFlight() != 0 {
			t.Errorf("%d jobs in flight, want none", h.dispatcher.InFlight())
		}
	})
}
