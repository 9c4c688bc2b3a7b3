package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/waiting"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/wire"
)

// withWeights gives tenants weights.
func withWeights(weights map[core.TenantID]float64) func(*dispatch.Config) {
	entries := make(map[core.TenantID]core.TenantLimits)
	for id, w := range weights {
		entries[id] = core.TenantLimits{Weight: w}
	}
	return func(c *dispatch.Config) {
		c.Tenants = tenants.NewGate(tenants.NewCurrent(tenants.NewTable(entries)), nil, nil)
	}
}

// takePlaced removes a request that was placed from a list, and returns its placement.
func takePlaced(t *testing.T, waiting *[]*waitingRequest) dispatch.Placement {
	t.Helper()
	i := slices.IndexFunc(*waiting, func(w *waitingRequest) bool { return w.hasEnded() })
	if i < 0 {
		t.Fatal("a slot is free, and nobody got it")
	}
	p := (*waiting)[i].placement
	*waiting = slices.Delete(*waiting, i, i+1)
	return p
}

// TestTenantsShareSlots: tenants that wait get slots by their weights, however many requests each has sent.
func TestTenantsShareSlots(t *testing.T) {
	t.Parallel()
	runWith(t, withWeights(map[core.TenantID]float64{"a": 1, "b": 3}), func(h *harness) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch())
		var waiting []*waitingRequest
		for i := range 60 {
			waiting = append(waiting, h.startWaiting(h.t.Context(), fmt.Sprint("a-", i), time.Minute, ofTenant("a")))
		}
		for i := range 30 {
			waiting = append(waiting, h.startWaiting(h.t.Context(), fmt.Sprint("b-", i), time.Minute, ofTenant("b")))
		}
		got := make(map[core.TenantID]int)
		for range 24 {
			if err := h.done(busy); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			busy = h.acknowledge(takePlaced(t, &waiting))
			got[h.job(busy.Job).Tenant]++
		}
		if got["a"] != 6 || got["b"] != 18 {
			t.Errorf("slots by tenant: %v, want a 6 and b 18", got)
		}
	})
}

// strangerIn puts a request of another instance into the queue, which never uses an offer, in the class of requests from en to zh.
func (h *harness) strangerIn(id string, waits time.Duration) {
	h.t.Helper()
	clock, err := h.mem.Clock(h.t.Context(), store.ClockKey{})
	if err != nil {
		h.t.Fatal(err)
	}
	open, err := h.mem.OpenClasses(h.t.Context(), func(core.PoolID, string) bool { return false }, "")
	if err != nil || len(open[0]) != 1 {
		h.t.Fatalf("open classes %v, %v; want one", open, err)
	}
	now := clock.UnixMilli()
	p := fairqueue.EnqueueParams{
		Waiter: fairqueue.Waiter{ID: id, Instance: "i-other", Since: now, Deadline: now + waits.Milliseconds()}, Weight: 100, MaxWaiting: 10,
	}
	for p.Class, p.Requirements = range open[0] {
	}
	if _, err := h.mem.Enqueue(h.t.Context(), "", p); err != nil {
		h.t.Fatal(err)
	}
}

// TestArrivalTakesNoSlotOfWaiters: while another request waits for a node, a slot of it that is free is not given to one that arrives, of
// whatever class. When nobody waits any more, it is.
func TestArrivalTakesNoSlotOfWaiters(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1, func(p *core.Change) { p.Semantic = core.LangSet{"en", "zh", "fr"} })
		busy := h.acknowledge(h.dispatch())
		own := h.startWaiting(h.t.Context(), "own", time.Minute)
		h.strangerIn("stranger", 5*time.Minute)
		if err := h.done(busy); err != nil { // own is first
			t.Fatal(err)
		}
		synctest.Wait()
		if !own.hasEnded() {
			t.Fatal("the request did not get the slot")
		}
		h.strangerIn("second", 5*time.Minute)
		if err := h.done(h.acknowledge(own.placement)); err != nil { // now the slot is offered to the stranger
			t.Fatal(err)
		}
		synctest.Wait()
		fr := func(s *core.Spec) { s.Direction = core.Direction{Src: "fr", Tgt: "zh"} }
		for id, change := range map[string]func(*core.Spec){"same-class": func(*core.Spec) {}, "other-class": fr} {
			if e := h.dispatchRefused(withRequestID(id), change); e.Code != wire.AllCandidatesFullOrFailed || e.Reasons["FULL"] != 1 {
				t.Errorf("%s: %+v", id, e)
			}
		}
		time.Sleep(2 * time.Second) // the other instance is silent: its requests are removed
		if p := h.dispatch(withRequestID("later")); p.Node != "node-a" {
			t.Errorf("placed on %q", p.Node)
		}
	})
}

// TestSameRequestJoinsTheWait: the same request waits once, and goes on waiting when one of its callers has left.
func TestSameRequestJoinsTheWait(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch())
		ctx, cancel := context.WithCancel(h.t.Context())
		first := h.startWaiting(ctx, "same", time.Minute)
		second := h.startWaiting(h.t.Context(), "same", time.Minute)
		if n := h.dispatcher.Waiting.Waiting(); n != 1 {
			t.Errorf("%d requests wait, want 1", n)
		}
		cancel()
		synctest.Wait()
		if !first.hasEnded() || first.err == nil || second.hasEnded() || h.dispatcher.Waiting.Waiting() != 1 {
			t.Fatalf("first ended %v with %v, second ended %v, %d wait", first.hasEnded(), first.err, second.hasEnded(),
				h.dispatcher.Waiting.Waiting())
		}
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !second.hasEnded() || second.placement.Node != "node-a" {
			t.Errorf("second: %v, %+v, %v", second.hasEnded(), second.placement, second.err)
		}
	})
}

// TestRefusedOnArrival: a request that would wait longer than it may, and one of a tenant that has its part of a full queue, are refused at
// once.
func TestRefusedOnArrival(t *testing.T) {
	t.Parallel()
	runWith(t, func(c *dispatch.Config) { c.MaxWaiting = 20 }, func(h *harness) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch())
		var waiting []*waitingRequest
		for i := range 20 {
			waiting = append(waiting, h.startWaiting(h.t.Context(), fmt.Sprint("w-", i), time.Minute))
		}
		full := h.startWaiting(h.t.Context(), "full", time.Minute)
		if !full.hasEnded() || full.err == nil || full.err.Code != wire.QueueFull || full.err.RetryAfterMS == 0 {
			t.Errorf("a full queue: %v, %+v", full.hasEnded(), full.err)
		}
		for range fairqueue.MinGrants {
			time.Sleep(500 * time.Millisecond)
			if err := h.done(busy); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			busy = h.acknowledge(takePlaced(t, &waiting))
		}
		late := h.startWaiting(h.t.Context(), "late", 100*time.Millisecond) // the next slot is free in half a second
		if !late.hasEnded() || late.err == nil || late.err.Code != wire.CannotBeMet || late.err.RetryAfterMS < 100 {
			t.Errorf("no slot in time: %v, %+v", late.hasEnded(), late.err)
		}
	})
}

// TestWaitIsAnnounced: who waits for more than a moment is told, with how much longer that will take if it is known.
func TestWaitIsAnnounced(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch())
		var announced []time.Duration
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = h.dispatcher.Dispatch(h.t.Context(), dispatch.Request{Spec: spec(withRequestID("w")), Wait: &dispatch.Wait{
				Since: began, Until: began.Add(time.Minute), Announce: func(estimate time.Duration) {
					announced = append(announced, time.Since(began), estimate)
				},
			}})
		}()
		time.Sleep(3 * time.Second)
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		<-done
		if len(announced) != 2 || announced[0] != 250*time.Millisecond || announced[1] != waiting.EstimateUnknown {
			t.Errorf("announced after and with %v", announced)
		}
	})
}

// retryForTheOtherNode fills two nodes of one slot. The first job fails, and only the node of the second may get it then.
func (h *harness) retryForTheOtherNode() (first, second dispatch.Placement) {
	h.t.Helper()
	h.addNode("node-a", 1)
	h.addNode("node-b", 1)
	first, second = h.acknowledge(h.dispatch(withRequestID("r-1"))), h.acknowledge(h.dispatch(withRequestID("r-2")))
	if err := h.fail(first, core.ReasonModelNotAvailable); err != nil {
		h.t.Fatal(err)
	}
	return first, second
}

// TestRetryWaitsInTheQueue: a job that is retried waits for a slot beside the requests, and gets its turn, also before requests of its
// tenant that may wait for less time than the job has: it was accepted before them.
func TestRetryWaitsInTheQueue(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		first, second := h.retryForTheOtherNode()
		time.Sleep(time.Second)
		var waiting []*waitingRequest
		for i := range 3 {
			waiting = append(waiting, h.startWaiting(h.t.Context(), fmt.Sprint("w-", i), time.Duration(3+i)*time.Second))
		}
		if waiting[0].placement.Node != first.Node {
			t.Fatalf("the first request is on %q, want %q, which the retry cannot use", waiting[0].placement.Node, first.Node)
		}
		time.Sleep(1500 * time.Millisecond)
		if err := h.done(second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if job := h.job(first.Job); job.Node != second.Node || job.State != core.StateDispatched {
			t.Errorf("the retry is %s on %s; others waited after it", job.State, job.Node)
		}
	})
}

// TestNodeThatRefusesIsOfferedLater: the slots of a node that refuses jobs are offered again after a while, and not at once, without end.
func TestNodeThatRefusesIsOfferedLater(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.transport.failWith("node-a", dispatch.ErrRefused)
		waiting := h.startWaiting(h.t.Context(), "w", time.Minute)
		time.Sleep(3 * time.Second)
		if n := testutil.ToFloat64(h.metrics.Deliveries.WithLabelValues(telemetry.DeliveryRefused)); n < 5 || n > 20 {
			t.Errorf("it was tried %v times in 3 s, want 5 to 20", n)
		}
		h.transport.failWith("node-a", nil)
		time.Sleep(500 * time.Millisecond)
		if !waiting.hasEnded() || waiting.placement.Node != "node-a" {
			t.Errorf("placed %+v", waiting.placement)
		}
	})
}

// TestDrainedNodesAreNotFull: a request that waits until its time is over is told why the nodes cannot take it by then, also one that was
// not tried because others waited for the same nodes.
func TestDrainedNodesAreNotFull(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.acknowledge(h.dispatch())
		first := h.startWaiting(h.t.Context(), "first", 3*time.Second)
		second := h.startWaiting(h.t.Context(), "second", 3*time.Second)
		full := h.startWaiting(h.t.Context(), "full", time.Second)
		h.advance(2*time.Second, "node-a")
		if _, err := h.registry.Drain(h.t.Context(), "node-a", true); err != nil {
			t.Fatal(err)
		}
		h.advance(3*time.Second, "node-a")
		for _, c := range []struct {
			*waitingRequest
			reason string
		}{{full, "FULL"}, {first, "DRAINED"}, {second, "DRAINED"}} {
			if !c.hasEnded() || c.err == nil || c.err.Code != wire.AllCandidatesFullOrFailed || len(c.err.Reasons) != 1 ||
				c.err.Reasons[c.reason] != 1 {
				t.Errorf("%+v, want a refusal with the reason %s", c.err, c.reason)
				continue
			}
			if isFull := strings.Contains(strings.ToLower(c.err.Detail), "full"); isFull != (c.reason == "FULL") {
				t.Errorf("the reason is %s and the text %q", c.reason, c.err.Detail)
			}
		}
	})
}
