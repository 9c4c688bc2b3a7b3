package pick_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// TestFilterMembers checks that the reasons of the nodes of a route are those of the nodes one by one, in whatever pools they are.
func TestFilterMembers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := fleet.New(time.Hour)
		for i := range rapid.IntRange(0, 12).Draw(t, "nodes") {
			n := declared(core.NodeID(fmt.Sprint("n", i)))
			n.Tenant = rapid.SampledFrom([]core.TenantID{"", "", "acme", "globex"}).Draw(t, "tenant")
			if service := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "service"); service != "" {
				n.Capability.Services = []core.Service{{ID: service, Status: core.ServiceReady}}
			}
			if rapid.IntRange(0, 3).Draw(t, "degraded") == 0 {
				n.Health = core.HealthDegraded
			}
			f.Update(status(n))
		}
		if rapid.Bool().Draw(t, "divided") {
			f.SetPools(&core.Pools{
				Defined: []core.PoolDefinition{{ID: "x", RequiredServices: []string{"x"}}, {ID: "y", RequiredServices: []string{"y"}}},
				Scope:   rapid.SampledFrom([]core.PoolScope{core.ScopeCore, core.ScopeAll}).Draw(t, "scope"), Strict: rapid.Bool().Draw(t, "strict"),
				Overrides: map[core.TenantID]core.PoolID{"globex": "y"},
			})
		}
		spec := &core.Spec{Tenant: rapid.SampledFrom([]core.TenantID{"acme", "globex"}).Draw(t, "tenant of the job")}
		spec.Options.RequiredServices = rapid.SampledFrom([][]string{nil, {"x"}}).Draw(t, "requires")
		picker, route := pick.New(f, defaultPolicy(), nil), f.Route(direction, false)
		q := queryOf(f, route, spec)
		q.Tenant = spec.Tenant
		want, got := make(map[core.NodeID]core.Reason), make(map[core.NodeID]core.Reason)
		for n := range f.All() {
			want[n.ID()] = picker.Filter(&q, n)
		}
		for m, reason := range picker.FilterMembers(&q, route) {
			got[m.ID()] = reason
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("reasons (-want +got):\n%s", diff)
		}
		visited := 0
		for range picker.FilterMembers(&q, route) {
			visited++
			break
		}
		if visited != min(1, len(want)) {
			t.Fatalf("%d nodes were visited before the end", visited)
		}
	})
}
