package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
)

func inRegion(name string) func(*core.Change) { return func(p *core.Change) { p.Region = name } }

func near(region string) func(*core.Spec) {
	return func(s *core.Spec) { s.Options.PreferredRegion = region }
}

// TestEligiblePoolsAreSurveyedFirst: jobs leave the eligible pools only when none of their nodes has a free slot, also if a sample does not
// find the few that have one.
func TestEligiblePoolsAreSurveyedFirst(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		const poolNodes = 100
		for i := range poolNodes {
			h.addNode(fmt.Sprint("g", i), 1, withServices("x"))
		}
		h.addNode("none", 100)
		h.fleet.SetPools(goldAndSilver())
		for i := range poolNodes {
			if p := h.dispatch(withRequestID(fmt.Sprint("r", i))); p.Node == "none" {
				t.Fatalf("job %d is outside, and %d nodes of an eligible pool are free", i, poolNodes-i)
			}
		}
		if p := h.dispatch(withRequestID("last")); p.Node != "none" {
			t.Errorf("a job is on %s, want the node without a pool", p.Node)
		}
		if got := h.poolCounts()["selected_total fallback=outside outcome=selected pool=none"]; got != 1 {
			t.Errorf("%v jobs are counted as outside: %v", got, h.poolCounts())
		}
	})
}

// TestRegionWithinPools: the preferred region decides among the eligible pools, and then among the nodes outside of them. An explanation
// says the same.
func TestRegionWithinPools(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("pool-eu", 1, withServices("x"), inRegion("eu"))
		h.addNode("pool-us", 1, withServices("x"), inRegion("us"))
		h.addNode("none-eu", 1, inRegion("eu"))
		h.addNode("none-us", 1, inRegion("us"))
		h.fleet.SetPools(goldAndSilver())
		e, err := h.dispatcher.Explain(h.t.Context(), dispatch.ExplainParams{Spec: spec(near("eu")), Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		type verdict struct {
			Fallback bool
			Reason   core.Reason
		}
		got := make(map[core.NodeID]verdict)
		for _, n := range e.Nodes {
			got[n.Node.ID] = verdict{n.Fallback, n.Reason}
		}
		want := map[core.NodeID]verdict{
			"pool-eu": {}, "pool-us": {Reason: core.ReasonPreferredRegion}, "none-eu": {Fallback: true},
			"none-us": {true, core.ReasonPreferredRegion},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("explanation (-want +got):\n%s", diff)
		}
		for i, want := range []core.NodeID{"pool-eu", "pool-us", "none-eu", "none-us"} {
			if p := h.dispatch(withRequestID(fmt.Sprint("r", i)), near("eu")); p.Node != want {
				t.Errorf("job %d is on %s, want %s", i, p.Node, want)
			}
		}
	})
}

// waitRefused dispatches a request that waits until it is refused.
func (h *harness) waitRefused(id string, change ...func(*core.Spec)) {
	h.t.Helper()
	one := h.startWaiting(h.t.Context(), id, 3*time.Second, change...)
	if <-one.done; one.err == nil {
		h.t.Errorf("the job is on %s, want a refusal", one.placement.Node)
	}
}

// TestRefusalOfAWaitingRequestCountsOnce: a request that selects again and again while it waits counts as one refusal and one attempt.
func TestRefusalOfAWaitingRequestCountsOnce(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("g", 1, withServices("x"))
		h.fleet.SetPools(goldAndSilver())
		h.acknowledge(h.dispatch(withRequestID("first"), ofTenant(boundTenant)))
		h.waitRefused("second", ofTenant(boundTenant))
		h.waitRefused("third")
		want := map[string]float64{
			"selected_total fallback=none outcome=selected pool=gold": 1, "attempt_total pool=gold reason= result=ok": 1,
			"selected_total fallback=none outcome=refused pool=gold": 1, "selected_total fallback=none outcome=refused pool=none": 1,
			"attempt_total pool=gold reason=full result=failed": 2,
		}
		if diff := cmp.Diff(want, h.poolCounts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
		if refused, selections := h.countRefusals(); refused != 2 || selections != 2 {
			t.Errorf("%v refusals and %v selections without a node are counted, want two", refused, selections)
		}
	})
}

// TestRetryIsNoRefusal: a retry that waits until a node may have the job again is not counted as a refusal. A request that is refused
// because all nodes are busy is, once.
func TestRetryIsNoRefusal(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("g", 9, withServices("x"))
		h.fleet.SetPools(goldAndSilver())
		p := h.acknowledge(h.dispatch(withRequestID("retried"), ofTenant(boundTenant)))
		if err := h.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		h.advance(2*time.Second, "g")
		if j := h.job(p.Job); j.Attempt != 2 || j.Node != "g" {
			t.Errorf("attempt %d is on %s", j.Attempt, j.Node)
		}
		want := map[string]float64{
			"selected_total fallback=none outcome=selected pool=gold": 2, "attempt_total pool=gold reason= result=ok": 2,
		}
		if diff := cmp.Diff(want, h.poolCounts()); diff != "" {
			t.Errorf("counts after a retry (-want +got):\n%s", diff)
		}
		h.transport.failWith("g", dispatch.ErrBusy)
		h.dispatchRefused(withRequestID("refused"), ofTenant(boundTenant))
		want["selected_total fallback=none outcome=selected pool=gold"]++
		want["attempt_total pool=gold reason= result=ok"]++
		want["selected_total fallback=none outcome=refused pool=gold"] = 1
		want["attempt_total pool=gold reason=already_tried result=failed"] = 1
		if diff := cmp.Diff(want, h.poolCounts()); diff != "" {
			t.Errorf("counts after a refusal (-want +got):\n%s", diff)
		}
	})
}

// TestOnlyPoolIsNoFallback: a job that gets a slot in the pool that was tried first, or in its only pool, is not counted as one that moved
// to the next pool, however the node was found.
func TestOnlyPoolIsNoFallback(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("g", 9, withServices("x"))
		h.fleet.SetPools(goldAndSilver())
		h.setAside("g") // it is found only when all nodes are surveyed
		h.dispatch(withRequestID("bound"), ofTenant(boundTenant))
		h.dispatch(withRequestID("not bound"))
		want := map[string]float64{
			"selected_total fallback=none outcome=selected pool=gold": 2, "attempt_total pool=gold reason= result=ok": 2,
		}
		if diff := cmp.Diff(want, h.poolCounts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

// probeCounter is a store that counts the probes of exhaustive selections.
type probeCounter struct {
	store.Store
	probes *int
}

// Probe implements store.Store.
func (p probeCounter) Probe(ctx context.Context, ids []core.NodeID, into []store.Occupancy) error {
	*p.probes++
	return p.Store.Probe(ctx, ids, into)
}

// TestDedicatedPools: pools whose nodes belong to other tenants are not tried. A tenant uses its own nodes and those of all tenants alike.
func TestDedicatedPools(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		probes := 0
		h.store.Store = probeCounter{h.store.Store, &probes}
		d := &core.Pools{Defined: []core.PoolDefinition{{ID: "shared", RequiredServices: []string{"x"}}}}
		const each = 5
		for i := range each {
			h.addNode(fmt.Sprint("shared-", i), 1000, withServices("x"))
		}
		for k := range 50 {
			tenant := core.TenantID(fmt.Sprint("t", k))
			d.Defined = append(d.Defined, core.PoolDefinition{ID: core.PoolID(tenant), RequiredServices: []string{"for-" + string(tenant)}})
			for i := range each {
				h.addNode(fmt.Sprint(tenant, "-", i), 1000, withServices("for-"+string(tenant)),
					func(p *core.Change) { p.Tenant = tenant })
			}
		}
		h.fleet.SetPools(d)
		own := 0
		for i := range 200 {
			if p := h.dispatch(withRequestID(fmt.Sprint("any", i))); !strings.HasPrefix(string(p.Node), "shared-") {
				t.Errorf("a job of no tenant is on %s", p.Node)
			}
			if p := h.dispatch(withRequestID(fmt.Sprint("own", i)), ofTenant("t7")); strings.HasPrefix(string(p.Node), "t7-") {
				own++
			}
		}
		if own < 60 || own > 140 {
			t.Errorf("%d of 200 jobs of a tenant are on its own nodes, want about half", own)
		}
		counts := h.poolCounts()
		want := map[string]float64{
			"selected_total fallback=none outcome=selected pool=shared": float64(400 - own),
			"attempt_total pool=shared reason= result=ok":               float64(400 - own),
			"selected_total fallback=none outcome=selected pool=t7":     float64(own),
			"attempt_total pool=t7 reason= result=ok":                   float64(own),
		}
		if diff := cmp.Diff(want, counts); diff != "" || probes > 0 {
			t.Errorf("%d exhaustive selections; counts (-want +got):\n%s", probes, diff)
		}
	})
}
