package dispatch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/wire"
)

// divideForExplanations adds four nodes and one that is in no pool, and two pools: large, to which the tenant acme is bound, and small.
func (h *harness) divideForExplanations(change func(*core.Pools)) {
	declare := func(tenant core.TenantID, services ...string) func(*core.Change) {
		return func(p *core.Change) {
			p.Tenant = tenant
			for _, id := range services {
				p.Services = append(p.Services, core.Service{ID: id, Version: "2", Status: core.ServiceReady})
			}
		}
	}
	h.addNode("large-1", 1, declare("", "asr-large"))
	h.addNode("small-1", 1, declare("", "asr-small"))
	h.addNode("small-2", 1, declare("beta", "asr-small"))
	h.addNode("small-3", 1, declare("", "asr-small"))
	h.addNode("none-1", 1, declare(""))
	division := &core.Pools{
		Defined: []core.PoolDefinition{{ID: "small", RequiredServices: []string{"asr-small"}},
			{ID: "large", RequiredServices: []string{"asr-large@2"}}, {ID: "empty", RequiredServices: []string{"other"}}},
		Overrides: map[core.TenantID]core.PoolID{"acme": "large", "beta": "small"},
	}
	change(division)
	h.fleet.SetPools(division)
}

// TestExplainShowsPools: for every job each pool is listed with whether and why, and its nodes as if the job might run there.
func TestExplainShowsPools(t *testing.T) {
	t.Parallel()
	type explained = []dispatch.ExplainedPool
	large := dispatch.ExplainedPool{ID: "large", Nodes: 1, Capable: 1, Free: 1}
	small := dispatch.ExplainedPool{ID: "small", Nodes: 3, Capable: 2, Free: 2}
	empty := dispatch.ExplainedPool{ID: "empty", Reason: "no_nodes"}
	none := dispatch.ExplainedPool{Nodes: 1, Capable: 1, Free: 1}
	with := func(p dispatch.ExplainedPool, change func(*dispatch.ExplainedPool)) dispatch.ExplainedPool {
		change(&p)
		return p
	}
	eligible := func(p *dispatch.ExplainedPool) { p.Eligible = true }
	bound := func(p *dispatch.ExplainedPool) { p.Why = dispatch.WhyTenantBound }
	lacking := func(fallback bool) func(*dispatch.ExplainedPool) {
		return func(p *dispatch.ExplainedPool) {
			p.Why, p.Service, p.Fallback = dispatch.WhyServiceNotRequired, "asr-large@2", fallback
			if p.Nodes > 0 {
				p.Capable, p.Free, p.Reason = 0, 0, "service_missing"
			}
		}
	}
	noPool := func(p *dispatch.ExplainedPool) { p.Why, p.Fallback = dispatch.WhyNoPool, true }
	requires := []string{"asr-large@2"}
	for name, c := range map[string]struct {
		change     func(*core.Pools)
		tenant     core.TenantID
		services   []string
		onlyTenant bool
		want       explained
		bound      core.PoolID
		detail     string
	}{
		"any pool": {tenant: "",
			want:   explained{with(small, eligible), with(large, eligible), with(empty, eligible), with(none, noPool)},
			detail: "4 of 4 capable"},
		"a bound tenant": {tenant: "acme",
			want: explained{with(large, eligible), with(small, bound), with(empty, bound), with(none, bound)}, bound: "large",
			detail: "1 of 1 capable"},
		"as the tenant sees": {tenant: "acme", onlyTenant: true, want: explained{with(large, eligible)}, bound: "large",
			detail: "1 of 1 capable"},
		"as another sees": {tenant: "gamma", onlyTenant: true,
			want:   explained{with(small, func(p *dispatch.ExplainedPool) { p.Eligible, p.Nodes = true, 2 }), with(large, eligible)},
			detail: "4 of 4 capable"},
		"a service, core_only": {services: requires,
			want: explained{with(small, func(p *dispatch.ExplainedPool) { lacking(false)(p); p.Why, p.Service, p.Eligible = "", "", true }),
				with(large, eligible), with(empty, eligible),
				with(none, func(p *dispatch.ExplainedPool) { lacking(true)(p); noPool(p); p.Service = "" })}, detail: "1 of 1 capable"},
		"a service, all_required": {change: func(p *core.Pools) { p.Scope = core.ScopeAll }, services: requires, want: explained{
			with(large, eligible), with(small, lacking(true)), with(empty, lacking(true)),
			with(none, func(p *dispatch.ExplainedPool) { lacking(true)(p); noPool(p); p.Service = "" }),
		}, detail: "1 of 1 capable"},
		"strict": {change: func(p *core.Pools) { p.Scope, p.Strict = core.ScopeAll, true }, services: []string{"asr-large@2", "asr-small"},
			want: explained{
				with(small, lacking(false)), with(large, func(p *dispatch.ExplainedPool) {
					p.Why, p.Service, p.Capable, p.Free, p.Reason = dispatch.WhyServiceNotRequired, "asr-small", 0, 0, "service_missing"
				}), with(empty, lacking(false)),
				with(none, func(p *dispatch.ExplainedPool) { lacking(false)(p); p.Why, p.Service = dispatch.WhyNoPool, "" }),
			}, detail: "No node of an eligible pool supports"},
	} {
		runTest(t, func(h *harness) {
			change := c.change
			if change == nil {
				change = func(*core.Pools) {}
			}
			h.divideForExplanations(change)
			job := spec(func(s *core.Spec) { s.Tenant, s.Options.RequiredServices = c.tenant, c.services })
			x, err := h.dispatcher.Explain(h.t.Context(), dispatch.ExplainParams{Spec: job, Limit: 10, OnlyTenant: c.onlyTenant})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, x.Pools); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", name, diff)
			}
			if x.BoundPool != c.bound || !strings.Contains(x.Detail, c.detail) {
				t.Errorf("%s: bound to %q: %s", name, x.BoundPool, x.Detail)
			}
		})
	}
}

// TestExplainAgreesWithDispatch: explain gives the same reasons and code as a dispatch of a bound tenant, and shows the pools of nodes.
func TestExplainAgreesWithDispatch(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.divideForExplanations(func(*core.Pools) {})
		ofAcme := func(s *core.Spec) { s.Tenant = "acme" }
		explain := func() dispatch.Explanation {
			x, err := h.dispatcher.Explain(h.t.Context(), dispatch.ExplainParams{Spec: spec(ofAcme), Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		if p := h.dispatch(withRequestID("first"), ofAcme); p.Node != "large-1" {
			t.Errorf("the job is on %s", p.Node)
		}
		e, x := h.dispatchRefused(withRequestID("second"), ofAcme), explain()
		want := map[core.Reason]int{core.ReasonFull: 1, core.ReasonPool: 3, core.ReasonTenant: 1}
		if diff := cmp.Diff(want, x.Reasons); diff != "" || x.Verdict != e.Code || x.Detail != e.Detail {
			t.Errorf("explain says %s %s, the refusal %s %s (-want +got)\n%s", x.Verdict, x.Detail, e.Code, e.Detail, diff)
		}
		if e.Reasons["OTHER_POOL"] != 3 || !strings.HasPrefix(e.Detail, "No node of the pool large that supports ") {
			t.Errorf("%s %v", e.Detail, e.Reasons)
		}
		pools := make(map[core.NodeID]core.PoolID)
		for _, n := range x.Nodes {
			pools[n.Node.ID] = n.Pool
		}
		if diff := cmp.Diff(map[core.NodeID]core.PoolID{"large-1": "large", "small-1": "small", "small-2": "small", "small-3": "small",
			"none-1": ""}, pools); diff != "" {
			t.Errorf("the pools of the nodes (-want +got)\n%s", diff)
		}
		h.removeNode("large-1")
		h.fleet.Remove("large-1")
		e, x = h.dispatchRefused(withRequestID("third"), ofAcme), explain()
		if x.Verdict != wire.NoCapableNode || x.Verdict != e.Code || x.Pools[0].Reason != "no_nodes" {
			t.Errorf("without a node: %s and %s, %+v", x.Verdict, e.Code, x.Pools[0])
		}
	})
}

// TestExplainedPoolsAreBounded: at most fifty pools are listed, and the eligible one is the first.
func TestExplainedPoolsAreBounded(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		division := &core.Pools{Overrides: map[core.TenantID]core.PoolID{"acme": "p99"}}
		for i := range 100 {
			division.Defined = append(division.Defined, core.PoolDefinition{ID: core.PoolID(fmt.Sprint("p", i))})
		}
		h.fleet.SetPools(division)
		x, err := h.dispatcher.Explain(h.t.Context(),
			dispatch.ExplainParams{Spec: spec(func(s *core.Spec) { s.Tenant = "acme" }), Limit: 10})
		if err != nil || len(x.Pools) != dispatch.MaxExplainedPools || !x.PoolsTruncated || x.Pools[0].ID != "p99" {
			t.Errorf("%d pools, truncated %t: %v", len(x.Pools), x.PoolsTruncated, err)
		}
	})
}

// TestDecisionsHaveThePool: what is remembered of a choice names the pool of the node, also if all nodes were surveyed.
func TestDecisionsHaveThePool(t *testing.T) {
	t.Parallel()
	runRemembering(t, func(h *harness, ring *stats.JobRing) {
		h.divideForExplanations(func(*core.Pools) {})
		for i, want := range []core.PoolID{"large", "small"} {
			p := h.dispatch(withRequestID(fmt.Sprint("r", i)),
				func(s *core.Spec) { s.Options.RequiredServices = []string{"asr-" + string(want)} })
			if d := ring.Decisions(p.Job); len(d) != 1 || d[0].Pool != want || h.job(p.Job).Pool.ID != want {
				t.Errorf("the decisions are %+v, want the pool %s", d, want)
			}
		}
		h.addNode("large-2", 1, func(p *core.Change) {
			p.Services = []core.Service{{ID: "asr-large", Version: "2", Status: core.ServiceReady}}
		})
		h.fleet.Node("large-2").RecordMissedACK(h.fleet.Now()) // chosen only when all nodes are surveyed
		p := h.dispatch(withRequestID("surveyed"), func(s *core.Spec) { s.Tenant = "acme" })
		if d := ring.Decisions(p.Job); p.Node != "large-2" || len(d) != 1 || d[0].Pool != "large" ||
			h.job(p.Job).Pool != (core.JobPool{ID: "large", Bound: true}) {
			t.Errorf("on %s, the decisions are %+v, the pool of the job %+v", p.Node, d, h.job(p.Job).Pool)
		}
	})
}
