package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/wire"
)

// waiting is a request that waits for a node.
type waiting struct {
	began time.Time
	ended time.Time
	p     dispatch.Placement
	err   *wire.Error
	done  chan struct{}
}

// wait dispatches a request that waits for so long.
func (w *world) wait(ctx context.Context, id string, d time.Duration, change ...func(*core.Spec)) *waiting {
	one := &waiting{began: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(one.done)
		p, err := w.d.DispatchWaiting(ctx, dispatch.Request{Spec: spec(append(change, request(id))...)}, dispatch.Wait{
			Since: one.began, Until: one.began.Add(d), Join: one.began.Add(2 * time.Second),
		})
		one.p, one.ended = p, time.Now()
		errors.As(err, &one.err)
	}()
	synctest.Wait()
	return one
}

// confirmed has the node of a job confirm it.
func (w *world) confirmed(p dispatch.Placement) dispatch.Placement {
	w.t.Helper()
	if err := w.ack(p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (o *waiting) over() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// refusals is how often requests were refused, and how often that is told apart by reason.
func (w *world) refusals() (n, selections float64) {
	families, err := w.m.Registry.Gather()
	if err != nil {
		w.t.Fatal(err)
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

// Requests that wait are woken by the release of a slot, the one that has waited longest first, and none of their tries
// counts as a refusal.
func TestWaitersAreWokenOldestFirst(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		busy := w.confirmed(w.dispatch())
		var list []*waiting
		for i := range 5 {
			list = append(list, w.wait(w.t.Context(), fmt.Sprint("w-", i), 30*time.Second))
			time.Sleep(10 * time.Millisecond)
		}
		if n := w.d.Waiting(); n != 5 {
			t.Errorf("%d wait", n)
		}
		for i := range 5 {
			w.pass(3*time.Second, "node-a")
			released := time.Now()
			if err := w.done(busy); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for j, one := range list {
				if want := j <= i; one.over() != want {
					t.Fatalf("after %d releases request %d is served: %v", i+1, j, !want)
				}
			}
			if took := list[i].ended.Sub(released); took > 0 {
				t.Errorf("request %d was served %v after the release", i, took)
			}
			busy = w.confirmed(list[i].p)
		}
		if n, selections := w.refusals(); n != 0 || selections != 0 || w.d.Waiting() != 0 {
			t.Errorf("%v refusals, %v selections without a node, %d wait", n, selections, w.d.Waiting())
		}
	})
}

// A wait that is over is one refusal, with its reasons.
func TestExpiredWaitIsOneRefusal(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.confirmed(w.dispatch())
		one := w.wait(w.t.Context(), "w", 5*time.Second)
		w.pass(6*time.Second, "node-a")
		if !one.over() || one.err == nil || one.err.Code != wire.AllCandidatesFullOrFailed || one.err.Reasons["FULL"] != 1 || one.err.RetryAfterMS == 0 {
			t.Fatalf("%v, %+v", one.over(), one.err)
		}
		if took := one.ended.Sub(one.began); took < 5*time.Second || took > 5100*time.Millisecond {
			t.Errorf("it was refused after %v", took)
		}
		if n, selections := w.refusals(); n != 1 || selections != 1 {
			t.Errorf("%v refusals, %v selections", n, selections)
		}
	})
}

// A direction that no node serves is waited for only as long as a node may be just joining.
func TestNoCapableNodeIsSaidAfterTheJoinWait(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		fr := func(s *core.Spec) { s.Direction = core.Direction{Src: "fr", Tgt: "de"} }
		one := w.wait(w.t.Context(), "w", 30*time.Second, fr)
		time.Sleep(2100 * time.Millisecond)
		synctest.Wait()
		if !one.over() || one.err == nil || one.err.Code != wire.NoCapableNode {
			t.Fatalf("%v, %v", one.over(), one.err)
		}
		joined := w.wait(w.t.Context(), "w-2", 30*time.Second, fr)
		time.Sleep(time.Second)
		w.node("node-b", 1, func(p *nodes.Patch) { p.Semantic = core.LangSet{"fr", "de"} })
		synctest.Wait()
		if !joined.over() || joined.p.Node != "node-b" {
			t.Errorf("a node that joined did not get it: %+v, %v", joined.p, joined.err)
		}
	})
}

// A slot wakes only those who can use it, and is passed on by one who cannot.
func TestFreedSlotWakesWhoCanUseIt(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.node("node-b", 1, func(p *nodes.Patch) { p.Semantic = core.LangSet{"fr", "de"} })
		fr := func(s *core.Spec) { s.Direction = core.Direction{Src: "fr", Tgt: "de"} }
		en, other := w.dispatch(), w.dispatch(request("fr"), fr)
		first := w.wait(w.t.Context(), "en-1", 30*time.Second)
		time.Sleep(time.Millisecond)
		second := w.wait(w.t.Context(), "fr-1", 30*time.Second, fr)
		if err := w.done(other); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if first.over() || !second.over() {
			t.Errorf("en %v, fr %v", first.over(), second.over())
		}
		if err := w.done(en); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !first.over() {
			t.Error("the other was not woken")
		}
	})
}

// A caller that goes away waits no longer.
func TestCancelledWaitEnds(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.dispatch()
		ctx, cancel := context.WithCancel(w.t.Context())
		one := w.wait(ctx, "w", 30*time.Second)
		cancel()
		synctest.Wait()
		if !one.over() || w.d.Waiting() != 0 {
			t.Errorf("%v, %d wait", one.over(), w.d.Waiting())
		}
	})
}

// While an instance leaves, it refuses new requests and still dispatches what is said in its conversations.
func TestLeavingDispatcherServesItsConversations(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 4)
		w.d.Leave()
		if e := w.refused(); e.Code != wire.AllCandidatesFullOrFailed {
			t.Errorf("%v", e)
		}
		p := w.dispatch(request("u-1"), func(s *core.Spec) { s.Utterance.Turn = 1 })
		if diff := cmp.Diff(core.NodeID("node-a"), p.Node); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
