package pick_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// dividedFleet makes a fleet with one pool for each number of nodes. Of the nodes of each pool every third is not ready.
func dividedFleet(sizes ...int) *fleet.Fleet {
	f := fleet.New(time.Hour)
	var pools core.Pools
	for p, size := range sizes {
		service := fmt.Sprint("service-", p)
		pools.Defined = append(pools.Defined, core.PoolDefinition{ID: core.PoolID(fmt.Sprint("pool-", p)), RequiredServices: []string{service}})
		for i := range size {
			n := declared(core.NodeID(fmt.Sprintf("n-%d-%d", p, i)))
			n.Services = []core.Service{{ID: service, Status: core.ServiceReady}}
			if i%3 == 2 {
				n.Health = core.HealthDegraded
			}
			f.Update(status(n))
		}
	}
	f.SetPools(&pools)
	return f
}

// query is the query of a job without requirements in a divided fleet.
func queryOf(f *fleet.Fleet, route *fleet.Route, spec *core.Spec) pick.Query {
	return pick.Query{Requirement: route.Requirement, Options: &spec.Options, Tenant: spec.Tenant, Pools: core.NewPoolRule(route.Division, spec), Now: f.Now()}
}

// TestPoolsAreChosenUniformlyOverNodes checks that each ready node is chosen as often as any other, however large its pool is.
func TestPoolsAreChosenUniformlyOverNodes(t *testing.T) {
	t.Parallel()
	f := dividedFleet(1, 3, 30, 300)
	picker := pick.New(f, defaultPolicy(), seeded(1))
	route := f.Route(direction, false)
	const choices = 100_000
	counts := make(map[core.NodeID]int)
	for range choices {
		r := picker.Select(queryOf(f, route, new(core.Spec)), route, pick.Eligible, "")
		if _, ok := r.NextPool(); !ok {
			t.Fatal("there is no eligible pool")
		}
		counts[r.Next().ID()]++
		r.End()
	}
	ready := 1 + 2 + 20 + 200
	if len(counts) != ready || fleet.Total(route.Ends) != ready {
		t.Errorf("%d nodes were chosen and %d counted as ready, want %d", len(counts), fleet.Total(route.Ends), ready)
	}
	mean := float64(choices) / float64(ready)
	for id, n := range counts {
		if deviation := math.Abs(float64(n)-mean) / math.Sqrt(mean); deviation > 5 {
			t.Errorf("%s was chosen %d times, %.1f standard deviations from the mean of %.0f", id, n, deviation, mean)
		}
	}
}

// TestOrderOfPools checks for random pools that a job visits each pool of a group in which it may run once: the first one before all, and those
// without ready nodes last.
func TestOrderOfPools(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := fleet.New(time.Hour)
		division := &core.Pools{Scope: core.ScopeAll, Strict: rapid.Bool().Draw(t, "strict"), Overrides: map[core.TenantID]core.PoolID{"bound": "3"}}
		route := &fleet.Route{Division: division}
		for i, ready := range rapid.SliceOfN(rapid.IntRange(0, 3), 0, 12).Draw(t, "ready") {
			id := core.PoolID(fmt.Sprint(i))
			d := core.PoolDefinition{ID: id}
			if rapid.Bool().Draw(t, "has the service") {
				d.RequiredServices = []string{"asr-x"}
			}
			division.Defined = append(division.Defined, d)
			route.Add(fleet.Stop{View: f.Route(direction, false).Stops[0].View, Pool: id, Ready: ready})
		}
		division.Defined = append(division.Defined, core.PoolDefinition{ID: "without nodes"})
		if rapid.Bool().Draw(t, "nodes without a pool") {
			route.Outside = fleet.Stop{View: f.Route(direction, false).Stops[0].View, Ready: 1}
		}
		spec := &core.Spec{Tenant: rapid.SampledFrom([]core.TenantID{"", "bound"}).Draw(t, "tenant")}
		if rapid.Bool().Draw(t, "requires the service") {
			spec.Options.RequiredServices = []string{"asr-x"}
		}
		first := core.PoolID(rapid.SampledFrom([]string{"", "0", "5", "without nodes"}).Draw(t, "first"))
		picker := pick.New(f, defaultPolicy(), seeded(rapid.Uint64().Draw(t, "seed")))
		for range 3 { // a selection is used again
			checkOrder(t, picker, f, route, spec, pick.Eligible, first)
			checkOrder(t, picker, f, route, spec, pick.Others, first)
		}
	})
}

func checkOrder(t *rapid.T, picker *pick.Picker, f *fleet.Fleet, route *fleet.Route, spec *core.Spec, group pick.Group, first core.PoolID) {
	q := queryOf(f, route, spec)
	rule := &q.Pools
	isWanted := func(id core.PoolID) bool { return rule.Allows(id) && rule.Eligible(id) == (group == pick.Eligible) }
	want := make(map[core.PoolID]bool)
	firstHasReady := false
	for _, s := range route.Stops {
		if isWanted(s.Pool) {
			want[s.Pool] = true
			firstHasReady = firstHasReady || s.Pool == first && s.Ready > 0
		}
	}
	if route.Outside.Index != nil && isWanted("") {
		want[""] = true
	}
	r := picker.Select(q, route, group, first)
	defer r.End()
	visited := make(map[core.PoolID]bool)
	empty := false
	for pool, ok := r.NextPool(); ok; pool, ok = r.NextPool() {
		ready := readyIn(route, pool)
		switch {
		case !want[pool] || visited[pool]:
			t.Fatalf("pool %q is visited, want each of %v once", pool, want)
		case empty && ready > 0:
			t.Fatalf("pool %q has ready nodes and comes after one without", pool)
		case firstHasReady && len(visited) == 0 && pool != first:
			t.Fatalf("pool %q comes before %q", pool, first)
		}
		visited[pool], empty = true, ready == 0
	}
	if len(visited) != len(want) {
		t.Fatalf("%v were visited, want %v", visited, want)
	}
}

// readyIn returns the number of ready nodes of a pool, or of those without a pool.
func readyIn(route *fleet.Route, pool core.PoolID) int {
	for _, s := range route.Stops {
		if s.Pool == pool {
			return s.Ready
		}
	}
	return route.Outside.Ready
}
