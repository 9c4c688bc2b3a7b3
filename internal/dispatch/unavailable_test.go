package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/health"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// noCatalog is a catalog without a ModelHub.
type noCatalog struct{}

func (noCatalog) Refresh(string) {}

// startMarking starts the worker that marks services, and returns how to stop it.
func (h *harness) startMarking() (stop func()) {
	h.unavailable = health.NewUnavailableWorker(health.UnavailableOptions{
		MarkFor: time.Minute, Debounce: 5 * time.Second, Limit: 60, Window: time.Minute, Store: h.store, Fleet: h.fleet,
		Catalog: noCatalog{}, Metrics: h.metrics, Log: h.log,
	})
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		h.unavailable.Run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
	}
}

// TestStormOfReportsDelaysNoDispatch: the store answers no call of the worker, its queues are full, and every node sends reports
// without end. Jobs are dispatched, acknowledged, retried after a report and done, while no time passes: nothing waits for the worker.
func TestStormOfReportsDelaysNoDispatch(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		const many = 100
		for i := range many {
			h.addNode(fmt.Sprint("n", i), 4)
		}
		h.store.hangs.Store(true)
		began := time.Now()
		storm := func(reports int) {
			for i := range reports {
				u := core.UnavailableReport{UnavailableService: core.UnavailableService{Node: core.NodeID(fmt.Sprint("n", i%many)), Service: fmt.Sprint("odd-", i),
					Reason: core.UnavailableOther}}
				if err := h.registry.ReportUnavailable(h.t.Context(), u); err != nil {
					t.Fatalf("report %d: %v", i, err)
				}
			}
		}
		for range 5 {
			storm(10_000)
			synctest.Wait()
		}
		if queued := h.unavailable.Queued(); queued < 1024-4 { // four may have been taken from it after the storm
			t.Fatalf("%d reports are queued: the queue of marks is not full", queued)
		}
		for i := range 50 {
			storm(1000)
			p := h.dispatch(withRequestID(fmt.Sprint("r", i)))
			if err := h.ack(p); err != nil {
				t.Fatal(err)
			}
			u := core.UnavailableReport{UnavailableService: core.UnavailableService{Node: p.Node, Service: "s"}, Job: p.Job, Attempt: p.Attempt}
			if err := h.registry.ReportUnavailable(h.t.Context(), u); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			next := h.placementOf(p.Job)
			if next.Node == p.Node || next.Attempt != 2 {
				t.Fatalf("job %d is at %+v after the report, it was at %+v", i, next, p)
			}
			if err := h.done(next); err != nil {
				t.Fatal(err)
			}
			h.wantState(p.Job, core.StateDone, "")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		if marks, err := h.mem.Marked(h.t.Context(), "n0"); err != nil || len(marks) != 0 {
			t.Errorf("marks %v, %v; want none: the store hangs", marks, err)
		}
	})
}
