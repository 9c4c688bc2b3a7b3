package dispatch_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestRetryOnTheOnlyNode: the only node is tried again if it certainly does not have the job.
func TestRetryOnTheOnlyNode(t *testing.T) {
	for name, c := range map[string]struct {
		reason core.Reason
		again  bool
	}{
		"was busy":          {core.ReasonNodeBusy, true},
		"failed":            {core.ReasonNodeFailed, true},
		"lacks the service": {core.ReasonModelNotAvailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			runSession(t, func(h *harness, _ *fakeOutcomes) {
				h.addNode("node-a", 1)
				p, err := h.dispatcher.Dispatch(t.Context(), dispatch.Request{Spec: spec(ofSession), UntilPlaced: true})
				if err != nil {
					t.Fatal(err)
				}
				first := h.job(p.Job)
				if err := h.dispatcher.Reports.Fail(t.Context(), dispatch.Report{Job: p.Job, Holder: first.Holder}, c.reason,
					""); err != nil {
					t.Fatal(err)
				}
				h.transport.drop(p)
				h.advance(2*time.Second, "node-a")
				j := h.job(p.Job)
				if again := j.State == core.StateDispatched && j.Token != first.Token; again != c.again {
					t.Errorf("%s, attempt %d: tried again %v, want %v", j.State, j.Attempt, again, c.again)
				}
			})
		})
	}
}

// TestRetryOnOnlyUsableNode: a node that reported a failure is tried again at once if no other node can take the job, although
// others are registered. If another node is only full or overloaded, the job waits for that one.
func TestRetryOnOnlyUsableNode(t *testing.T) {
	t.Parallel()
	busy := core.Load{CPU: 1, GPU: -1, Memory: -1}
	beat := func(p core.Change) func(*testing.T, *harness) {
		return func(t *testing.T, h *harness) {
			if _, err := h.registry.Heartbeat(t.Context(), nodes.Heartbeat{Node: "a", Change: p}); err != nil {
				t.Error(err)
			}
		}
	}
	for name, c := range map[string]struct {
		other func(t *testing.T, h *harness)
		waits bool
	}{
		"the other left":           {other: beat(core.Change{Declaration: core.Declaration{Health: core.HealthOffline}})},
		"the other has no slots":   {other: beat(core.Change{Has: core.Fields{MaxJobs: true}})},
		"the other is a tenant's":  {other: beat(core.Change{Declaration: core.Declaration{Tenant: "acme"}})},
		"the other is unreachable": {other: beat(core.Change{Has: core.Fields{Callback: true}})},
		"the other is overloaded":  {other: beat(core.Change{Load: &busy}), waits: true},
		"the other is full": {
			other: func(_ *testing.T, h *harness) { h.dispatch(withRequestID("req-2"), preferNode("a")) },
			waits: true,
		},
		"the other is drained": {other: func(t *testing.T, h *harness) {
			if _, err := h.registry.Drain(t.Context(), "a", true); err != nil {
				t.Error(err)
			}
		}},
		"the other is ejected": {other: func(_ *testing.T, h *harness) { admit(h, "a", 0) }},
		"the other was lost": {other: func(t *testing.T, h *harness) {
			if err := h.registry.MarkLost(t.Context(), "a", 0); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("a", 1)
				h.addNode("b", 1)
				p := h.dispatch(preferNode("b"))
				c.other(t, h)
				synctest.Wait()
				if err := h.fail(p, core.ReasonNodeFailed); err != nil {
					t.Fatal(err)
				}
				time.Sleep(200 * time.Millisecond)
				synctest.Wait()
				job := h.job(p.Job)
				if again := job.State == core.StateDispatched && job.Node == "b" && job.Attempt == 2; again == c.waits {
					t.Errorf("%s on %s in attempt %d, 200 ms after b failed; want it to wait for a: %v", job.State, job.Node, job.Attempt,
						c.waits)
				}
			})
		})
	}
}

// TestRetryOnNodeRegisteredAgain: a node that registers again does not have the jobs that it does not list. So the only node
// gets a job again that was lost on its way or by a restart of the node; if another node could take it, the job waits for that.
func TestRetryOnNodeRegisteredAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(h *harness, p dispatch.Placement){
		"lost on its way": func(h *harness, _ dispatch.Placement) { h.advance(2500*time.Millisecond, "a") },
		"lost by the node": func(h *harness, p dispatch.Placement) {
			if err := h.ack(p); err != nil {
				h.t.Fatal(err)
			}
		},
	} {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with another %t", name, other), func(t *testing.T) {
				t.Parallel()
				runTest(t, func(h *harness) {
					h.addNode("a", 1)
					p := h.dispatch()
					h.transport.drop(p)
					if other {
						h.addNode("b", 1)
						h.acknowledge(h.dispatch(withRequestID("req-2"), preferNode("b"))) // so that b is full
					}
					lose(h, p)
					if err := h.register("a", 1, store.Activity{Lists: true}); err != nil {
						t.Fatal(err)
					}
					h.advance(8*time.Second, "a")
					again := slices.ContainsFunc(h.transport.deliveries(), func(a wire.Assignment) bool {
						return a.JobID == string(p.Job) && a.NodeID == "a" && a.AttemptID == 2
					})
					if again == other {
						t.Errorf("a got the job again: %v, with another node: %v", again, other)
					}
				})
			})
		}
	}
}

// TestRetryIsNotGrantedAfterTheFence: an instance that may no longer grant slots does not retry a job that was not acknowledged.
func TestRetryIsNotGrantedAfterTheFence(t *testing.T) {
	t.Parallel()
	var until fenceTime
	runWith(t, func(c *dispatch.Config) { c.Fence = until.get }, func(h *harness) {
		h.addNode("node-a", 1)
		until.set(time.Now().Add(time.Second))
		p := h.dispatch()
		h.addNode("node-b", 1)
		time.Sleep(4 * time.Second) // it could not renew its presence for four seconds: other instances have taken over
		synctest.Wait()
		if j := h.job(p.Job); j.Node == "node-b" || h.inFlight("node-b") > 0 {
			t.Errorf("3 s after the fence node-b was granted: attempt %d on %s, token %s", j.Attempt, j.Node, j.Token)
		}
	})
}

// TestRefusedDeliveryRefusesWaitingCaller: a caller that waits until its job is placed is refused while nothing of the job was
// sent, so that it can wait on its own terms and report why. The repeated request is the same job.
func TestRefusedDeliveryRefusesWaitingCaller(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("a", 1)
		h.transport.failWith("a", dispatch.ErrRefused)
		began := time.Now()
		place := func() (dispatch.Placement, error) {
			return h.dispatcher.Dispatch(t.Context(), dispatch.Request{Spec: spec(), UntilPlaced: true})
		}
		_, err := place()
		var refused *wire.Error
		if !errors.As(err, &refused) || refused.Code != wire.AllCandidatesFullOrFailed ||
			refused.Reasons[string(core.ReasonDeliveryRefused)] != 1 {
			t.Fatalf("dispatch: %v; want a refusal for DELIVERY_REFUSED", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it was refused after %s", took)
		}
		h.wantFree("a")
		h.transport.failWith("a", nil)
		p, err := place()
		if err != nil {
			t.Fatal(err)
		}
		if s := spec(); p.Job != s.Job() || p.Attempt != 1 {
			t.Errorf("placed %+v, want attempt 1 of %s", p, s.Job())
		}
		h.wantState(p.Job, core.StateDispatched, "")
	})
}

// TestRefusedDeliveryGoesToAnotherNode: before the request is refused.
func TestRefusedDeliveryGoesToAnotherNode(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("a", 1)
		h.addNode("b", 1)
		h.transport.failWith("a", dispatch.ErrRefused)
		p, err := h.dispatcher.Dispatch(t.Context(), dispatch.Request{Spec: spec(preferNode("a")), UntilPlaced: true})
		if err != nil || p.Node != "b" || p.Attempt != 1 {
			t.Errorf("placed %+v, %v; want attempt 1 on b", p, err)
		}
	})
}

// TestStalledDispatchDoesNotDeliver suspends an instance between the reservation and the delivery until the lease has
// expired and the slot was given to another job. The job must not be delivered then.
func TestStalledDispatchDoesNotDeliver(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		stalled := 2*(timing.Attempt+timing.ReservedTTL) + time.Second/2
		h.store.stallAfter("create", stalled)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			// Meanwhile other instances have decided about the job: any answer is right.
			_, _ = h.dispatcher.Dispatch(t.Context(), dispatch.Request{Spec: spec()})
		}()
		h.advanceWithoutList(timing.Attempt+timing.ReservedTTL+timing.Presence, "node-a")
		other := h.dispatch(withRequestID("req-2"))
		if err := h.ack(other); err != nil {
			t.Fatal(err)
		}
		h.advanceWithoutList(6*time.Second, "node-a")
		select {
		case <-ended:
		default:
			t.Error("the stalled request was not answered")
		}
		if sent := h.transport.deliveries(); len(sent) != 1 {
			t.Errorf("node-a was sent %v on 1 slot", sent)
		}
	})
}

// TestStalledRetryReservesAgain suspends an instance after it has moved a job, before it has delivered it. The job continues with a
// new
// reservation in the same attempt.
func TestStalledRetryReservesAgain(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		first := h.dispatch()
		if err := h.ack(first); err != nil {
			t.Fatal(err)
		}
		h.addNode("node-b", 1)
		h.addNode("node-c", 1)
		h.store.stallAfter("move", timing.ReservedTTL+time.Second)
		if err := h.fail(first, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		time.Sleep(timing.ReservedTTL + 2*time.Second)
		synctest.Wait()
		sent := h.transport.deliveries()
		if len(sent) != 2 || sent[1].AttemptID != 2 {
			t.Fatalf("deliveries: %+v; want the second attempt once", sent)
		}
		at := h.placementOf(first.Job)
		if string(at.Node) != sent[1].NodeID || at.Attempt != 2 {
			t.Errorf("the record says %+v, the delivery went to %s", at, sent[1].NodeID)
		}
		history := h.job(first.Job).History
		if len(history) != 3 || history[1].Reason != core.ReasonDeliveryRefused || history[1].Node == at.Node {
			t.Errorf("history: %+v; want the stalled reservation given up", history)
		}
		for _, id := range []string{"node-a", "node-b", "node-c"} {
			if n := h.inFlight(id); (n == 1) != (id == string(at.Node)) {
				t.Errorf("%s has %d slots taken, the job is on %s", id, n, at.Node)
			}
		}
	})
}
