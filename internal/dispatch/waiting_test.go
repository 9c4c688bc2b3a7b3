package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// waitingRequest is a request that waits for a free slot.
type waitingRequest struct {
	beganAt   time.Time
	endedAt   time.Time
	placement dispatch.Placement
	err       *wire.Error
	done      chan struct{}
}

// startWaiting dispatches a request that waits for at most d.
func (h *harness) startWaiting(ctx context.Context, id string, d time.Duration, change ...func(*core.Spec)) *waitingRequest {
	one := &waitingRequest{beganAt: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(one.done)
		p, err := h.dispatcher.Dispatch(ctx, dispatch.Request{Spec: spec(append(change, withRequestID(id))...), Wait: &dispatch.Wait{
			Since: one.beganAt, Until: one.beganAt.Add(d), Join: one.beganAt.Add(2 * time.Second),
		}})
		one.placement, one.endedAt = p, time.Now()
		errors.As(err, &one.err)
	}()
	synctest.Wait()
	return one
}

func (o *waitingRequest) hasEnded() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// countRefusals returns the numbers of refusals and of selections without a node.
func (h *harness) countRefusals() (n, selections float64) {
	families, err := h.metrics.Registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	sum := func(f *dto.MetricFamily) (total float64) {
		for _, m := range f.GetMetric() {
			total += m.GetCounter().GetValue()
		}
		return total
	}
	for _, f := range families {
		switch f.GetName() {
		case "lingua_refusals_total":
			n = sum(f)
		case "scheduler_no_available_node_total":
			selections = sum(f)
		}
	}
	return n, selections
}

// TestFailedReservationWakesNobody: a request that waits is not woken by its own reservation that failed.
func TestFailedReservationWakesNobody(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		const fails = 1000
		h.store.failNext(true, "reserve", fails)
		one := h.startWaiting(h.t.Context(), "one", 10*time.Second)
		<-one.done
		if one.err == nil || one.err.Code != wire.SchedulerDependencyDown {
			t.Errorf("%+v, %v", one.placement, one.err)
		}
		if tries := fails - h.store.remaining("reserve"); tries < 5 || tries > 20 {
			t.Errorf("%d tries in 10 seconds, want about one each second", tries)
		}
	})
}

// TestFreeSlotNeedsNoWait: a request that may wait for no time, or for less than a decision takes, gets a slot that is free.
func TestFreeSlotNeedsNoWait(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, 10 * time.Millisecond} {
		runTest(t, func(h *harness) {
			h.addNode("node-a", 1)
			h.store.stallAfter("reserve", 50*time.Millisecond)
			one := h.startWaiting(h.t.Context(), "one", wait)
			<-one.done
			if one.err != nil || one.placement.Node != "node-a" {
				t.Errorf("a request that may wait for %v: %+v, %v", wait, one.placement, one.err)
			}
		})
	}
}

// Waiting requests are woken by the release of a slot, the one that has waited longest first, and none of their tries
// counts as a refusal.
func TestWaitersAreWokenOldestFirst(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch())
		var list []*waitingRequest
		for i := range 5 {
			list = append(list, h.startWaiting(h.t.Context(), fmt.Sprint("w-", i), 30*time.Second))
			time.Sleep(10 * time.Millisecond)
		}
		if n := h.dispatcher.Waiting.Waiting(); n != 5 {
			t.Errorf("%d requests wait, want 5", n)
		}
		for i := range 5 {
			h.advance(3*time.Second, "node-a")
			released := time.Now()
			if err := h.done(busy); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for j, one := range list {
				if want := j <= i; one.hasEnded() != want {
					t.Fatalf("after %d releases request %d is placed: %v", i+1, j, !want)
				}
			}
			if took := list[i].endedAt.Sub(released); took > 0 {
				t.Errorf("request %d was placed %v after the release", i, took)
			}
			busy = h.acknowledge(list[i].placement)
		}
		if n, selections := h.countRefusals(); n != 0 || selections != 0 || h.dispatcher.Waiting.Waiting() != 0 {
			t.Errorf("%v refusals, %v selections without a node, %d wait", n, selections, h.dispatcher.Waiting.Waiting())
		}
	})
}

// An expired wait is counted as one refusal, with its reasons.
func TestExpiredWaitIsOneRefusal(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.acknowledge(h.dispatch())
		one := h.startWaiting(h.t.Context(), "w", 5*time.Second)
		h.advance(6*time.Second, "node-a")
		if !one.hasEnded() || one.err == nil || one.err.Code != wire.AllCandidatesFullOrFailed || one.err.Reasons["FULL"] != 1 ||
			one.err.RetryAfterMS == 0 {
			t.Fatalf("%v, %+v", one.hasEnded(), one.err)
		}
		if took := one.endedAt.Sub(one.beganAt); took < 5*time.Second || took > 5100*time.Millisecond {
			t.Errorf("it was refused after %v", took)
		}
		if n, selections := h.countRefusals(); n != 1 || selections != 1 {
			t.Errorf("%v refusals, %v selections", n, selections)
		}
	})
}

// A request for a direction that no node serves waits only for the join wait.
func TestNoCapableNodeIsRefusedAfterTheJoinWait(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		fr := func(s *core.Spec) { s.Direction = core.Direction{Src: "fr", Tgt: "de"} }
		one := h.startWaiting(h.t.Context(), "w", 30*time.Second, fr)
		time.Sleep(2100 * time.Millisecond)
		synctest.Wait()
		if !one.hasEnded() || one.err == nil || one.err.Code != wire.NoCapableNode {
			t.Fatalf("%v, %v", one.hasEnded(), one.err)
		}
		joined := h.startWaiting(h.t.Context(), "w-2", 30*time.Second, fr)
		time.Sleep(time.Second)
		h.addNode("node-b", 1, func(p *core.Change) { p.Semantic = core.LangSet{"fr", "de"} })
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if !joined.hasEnded() || joined.placement.Node != "node-b" {
			t.Errorf("a node that registered did not get it: %+v, %v", joined.placement, joined.err)
		}
	})
}

// A freed slot wakes only a request that its node can serve.
func TestFreedSlotWakesRequestThatCanUseIt(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1, func(p *core.Change) { p.Semantic = core.LangSet{"fr", "de"} })
		fr := func(s *core.Spec) { s.Direction = core.Direction{Src: "fr", Tgt: "de"} }
		en, other := h.dispatch(), h.dispatch(withRequestID("fr"), fr)
		first := h.startWaiting(h.t.Context(), "en-1", 30*time.Second)
		time.Sleep(time.Millisecond)
		second := h.startWaiting(h.t.Context(), "fr-1", 30*time.Second, fr)
		if err := h.done(other); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if first.hasEnded() || !second.hasEnded() {
			t.Errorf("en %v, fr %v", first.hasEnded(), second.hasEnded())
		}
		if err := h.done(en); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !first.hasEnded() {
			t.Error("the other request was not woken")
		}
	})
}

// A wait ends with its context.
func TestCancelledWaitEnds(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.dispatch()
		ctx, cancel := context.WithCancel(h.t.Context())
		one := h.startWaiting(ctx, "w", 30*time.Second)
		cancel()
		synctest.Wait()
		if !one.hasEnded() || h.dispatcher.Waiting.Waiting() != 0 {
			t.Errorf("%v, %d wait", one.hasEnded(), h.dispatcher.Waiting.Waiting())
		}
	})
}

// A request that waits for one node only does not keep later ones from being woken for another node.
func TestStrictWaiterDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		onA, onB := h.acknowledge(h.dispatch(withRequestID("r-1"))), h.acknowledge(h.dispatch(withRequestID("r-2")))
		if onA.Node == "node-b" {
			onA, onB = onB, onA
		}
		strict := h.startWaiting(h.t.Context(), "strict", 30*time.Second, func(s *core.Spec) {
			s.Options.PreferredNodeID, s.Options.Strict = new("node-b"), true
		})
		time.Sleep(time.Millisecond)
		other := h.startWaiting(h.t.Context(), "other", 30*time.Second)
		if err := h.done(onA); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if strict.hasEnded() || !other.hasEnded() {
			t.Errorf("node-a is free; strict on node-b ended: %v, any node ended: %v", strict.hasEnded(), other.hasEnded())
		}
		if err := h.done(onB); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !strict.hasEnded() || strict.placement.Node != "node-b" {
			t.Errorf("node-b is free: %+v", strict.placement)
		}
	})
}

// If a request ends when it was just woken, the next one is woken for the slot.
func TestWokenWaiterThatLeavesWakesTheNext(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		runTest(t, func(h *harness) {
			h.addNode("node-a", 1)
			busy := h.acknowledge(h.dispatch())
			ctx, cancel := context.WithCancel(h.t.Context())
			first := h.startWaiting(ctx, fmt.Sprint("first-", round), 30*time.Second)
			time.Sleep(time.Millisecond)
			second := h.startWaiting(h.t.Context(), fmt.Sprint("second-", round), 30*time.Second)
			go cancel()
			if err := h.done(busy); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if first.placement.Node == "" && !second.hasEnded() {
				t.Errorf("the slot is free, and the next request was not woken")
			}
			if first.placement.Node != "" {
				_ = h.done(h.acknowledge(first.placement))
			}
			synctest.Wait()
			if second.hasEnded() {
				_ = h.done(h.acknowledge(second.placement))
			}
		})
	}
}

// A slot that is freed between the refusal of a request and the start of its wait is not missed.
func TestSlotFreedBeforeTheWaitBegan(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch())
		h.store.afterGet = func() {
			if err := h.done(busy); err != nil {
				t.Error(err)
			}
		}
		one := h.startWaiting(h.t.Context(), "w", 30*time.Second)
		if !one.hasEnded() || one.placement.Node != "node-a" {
			t.Errorf("the slot is free, and the request waits: %v", one.hasEnded())
		}
	})
}
