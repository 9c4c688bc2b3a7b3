package pick_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// dedicatedFleet makes a fleet with the pools mixed, in which one node of fifty serves all tenants, one belongs to acme and the others to other
// tenants, shared, whose nodes serve all tenants, and fifty pools with nodes of other tenants.
func dedicatedFleet(definition *core.Pools) *fleet.Fleet {
	f := fleet.New(time.Hour)
	add := func(pool string, i int, tenant string) {
		n := declared(core.NodeID(fmt.Sprintf("%s-%d", pool, i)))
		n.Tenant, n.Pool = core.TenantID(tenant), core.PoolID(pool)
		f.Update(status(n))
	}
	for _, pool := range []string{"mixed", "shared"} {
		definition.Defined = append(definition.Defined, core.PoolDefinition{ID: core.PoolID(pool)})
	}
	for i := range 1000 {
		tenant := fmt.Sprint("t", i%7)
		switch i % 50 {
		case 0:
			tenant = ""
		case 1:
			tenant = "acme"
		}
		add("mixed", i, tenant)
	}
	for i := range 60 {
		add("shared", i, "")
	}
	for p := range 50 {
		pool := fmt.Sprint("t", p)
		definition.Defined = append(definition.Defined, core.PoolDefinition{ID: core.PoolID(pool)})
		for i := range 40 {
			add(pool, i, pool)
		}
	}
	f.SetPools(definition)
	return f
}

// TestNodesOfATenantAreChosenUniformly checks that each node that serves the tenant of a job is chosen as often as any other, however many nodes
// of other tenants are in its pool, and that no pool without such nodes is tried.
func TestNodesOfATenantAreChosenUniformly(t *testing.T) {
	t.Parallel()
	f := dedicatedFleet(new(core.Pools))
	picker := pick.New(f, defaultPolicy(), seeded(1))
	for tenant, nodes := range map[core.TenantID]int{"": 80, "without nodes": 80, "acme": 100} {
		route := f.Route(direction, false).For(tenant)
		const choices = 40_000
		counts := make(map[core.NodeID]int)
		for range choices {
			r := picker.Select(queryOf(f, route, &core.Spec{Tenant: tenant}), route, pick.Eligible, "")
			if _, ok := r.NextPool(); !ok {
				t.Fatal("there is no pool")
			}
			m := r.Next()
			if m.Node == nil || !m.Declared().Serves(tenant) {
				t.Fatalf("tenant %q: the first choice is %v", tenant, m)
			}
			counts[m.ID()]++
			r.End()
		}
		if len(counts) != nodes || fleet.Total(route.Ends) != nodes || len(route.Stops) != 2 {
			t.Errorf("tenant %q: %d nodes of %d pools were chosen and %d counted as ready, want %d of 2", tenant, len(counts), len(route.Stops), fleet.Total(route.Ends), nodes)
		}
		mean := float64(choices) / float64(nodes)
		for id, n := range counts {
			if deviation := math.Abs(float64(n)-mean) / math.Sqrt(mean); deviation > 5 {
				t.Errorf("tenant %q: %s was chosen %d times, %.1f standard deviations from the mean of %.0f", tenant, id, n, deviation, mean)
			}
		}
	}
}

// TestSurveyOfGroups checks that the survey of each group has the nodes of its pools, and that nodes of pools in which the job must not run
// are counted: those of other tenants apart.
func TestSurveyOfGroups(t *testing.T) {
	t.Parallel()
	type groups struct {
		Candidates [2]int
		Rejections [2]map[core.Reason]int
	}
	bound := map[core.TenantID]core.PoolID{"acme": "shared"}
	none := map[core.Reason]int{}
	for name, c := range map[string]struct {
		definition core.Pools
		tenant     core.TenantID
		want       groups
	}{
		"not bound":      {core.Pools{}, "acme", groups{[2]int{100, 0}, [2]map[core.Reason]int{{core.ReasonTenant: 2960}, none}}},
		"bound":          {core.Pools{Overrides: bound}, "acme", groups{[2]int{60, 0}, [2]map[core.Reason]int{none, {core.ReasonPool: 40, core.ReasonTenant: 2960}}}},
		"of no tenant":   {core.Pools{Overrides: map[core.TenantID]core.PoolID{"": "shared"}}, "", groups{[2]int{60, 0}, [2]map[core.Reason]int{none, {core.ReasonPool: 20, core.ReasonTenant: 2980}}}},
		"other eligible": {core.Pools{Scope: core.ScopeAll}, "acme", groups{[2]int{0, 100}, [2]map[core.Reason]int{none, {core.ReasonTenant: 2960}}}},
	} {
		f := dedicatedFleet(&c.definition)
		spec := &core.Spec{Tenant: c.tenant}
		if c.definition.Scope == core.ScopeAll {
			spec.Options.RequiredServices = []string{"s"}
			for n := range f.All() {
				next := *n.Declared()
				next.Services = []core.Service{{ID: "s", Status: core.ServiceReady}}
				next.Supersede(n.Declared())
				f.Update(status(&next))
			}
		}
		picker, route := pick.New(f, defaultPolicy(), seeded(1)), f.Route(direction, false)
		var got groups
		for _, group := range []pick.Group{pick.Eligible, pick.Others} {
			survey := picker.Survey(queryOf(f, route, spec), route, group)
			got.Candidates[group], got.Rejections[group] = len(survey.Candidates), survey.Rejections
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// TestRefusalOfABoundJobIsCheap: the survey before the refusal of a job that is bound to a small pool costs about the same however many nodes
// are in other pools. Not parallel: it compares times.
func TestRefusalOfABoundJobIsCheap(t *testing.T) {
	cost := func(nodes int) time.Duration {
		f := fleet.New(time.Hour)
		definition := &core.Pools{Overrides: map[core.TenantID]core.PoolID{"acme": "tiny"}, Defined: []core.PoolDefinition{{ID: "tiny"}}}
		for p := range 10 {
			definition.Defined = append(definition.Defined, core.PoolDefinition{ID: core.PoolID(fmt.Sprint("p", p))})
		}
		for i := range nodes {
			n := declared(nodeID(i))
			if n.Pool = "tiny"; i >= 10 {
				n.Pool = core.PoolID(fmt.Sprint("p", i%10))
			}
			f.Update(status(n))
		}
		f.SetPools(definition)
		picker, route := pick.New(f, defaultPolicy(), seeded(1)), f.Route(direction, false)
		q := queryOf(f, route, &core.Spec{Tenant: "acme"})
		least := time.Duration(math.MaxInt64)
		for range 50 {
			began := time.Now()
			eligible, others := picker.Survey(q, route, pick.Eligible), picker.Survey(q, route, pick.Others)
			least = min(least, time.Since(began))
			if len(eligible.Candidates) != 10 || others.Rejections[core.ReasonPool] != nodes-10 {
				t.Fatalf("%d candidates and %v", len(eligible.Candidates), others.Rejections)
			}
		}
		return least
	}
	if few, many := cost(300), cost(30_000); many > 10*few {
		t.Errorf("a survey takes %v with 300 nodes and %v with 30,000", few, many)
	}
}
