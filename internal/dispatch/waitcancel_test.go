package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/waiting"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// waitingJob returns the job of the only request that waits for a tenant.
func (h *harness) waitingJob(tenant core.TenantID) core.JobID {
	h.t.Helper()
	v := h.viewWaiting(waiting.ViewParams{Tenant: &tenant})
	if len(v.Requests) != 1 {
		h.t.Fatalf("%d requests of %q wait, want 1", len(v.Requests), tenant)
	}
	return v.Requests[0].Job
}

// waitBehindAnother starts a request that waits for the only slot, which another job has.
func (h *harness) waitBehindAnother() (busy dispatch.Placement, one *waitingRequest, id core.JobID) {
	h.t.Helper()
	h.addNode("node-a", 1)
	busy = h.acknowledge(h.dispatch())
	one = h.startWaiting(h.t.Context(), "one", time.Minute, ofTenant("a"))
	return busy, one, h.waitingJob("a")
}

// TestCancelWaiting: a request that is cancelled leaves the queue at once, without a record, and the slot goes to the next one. A tenant
// cancels only its own.
func TestCancelWaiting(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch())
		first := h.startWaiting(h.t.Context(), "first", time.Minute, ofTenant("a"))
		second := h.startWaiting(h.t.Context(), "second", time.Minute, ofTenant("b"))
		id, other := h.waitingJob("a"), core.TenantID("b")
		if w, err := h.dispatcher.CancelWaiting(h.t.Context(), id, &other); w != nil || err != nil {
			t.Errorf("another tenant cancelled %v, %v", w, err)
		}
		w, err := h.dispatcher.CancelWaiting(h.t.Context(), id, nil)
		if err != nil || w == nil || w.Job != id || w.Tenant != "a" {
			t.Fatalf("cancelled %+v, %v", w, err)
		}
		synctest.Wait()
		if !first.hasEnded() || first.err == nil || first.err.Code != wire.Cancelled {
			t.Fatalf("ended %v with %v, want %s", first.hasEnded(), first.err, wire.Cancelled)
		}
		time.Sleep(time.Second)
		if w, err := h.dispatcher.CancelWaiting(h.t.Context(), id, nil); w != nil || err != nil {
			t.Errorf("it was cancelled twice: %v, %v", w, err)
		}
		_, err = h.dispatcher.Job(h.t.Context(), id)
		wantCode(t, err, wire.NotFound)
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !second.hasEnded() || second.placement.Node != "node-a" {
			t.Errorf("the next request: ended %v on %q", second.hasEnded(), second.placement.Node)
		}
	})
}

// TestCancelWhileItIsPlaced: a request that is cancelled while it is placed on the node of which it was offered a slot ends as a cancelled
// job, and its slot becomes free.
func TestCancelWhileItIsPlaced(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]func(h *harness, cancel func(core.JobID)){
		"before the reservation is known": func(h *harness, cancel func(core.JobID)) {
			h.store.onReserve = func(p store.ReserveParams, _ store.Verdict) { cancel(p.Lease.Job) }
		},
		"before there is a record": func(h *harness, cancel func(core.JobID)) {
			h.store.onCreate = func(p store.CreateParams) { cancel(p.ID) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				busy, one, id := h.waitBehindAnother()
				hook(h, func(job core.JobID) {
					if job != id {
						return
					}
					if w, err := h.dispatcher.CancelWaiting(context.Background(), id, nil); w == nil || err != nil {
						t.Errorf("cancelled %v, %v", w, err)
					}
				})
				if err := h.done(busy); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !one.hasEnded() || one.placement.Job != id {
					t.Fatalf("ended %v, %v", one.hasEnded(), one.err)
				}
				h.wantState(id, core.StateCancelled, core.ReasonCancelled)
				h.transport.drop(one.placement)
				h.advance(10*time.Second, "node-a") // the node has not acknowledged it
				h.wantFree("node-a")
			})
		})
	}
}

// TestCancelIsKeptWhenATryFails: a request that is cancelled while a try fails is not tried again.
func TestCancelIsKeptWhenATryFails(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		busy, one, id := h.waitBehindAnother()
		h.store.onReserve = func(p store.ReserveParams, _ store.Verdict) {
			if p.Lease.Job != id {
				return
			}
			h.store.failNext(false, "reserve", 1) // the reply is lost
			if err := h.dispatcher.Handlers()["wait_cancel"].Handle(context.Background(), &bus.Message{Body: []byte(`{"job":"` + id + `"}`)}); err != nil {
				t.Error(err)
			}
		}
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		h.advance(10*time.Second, "node-a")
		if !one.hasEnded() || one.err == nil || one.err.Code != wire.Cancelled {
			t.Errorf("ended %v with %v, want %s", one.hasEnded(), one.err, wire.Cancelled)
		}
		h.wantFree("node-a")
	})
}

// TestOutageDuringAWaitIsNamed: a request whose wait ends while the store is away is not refused as if all nodes were full.
func TestOutageDuringAWaitIsNamed(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	reachable := func(c *dispatch.Config) { c.StoreReachable = func() bool { return !away.Load() } }
	runWith(t, reachable, func(h *harness) {
		h.addNode("node-a", 1)
		h.acknowledge(h.dispatch())
		one := h.startWaiting(h.t.Context(), "one", 8*time.Second)
		away.Store(true)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if !one.hasEnded() || one.err == nil || one.err.Code != wire.SchedulerDependencyDown {
			t.Errorf("ended %v with %v, want %s", one.hasEnded(), one.err, wire.SchedulerDependencyDown)
		}
	})
}
