package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestBusyNodeDoesNotRefuseAcceptedJob(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		if err := h.fail(p, core.ReasonNodeBusy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.wantState(p.Job, core.StateRetrying, core.ReasonNodeBusy)
		if again := h.dispatch(); again != p {
			t.Errorf("the same request: %+v, want %+v", again, p)
		}
		h.advance(31*time.Second, "node-a")
		h.wantState(p.Job, core.StateFailed, core.ReasonDeadline)
	})
}

func TestOlderMoveDoesNotHideNewerOne(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		m := &hookStore{Store: h.mem}
		h.store.Store = m
		p := h.dispatch()
		m.afterMove = func() { // the job was just moved to node-b, which is lost before the run continues
			h.addNode("node-c", 1)
			leases, err := h.mem.Orphans(h.t.Context(), "node-b")
			if err != nil || len(leases) != 1 {
				t.Errorf("leases of node-b: %v, %v", leases, err)
			}
			leases[0].Young = false
			h.dispatcher.Reconciler.MoveOrphans(leases)
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		h.addNode("node-b", 1)
		h.advance(3*time.Second, "node-a", "node-b")
		h.advance(3*time.Second, "node-a", "node-b", "node-c")
		if now := h.job(p.Job); now.Attempt < 3 {
			t.Fatalf("the job is in attempt %d: the test did not move it twice", now.Attempt)
		}
		// Attempt 3 on node-c was not acknowledged either: its own timer must have ended it by now.
		if now := h.job(p.Job); now.Attempt == 3 && now.State == core.StateDispatched {
			t.Errorf("attempt 3 has no timer: %+v", now.History)
		}
	})
}

func TestACKBeforeDeliveryTimesOut(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		h.transport.failWith("node-a", context.DeadlineExceeded)
		h.transport.failWith("node-b", context.DeadlineExceeded)
		go func() {
			time.Sleep(100 * time.Millisecond)
			jobs, err := h.mem.List(h.t.Context(), store.ListParams{})
			if err != nil || len(jobs) != 1 {
				t.Errorf("jobs %v, %v", jobs, err)
				return
			}
			if err := h.dispatcher.Reports.Ack(h.t.Context(), dispatch.Report{Job: jobs[0].ID, Holder: jobs[0].Holder}); err != nil {
				t.Error(err)
			}
		}()
		p := h.dispatch()
		h.wantState(p.Job, core.StateAcked, "")
		if p.Attempt != 1 {
			t.Errorf("placed %+v: an acknowledged attempt was given up", p)
		}
	})
}

// TestRetryDuringStoreFailure: the store fails in the middle of a retry and comes back.
func TestRetryDuringStoreFailure(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{true, false} {
		runTest(t, func(h *harness) {
			h.addNode("node-a", 1)
			h.addNode("node-b", 1)
			p := h.dispatch()
			if err := h.ack(p); err != nil {
				t.Fatal(err)
			}
			for _, operation := range []string{"apply", "reserve", "release"} {
				h.store.failNext(down, operation, 3) // fewer than a decision retries
			}
			if err := h.fail(p, core.ReasonNodeFailed); err != nil {
				t.Fatal(err)
			}
			h.advance(1500*time.Millisecond, "node-a", "node-b") // less than the ACK timeout of the next node
			now := h.placementOf(p.Job)
			if now.Attempt != 2 || now.Node == p.Node {
				t.Fatalf("after the failure: %+v %+v", now, h.job(p.Job))
			}
			if err := h.done(now); err != nil {
				t.Fatal(err)
			}
			h.advance(20*time.Second, "node-a", "node-b") // a slot whose grant was lost is freed when its lease expires
			h.wantFree("node-a", "node-b")
			if n := len(h.transport.deliveries()); n != 2 {
				t.Errorf("%d deliveries, want 2", n)
			}
		})
	}
}

// reasons returns the reasons for which a job's attempts ended.
func reasons(j *core.Job) []core.Reason {
	var list []core.Reason
	for _, a := range j.History {
		list = append(list, a.Reason)
	}
	return list
}

func TestRetryAfterACKTimeout(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		first := h.dispatch()
		h.advance(3*time.Second, "node-a", "node-b")

		second := h.placementOf(first.Job)
		if second.Node == first.Node || second.Attempt != 2 {
			t.Fatalf("after an ACK timeout: %+v, was %+v", second, first)
		}
		// The first node may have the job: its slot stays taken until it reports otherwise, and the job is cancelled there.
		if n := h.inFlight(string(first.Node)); n != 1 {
			t.Errorf("%d slots of the old node are taken, want 1", n)
		}
		if diff := cmp.Diff([]store.ActiveJob{{Job: first.Job, Attempt: 1}},
			h.heartbeat(string(first.Node), h.transport.heldBy(string(first.Node)))); diff != "" {
			t.Errorf("cancels (-want +got):\n%s", diff)
		}
		wantCode(t, h.ack(first), wire.StaleAttempt)
		if err := h.ack(second); err != nil {
			t.Fatal(err)
		}
		wantCode(t, h.done(first), wire.StaleAttempt)
		h.wantFree(string(first.Node)) // its report says that it no longer runs the job
		h.wantState(first.Job, core.StateAcked, core.ReasonACKTimeout)
		if err := h.done(second); err != nil {
			t.Fatal(err)
		}
		h.wantState(first.Job, core.StateDone, "")
		h.wantFree("node-a", "node-b")
		if diff := cmp.Diff([]core.Reason{core.ReasonACKTimeout, ""}, reasons(h.job(first.Job))); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	})
}

func TestFailuresAreRetriedUntilMaxRetry(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		for _, id := range []string{"node-a", "node-b", "node-c", "node-d"} {
			h.addNode(id, 1)
		}
		p := h.dispatch()
		seen := map[core.NodeID]bool{}
		for attempt := 1; attempt <= 3; attempt++ {
			p = h.placementOf(p.Job)
			if p.Attempt != attempt || seen[p.Node] {
				t.Fatalf("attempt %d on %s, seen %v", p.Attempt, p.Node, seen)
			}
			seen[p.Node] = true
			if err := h.ack(p); err != nil {
				t.Fatal(err)
			}
			if err := h.fail(p, core.ReasonNodeFailed); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if attempt < 3 {
				wantCode(t, h.fail(p, core.ReasonNodeFailed), wire.StaleAttempt)
			}
		}
		h.wantState(p.Job, core.StateFailed, core.ReasonMaxRetry)
		h.wantFree("node-a", "node-b", "node-c", "node-d")
		if again := h.dispatch(); again.Job != p.Job {
			t.Errorf("a repeat of a failed job: %+v", again)
		}
	})
}

func TestBusyNodeCostsNoAttempt(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		for _, id := range []string{"node-a", "node-b", "node-c"} {
			h.addNode(id, 1)
			h.transport.failWith(id, dispatch.ErrBusy)
		}
		e := h.dispatchRefused()
		if e.Code != wire.AllCandidatesFullOrFailed || e.RetryAfter == 0 {
			t.Errorf("all busy: %+v", e)
		}
		h.wantFree("node-a", "node-b", "node-c")
		if got := testutil.ToFloat64(h.metrics.NodeBusy); got != 3 {
			t.Errorf("%v refusals of busy nodes are counted, want 3", got)
		}
		h.transport.failWith("node-b", nil)
		p := h.dispatch() // the refusal has no record
		if p.Node != "node-b" || p.Attempt != 1 {
			t.Errorf("placed %+v, want node-b in its first attempt", p)
		}
		h.wantFree("node-a", "node-c")
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
	})
}

func TestBusyReportAfterDeliveryCostsNoAttempt(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		p := h.dispatch()
		if err := h.fail(p, core.ReasonNodeBusy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		now := h.placementOf(p.Job)
		if now.Node == p.Node || now.Attempt != 1 {
			t.Errorf("after NODE_BUSY: %+v, want the first attempt on another node", now)
		}
		if got := testutil.ToFloat64(h.metrics.NodeBusy); got != 1 {
			t.Errorf("%v refusals of busy nodes are counted, want 1", got)
		}
		wantCode(t, h.done(p), wire.NotHolder)
		h.wantFree(string(p.Node))
	})
}

func TestUncertainDeliveryIsAnACKTimeout(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"broken": errLost, "hanging": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("node-a", 1)
				h.addNode("node-b", 1)
				h.transport.failWith("node-a", err)
				p := h.dispatch(func(s *core.Spec) { s.Options.PreferredNodeID = new("node-a") })
				if p.Node != "node-b" || p.Attempt != 2 {
					t.Errorf("placed %+v, want node-b in the second attempt", p)
				}
				if n := h.inFlight("node-a"); n != 1 {
					t.Errorf("%d slots of node-a are taken, want 1: it may have the job", n)
				}
			})
		})
	}
}

func TestJobFailsWhenNoNodeAcknowledges(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		for _, id := range []string{"node-a", "node-b", "node-c"} {
			h.addNode(id, 1)
			h.transport.failWith(id, errLost)
		}
		// Any of them may have the job: it was placed, and its record has the outcome.
		p := h.dispatch()
		h.wantState(p.Job, core.StateFailed, core.ReasonMaxRetry)
		if again := h.dispatch(); again != p {
			t.Errorf("repeat: %+v, want %+v", again, p)
		}
	})
}

func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		first := h.dispatch()
		if err := h.ack(first); err != nil {
			t.Fatal(err)
		}
		h.advance(16*time.Second, "node-a", "node-b")
		second := h.placementOf(first.Job)
		if second.Attempt != 2 || second.Node == first.Node {
			t.Fatalf("after the attempt timeout: %+v", second)
		}
		if err := h.ack(second); err != nil {
			t.Fatal(err)
		}
		h.advance(15*time.Second, "node-a", "node-b")
		h.wantState(first.Job, core.StateFailed, core.ReasonDeadline)
		wantCode(t, h.done(second), wire.StaleAttempt)
		wantCode(t, h.done(first), wire.StaleAttempt)
		h.wantFree("node-a", "node-b")
		if h.dispatcher.InFlight() != 0 {
			t.Errorf("%d jobs in flight, want none", h.dispatcher.InFlight())
		}
	})
}

func TestRetryWaitsForASlot(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		p := h.dispatch(func(s *core.Spec) { s.Options.PreferredNodeID = new("node-a") })
		other := h.dispatch(withRequestID("other"))
		if err := h.ack(other); err != nil {
			t.Fatal(err)
		}
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		if err := h.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		h.advance(8*time.Second, "node-a", "node-b")
		h.wantState(p.Job, core.StateRetrying, core.ReasonNodeFailed)
		h.wantFree("node-a") // the failed attempt holds no slot while the job waits
		if err := h.done(other); err != nil {
			t.Fatal(err)
		}
		h.advance(time.Second, "node-a", "node-b")
		if now := h.placementOf(p.Job); now.Node != "node-b" || now.Attempt != 2 {
			t.Errorf("after a slot was freed: %+v", now)
		}
	})
}

func TestRetryWithoutAnotherNodeEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		h.advance(31*time.Second, "node-a")
		h.wantState(p.Job, core.StateFailed, core.ReasonDeadline)
		h.transport.drop(p)
		h.advance(2*time.Second, "node-a")
		h.wantFree("node-a")
	})
}

func TestStrictJobIsNotRetriedElsewhere(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		strict := func(s *core.Spec) { s.Options.PreferredNodeID, s.Options.Strict = new("node-a"), true }
		p := h.dispatch(strict)
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		if err := h.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.wantState(p.Job, core.StateFailed, core.ReasonNodeFailed)
		h.transport.failWith("node-a", dispatch.ErrBusy)
		wantCode(t, h.dispatchRefused(strict, withRequestID("req-2")), wire.AllCandidatesFullOrFailed)
		h.wantFree("node-a", "node-b")
	})
}

// TestResultDuringFailedDeliveryIsNoMissedACK: the reply to the delivery was lost, but the result arrived.
func TestResultDuringFailedDeliveryIsNoMissedACK(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.transport.failWith("node-a", errLost)
		go func() {
			time.Sleep(time.Second)
			p := dispatch.Placement{Job: core.JobID(h.transport.deliveries()[0].JobID), Node: "node-a", Attempt: 1}
			if err := h.done(p); err != nil {
				t.Error(err)
			}
		}()
		p := h.dispatch()
		h.wantState(p.Job, core.StateDone, "")
		if h.registry.SetAsideFor("node-a") != 0 {
			t.Error("the node is set aside although its result arrived")
		}
	})
}
