package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// admit decides how many slots of a node may be granted, for a minute; negative: all.
func admit(h *harness, id core.NodeID, slots int) {
	h.t.Helper()
	p := store.AdmitParams{Node: id, Fence: 1}
	if slots >= 0 {
		p.Admission, p.For = core.Admission{Limited: true, Slots: slots, Reason: core.AdmissionFailing, Times: 1}, time.Minute
	}
	if _, admitted, err := h.mem.Admit(h.t.Context(), p); err != nil || !admitted {
		h.t.Fatal(admitted, err)
	}
	synctest.Wait() // until the fleet has it, if it follows the store
}

// TestEjectedNodeGetsNoJobs: an ejected node keeps its job and gets no other one, also when no other node can take it and when it is
// preferred.
func TestEjectedNodeGetsNoJobs(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("a", 2)
		h.addNode("b", 2)
		p := h.dispatch(withRequestID("before"), preferNode("a"))
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		admit(h, "a", 0)
		for _, id := range []string{"r1", "r2"} {
			if p := h.dispatch(withRequestID(id), preferNode("a")); p.Node != "b" {
				t.Errorf("%s was placed on the ejected node", id)
			}
		}
		e := h.dispatchRefused(withRequestID("r3"))
		if diff := cmp.Diff(map[string]int{"EJECTED": 1, "FULL": 1}, e.Reasons); diff != "" || e.Code != wire.AllCandidatesFullOrFailed {
			t.Errorf("%s (-want +got):\n%s", e.Code, diff)
		}
		e = h.dispatchRefused(withRequestID("r4"), preferNode("a"), func(s *core.Spec) { s.Options.Strict = true })
		if diff := cmp.Diff(map[string]int{"EJECTED": 1}, e.Reasons); diff != "" || e.Code != wire.AllCandidatesFullOrFailed {
			t.Errorf("strict: %s (-want +got):\n%s", e.Code, diff)
		}
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		h.wantState(p.Job, core.StateDone, core.ReasonNone)
		admit(h, "a", -1)
		if p := h.dispatch(withRequestID("r5")); p.Node != "a" {
			t.Errorf("placed on %s after the ejection, want a", p.Node)
		}
	})
}

// TestLimitHoldsOnStaleFleet: an instance that does not know of a decision yet is refused by the store, and says why.
func TestLimitHoldsOnStaleFleet(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("a", 4)
		h.stopFollower()
		admit(h, "a", 1)
		h.dispatch(withRequestID("r1"))
		if e := h.dispatchRefused(withRequestID("r2")); e.Reasons["FULL"] != 1 {
			t.Errorf("beyond the limit: %+v", e)
		}
		admit(h, "a", 0)
		if e := h.dispatchRefused(withRequestID("r3")); e.Reasons["EJECTED"] != 1 {
			t.Errorf("ejected: %+v", e)
		}
		if h.fleet.Node("a").Summary().Slots() != 4 {
			t.Error("the fleet knows of the decision, so nothing was tested")
		}
		if n := h.inFlight("a"); n != 1 {
			t.Errorf("%d slots are taken, want 1", n)
		}
	})
}

// TestLimitedNodeGetsAsManyJobs: a limited node has at most as many jobs at once, and more when the limit is lifted.
func TestLimitedNodeGetsAsManyJobs(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("a", 3)
		admit(h, "a", 1)
		p := h.dispatch(withRequestID("r1"))
		if e := h.dispatchRefused(withRequestID("r2")); e.Reasons["FULL"] != 1 {
			t.Errorf("beyond the limit: %+v", e)
		}
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		h.dispatch(withRequestID("r2"))
		admit(h, "a", -1)
		h.dispatch(withRequestID("r3"))
		h.dispatch(withRequestID("r4"))
		if e := h.dispatchRefused(withRequestID("r5")); e.Reasons["FULL"] != 1 {
			t.Errorf("beyond its slots: %+v", e)
		}
	})
}

// TestExplainShowsAdmission: an explanation has the reason, the limit and the time of the store by which it is judged, also when the
// node is silent.
func TestExplainShowsAdmission(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("a", 4)
		h.addNode("b", 4)
		h.addNode("c", 4)
		admit(h, "a", 0)
		admit(h, "b", 1)
		explain := func() (reasons []core.Reason, slots []int, left []time.Duration) {
			t.Helper()
			x, err := h.dispatcher.Explain(h.t.Context(), dispatch.ExplainParams{Spec: spec(), Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range x.Nodes {
				reasons, slots = append(reasons, n.Reason), append(slots, n.Slots())
				if n.At.IsZero() {
					left = append(left, -1)
				} else {
					left = append(left, n.Node.Admission.Remaining(n.At))
				}
			}
			return reasons, slots, left
		}
		h.advance(35*time.Second, "a", "b", "c")
		reasons, slots, left := explain()
		if diff := cmp.Diff([]core.Reason{core.ReasonEjected, core.ReasonNone, core.ReasonNone}, reasons); diff != "" {
			t.Errorf("reasons (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 4}, slots); diff != "" {
			t.Errorf("slots (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{25 * time.Second, 25 * time.Second, 0}, left); diff != "" {
			t.Errorf("time left (-want +got):\n%s", diff)
		}
		h.advance(20*time.Second, "b", "c") // a is silent
		reasons, slots, left = explain()
		if diff := cmp.Diff([]core.Reason{core.ReasonNone, core.ReasonNone, core.ReasonStale}, reasons); diff != "" {
			t.Errorf("reasons (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{1, 4, 0}, slots); diff != "" {
			t.Errorf("slots (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{5 * time.Second, 0, -1}, left); diff != "" {
			t.Errorf("time left (-want +got):\n%s", diff)
		}
	})
}
