package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// goldAndSilver has a pool gold, whose nodes have the service x, and silver with the service y. The tenant acme is bound to gold.
func goldAndSilver(change ...func(*core.Pools)) *core.Pools {
	p := &core.Pools{
		Defined:   []core.PoolDefinition{{ID: "gold", RequiredServices: []string{"x"}}, {ID: "silver", RequiredServices: []string{"y"}}},
		Overrides: map[core.TenantID]core.PoolID{boundTenant: "gold"},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func isStrict(p *core.Pools) { p.Strict = true }

// withServices declares services that are ready.
func withServices(ids ...string) func(*core.Change) {
	return func(p *core.Change) {
		p.Services = []core.Service{}
		for _, id := range ids {
			p.Services = append(p.Services, core.Service{ID: id, Status: core.ServiceReady})
		}
	}
}

func ofTenant(id core.TenantID) func(*core.Spec) { return func(s *core.Spec) { s.Tenant = id } }

func requiring(services ...string) func(*core.Spec) {
	return func(s *core.Spec) { s.Options.RequiredServices = services }
}

// poolCounts returns the selections and the attempts that were counted, without those of zero.
func (h *harness) poolCounts() map[string]float64 {
	h.t.Helper()
	counts := make(map[string]float64)
	families, err := h.metrics.Registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "phase3_pool_selected_total" && f.GetName() != "phase3_pool_attempt_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			key := f.GetName()[len("phase3_pool_"):]
			for _, l := range m.GetLabel() {
				key += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			if v := m.GetCounter().GetValue(); v > 0 {
				counts[key] = v
			}
		}
	}
	return counts
}

// TestTenantRunsInItsPool: a tenant that is bound to a pool gets no other nodes, also if its pool is full and others are free.
func TestTenantRunsInItsPool(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("g", 2, withServices("x"))
		h.addNode("s", 100, withServices("y"))
		h.addNode("none", 100)
		h.fleet.SetPools(goldAndSilver())
		for i := range 2 {
			if p := h.dispatch(withRequestID(fmt.Sprint("r", i)), ofTenant(boundTenant)); p.Node != "g" {
				t.Errorf("a job of the bound tenant is on %s", p.Node)
			} else if pool := h.job(p.Job).Pool; pool != (core.JobPool{ID: "gold", Bound: true}) {
				t.Errorf("the record has the pool %+v", pool)
			}
		}
		e := h.dispatchRefused(withRequestID("more"), ofTenant(boundTenant))
		if want := map[string]int{"FULL": 1, "OTHER_POOL": 2}; e.Code != wire.AllCandidatesFullOrFailed || !cmp.Equal(e.Reasons, want) {
			t.Errorf("%s %v, want a full pool and reasons %v", e.Code, e.Reasons, want)
		}
		want := map[string]float64{
			"selected_total fallback=none outcome=selected pool=gold": 2, "selected_total fallback=none outcome=refused pool=gold": 1,
			"attempt_total pool=gold reason= result=ok": 2, "attempt_total pool=gold reason=full result=failed": 1,
		}
		if diff := cmp.Diff(want, h.poolCounts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

// TestPoolWithoutCapableNode: a bound tenant whose pool has no node for the direction is refused, and the metric says which service is
// missing.
func TestPoolWithoutCapableNode(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("g", 2, withServices("x"), func(p *core.Change) { p.Semantic = core.LangSet{"en"} })
		h.addNode("s", 2, withServices("y"))
		h.fleet.SetPools(goldAndSilver())
		e := h.dispatchRefused(ofTenant(boundTenant))
		if want := map[string]int{"OTHER_POOL": 1}; e.Code != wire.NoCapableNode || !cmp.Equal(e.Reasons, want) {
			t.Errorf("%s %v, want %s with %v", e.Code, e.Reasons, wire.NoCapableNode, want)
		}
		want := map[string]float64{
			"selected_total fallback=none outcome=refused pool=gold":                  1,
			"attempt_total pool=gold reason=missing_core_nmt_installed result=failed": 1,
		}
		if diff := cmp.Diff(want, h.poolCounts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

// TestFallback: a job that finds no slot in its first pool gets one in another, and at last on a node without a pool; if pools are strict,
// it is refused instead.
func TestFallback(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprint("strict=", strict), func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("g", 1, withServices("x"))
				h.addNode("s", 1, withServices("y"))
				h.addNode("none", 1)
				h.fleet.SetPools(goldAndSilver(func(p *core.Pools) { p.Strict = strict }))
				first, second := h.dispatch(withRequestID("1")), h.dispatch(withRequestID("2"))
				if first.Node == "none" || second.Node == "none" || first.Node == second.Node {
					t.Errorf("the first jobs are on %s and %s, want one in each pool", first.Node, second.Node)
				}
				if strict {
					e := h.dispatchRefused(withRequestID("3"))
					if want := map[string]int{"FULL": 2, "OTHER_POOL": 1}; e.Code != wire.AllCandidatesFullOrFailed ||
						!cmp.Equal(e.Reasons, want) {
						t.Errorf("%s %v, want it to be refused with %v", e.Code, e.Reasons, want)
					}
					return
				}
				if p := h.dispatch(withRequestID("3")); p.Node != "none" {
					t.Errorf("the third job is on %s, want the node without a pool", p.Node)
				} else if pool := h.job(p.Job).Pool; pool != (core.JobPool{}) {
					t.Errorf("its record has the pool %+v", pool)
				}
				if got := h.poolCounts()["selected_total fallback=outside outcome=selected pool=none"]; got != 1 {
					t.Errorf("%v jobs are counted as outside: %v", got, h.poolCounts())
				}
			})
		})
	}
}

// TestEligiblePools: with the scope all_required, only pools that require the services of a job are eligible. If there is none, strict
// pools refuse the job although a node could do it.
func TestEligiblePools(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("both", 9, withServices("x", "y", "z"))
		h.addNode("s", 9, withServices("y", "z"))
		all := func(p *core.Pools) { p.Scope, p.Overrides = core.ScopeAll, nil }
		pinned := goldAndSilver(all, isStrict)
		pinned.Defined[1].RequiredServices = []string{"y", "z"}
		for pinned.Assign(h.fleet.Node("both").Declared()).Pool != "gold" {
			pinned.Seed++
		}
		h.fleet.SetPools(pinned)
		for i := range 20 {
			if p := h.dispatch(withRequestID(fmt.Sprint("z", i)), requiring("z"), func(s *core.Spec) { s.Session = "" }); p.Node != "s" {
				t.Fatalf("a job that requires z is on %s, whose pool does not require it", p.Node)
			} else if err := h.done(p); err != nil {
				t.Fatal(err)
			}
		}
		e := h.dispatchRefused(withRequestID("both"), requiring("x", "z"))
		if want := map[string]int{"OTHER_POOL": 2}; e.Code != wire.NoCapableNode || !cmp.Equal(e.Reasons, want) {
			t.Errorf("%s %v, want %s with %v", e.Code, e.Reasons, wire.NoCapableNode, want)
		}
		h.fleet.SetPools(goldAndSilver(all))
		if p := h.dispatch(withRequestID("both"), requiring("x", "z")); p.Node != "both" {
			t.Errorf("the job is on %s", p.Node)
		}
	})
}

// TestPreferredNodeOutsideItsPool: a preferred node in another pool cannot do the job.
func TestPreferredNodeOutsideItsPool(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("g", 9, withServices("x"))
		h.addNode("s", 9, withServices("y"))
		h.fleet.SetPools(goldAndSilver())
		prefer := preferNode
		e := h.dispatchRefused(prefer("s"), ofTenant(boundTenant))
		if want := map[string]int{"OTHER_POOL": 1}; e.Code != wire.PreferredNodeNotCapable || !cmp.Equal(e.Reasons, want) {
			t.Errorf("%s %v, want %s with %v", e.Code, e.Reasons, wire.PreferredNodeNotCapable, want)
		}
		if p := h.dispatch(withRequestID("g"), prefer("g"), ofTenant(boundTenant)); p.Node != "g" {
			t.Errorf("the job is on %s", p.Node)
		}
		if p := h.dispatch(withRequestID("s"), prefer("s")); p.Node != "s" || h.job(p.Job).Pool != (core.JobPool{ID: "silver"}) {
			t.Errorf("a job of no tenant is on %s, in %+v", p.Node, h.job(p.Job).Pool)
		}
	})
}

// TestBoundJobKeepsItsPool: a job that was bound when it was created is retried in its pool only, also if its tenant is bound to another
// pool meanwhile, or there are no pools any more.
func TestBoundJobKeepsItsPool(t *testing.T) {
	t.Parallel()
	for name, division := range map[string]*core.Pools{
		"bound to another": goldAndSilver(func(p *core.Pools) { p.Overrides[boundTenant] = "silver" }),
		"not bound":        goldAndSilver(func(p *core.Pools) { p.Overrides = nil }),
		"no pools":         {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("g1", 1, withServices("x"))
				h.addNode("g2", 1, withServices("x"))
				h.addNode("s", 9, withServices("y"))
				h.fleet.SetPools(goldAndSilver())
				first := h.dispatch(ofTenant(boundTenant))
				if err := h.ack(first); err != nil {
					t.Fatal(err)
				}
				h.fleet.SetPools(division)
				if err := h.fail(first, core.ReasonNodeFailed); err != nil {
					t.Fatal(err)
				}
				h.advance(2*time.Second, "g1", "g2", "s")
				second := h.job(first.Job)
				if division.Enabled() {
					if second.Node == "s" || second.Attempt != 2 {
						t.Errorf("attempt %d of the job is on %s", second.Attempt, second.Node)
					}
					return
				}
				h.advance(timing.Job, "g1", "g2", "s")
				h.wantState(first.Job, core.StateFailed, core.ReasonDeadline)
			})
		})
	}
}

// TestNodeLeavesItsPoolUnseen: a node that has left its pool, of which this instance does not know yet, gets no job that is bound to the
// pool.
func TestNodeLeavesItsPoolUnseen(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("g", 9, withServices("x"))
		h.fleet.SetPools(goldAndSilver())
		h.dispatch(withRequestID("before"), ofTenant(boundTenant))
		h.stopFollower()
		status, err := store.ReadNode(t.Context(), h.mem, "g")
		if err != nil {
			t.Fatal(err)
		}
		next := *status.Node
		next.Services = []core.Service{{ID: "y", Status: core.ServiceReady}}
		next.Supersede(status.Node)
		if _, err := h.mem.Heartbeat(t.Context(),
			store.HeartbeatParams{Node: "g", Epoch: status.Node.Epoch, Known: status.Node, Declared: &next}); err != nil {
			t.Fatal(err)
		}
		e := h.dispatchRefused(withRequestID("after"), ofTenant(boundTenant))
		if n := h.inFlight("g"); n != 1 || !e.Code.Retryable() {
			t.Errorf("%s, and %d slots of the node are taken, want one", e.Code, n)
		}
	})
}

// TestSessionAffinity: the next job of a session is tried in the pool of the one before first, within the window and if there is room.
func TestSessionAffinity(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		for i := range 4 {
			h.addNode(fmt.Sprint("g", i), 100, withServices("x"))
			h.addNode(fmt.Sprint("s", i), 100, withServices("y"))
		}
		h.fleet.SetPools(goldAndSilver(func(p *core.Pools) { p.AffinitySeconds = 60 }))
		pools, nodesOf := make(map[core.PoolID]int), make(map[core.NodeID]bool)
		next := func(i int, age time.Duration) {
			h.t.Helper()
			p, err := h.dispatcher.Dispatch(t.Context(), dispatch.Request{
				Spec:     spec(withRequestID(fmt.Sprint("r", age, i)), func(s *core.Spec) { s.Session = "" }),
				Previous: dispatch.PreviousJob{Node: "s0", Pool: "silver", At: time.Now().Add(-age)},
			})
			if err != nil {
				t.Fatal(err)
			}
			pools[p.Pool]++
			nodesOf[p.Node] = true
		}
		for i := range 40 {
			next(i, 59*time.Second)
		}
		if !cmp.Equal(pools, map[core.PoolID]int{"silver": 40}) || len(nodesOf) < 3 {
			t.Errorf("%v on %d nodes, want 40 in silver on several nodes", pools, len(nodesOf))
		}
		for i := range 40 {
			next(i, time.Minute)
		}
		if pools["gold"] < 5 {
			t.Errorf("%v, want some in gold after the window", pools)
		}
	})
}

// TestPreferredRegion: a job goes to a node of its preferred region while one of them has room, however few they are, and then to any
// other. An explanation shows which nodes come last for that reason.
func TestPreferredRegion(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		in := func(region string) func(*core.Change) { return func(p *core.Change) { p.Region = region } }
		h.addNode("near", 2, in("eu"))
		for i := range 60 {
			h.addNode(fmt.Sprint("far", i), 2, in("us"))
		}
		near := func(s *core.Spec) { s.Options.PreferredRegion = "eu" }
		for i := range 2 {
			if p := h.dispatch(withRequestID(fmt.Sprint("r", i)), near); p.Node != "near" {
				t.Errorf("job %d is on %s", i, p.Node)
			}
		}
		e, err := h.dispatcher.Explain(h.t.Context(), dispatch.ExplainParams{Spec: spec(near), Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[core.Reason]int{core.ReasonFull: 1, core.ReasonPreferredRegion: 60}; e.Verdict != "" || !cmp.Equal(e.Reasons, want) {
			t.Errorf("%q %v, want it to be accepted with %v", e.Verdict, e.Reasons, want)
		}
		if p := h.dispatch(withRequestID("r2"), near); p.Node == "near" {
			t.Error("a third job is on the node with two slots")
		}
		both := func(s *core.Spec) { s.Options.Region, s.Options.PreferredRegion = "us", "eu" }
		if p := h.dispatch(withRequestID("r3"), both); p.Node == "near" {
			t.Error("a job is outside of the region that it requires")
		}
	})
}

// TestPoolsChangeDuringASelection: a selection whose indexes were closed meanwhile begins again, and does not refuse the job because it
// finds nobody in them.
func TestPoolsChangeDuringASelection(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("a", 1)
		taken := store.ReserveParams{Lease: core.LeaseRef{Node: "a", Job: "other", Attempt: 1, Token: "t"}}
		status, err := store.ReadNode(t.Context(), h.mem, "a")
		if err != nil {
			t.Fatal(err)
		}
		taken.Handle, taken.Epoch, taken.Revision = status.Handle, status.Node.Epoch, status.Node.Revision
		if r, err := h.mem.Reserve(t.Context(), taken); err != nil || r.Verdict != store.OK {
			t.Fatal(r.Verdict, err)
		}
		changed := false
		h.store.onReserve = func(_ store.ReserveParams, v store.Verdict) {
			if v != store.Full || changed {
				return
			}
			changed = true
			h.fleet.SetPools(&core.Pools{Buckets: 2})
			if err := h.mem.Release(context.Background(), store.ReleaseParams{Lease: taken.Lease, Handle: taken.Handle}); err != nil {
				t.Error(err)
			}
		}
		if p := h.dispatch(); p.Node != "a" || !changed {
			t.Errorf("the job is on %s; the pools were changed: %t", p.Node, changed)
		}
	})
}
