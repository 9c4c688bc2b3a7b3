package fleet

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
)

func ofTenant(id core.TenantID) func(*core.Node) { return func(n *core.Node) { n.Tenant = id } }

// tenantStop is what a route has of one pool.
type tenantStop struct {
	Members map[core.NodeID]bool
	Ready   int
}

// stopsFor returns what the route for the jobs of a tenant has, by drawing every member by its number.
func stopsFor(f *Fleet, tenant core.TenantID) (map[core.PoolID]tenantStop, error) {
	route := f.Route(direction("en", "de"), false).For(tenant)
	found := make(map[core.PoolID]tenantStop)
	for _, s := range append(route.Stops, route.Outside) {
		if s.Index == nil || s.Len == 0 {
			continue
		}
		members := make(map[core.NodeID]bool)
		for i := range int(s.Len) {
			m := s.At(s.SlotOf(i))
			if m.Node == nil || members[m.ID()] {
				return nil, fmt.Errorf("pool %q: member %d of %d is missing, or is an earlier one", s.Pool, i, s.Len)
			}
			members[m.ID()] = true
		}
		if s.SlotOf(int(s.Len)) != NoSlot {
			return nil, fmt.Errorf("pool %q has more than %d members", s.Pool, s.Len)
		}
		found[s.Pool] = tenantStop{members, s.Ready}
	}
	if route.IsEmpty() != (len(found) == 0) {
		return nil, fmt.Errorf("the route is empty: %t, and has %v", route.IsEmpty(), found)
	}
	return found, nil
}

// wantStops returns what the route should have, by definition.
func wantStops(nodes map[core.NodeID]*core.Node, definition *core.Pools, tenant core.TenantID) map[core.PoolID]tenantStop {
	want := make(map[core.PoolID]tenantStop)
	for id, n := range nodes {
		if !n.Serves(tenant) {
			continue
		}
		var pool core.PoolID
		if definition.Enabled() {
			pool = definition.Assign(n).Pool
		}
		s, known := want[pool]
		if !known {
			s.Members = make(map[core.NodeID]bool)
		}
		s.Members[id] = true
		if n.Health == core.HealthReady {
			s.Ready++
		}
		want[pool] = s
	}
	return want
}

// TestRouteOfATenant checks after any changes of the fleet and of the definition that the route of each tenant has the nodes that serve it, and
// no others, and counts those that are ready.
func TestRouteOfATenant(t *testing.T) {
	t.Parallel()
	definitions := []*core.Pools{nil, {Buckets: 3}, {Defined: []core.PoolDefinition{{ID: "a", RequiredServices: []string{"x"}}, {ID: "b", RequiredServices: []string{"y"}}}}}
	tenants := []core.TenantID{"", "acme", "beta", "without nodes"}
	type step struct {
		Node     core.NodeID
		Tenant   core.TenantID
		Services []string
		Health   core.Health
		Remove   bool
		Define   int // -1: not
	}
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			Node:     core.NodeID(fmt.Sprint("n", rapid.IntRange(0, 80).Draw(t, "node"))),
			Tenant:   rapid.SampledFrom(tenants[:3]).Draw(t, "tenant"),
			Services: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y"}), 0, 2, rapid.ID).Draw(t, "services"),
			Health:   rapid.SampledFrom([]core.Health{core.HealthReady, core.HealthReady, core.HealthDegraded}).Draw(t, "health"),
			Remove:   rapid.IntRange(0, 5).Draw(t, "remove") == 0,
			Define:   rapid.IntRange(-20, len(definitions)-1).Draw(t, "define"),
		}
	}), 1, 120)
	rapid.Check(t, func(rt *rapid.T) {
		script := steps.Draw(rt, "script")
		var failed error
		synctest.Test(t, func(*testing.T) {
			f, nodes, last := agedFleet(), make(map[core.NodeID]*core.Node), make(map[core.NodeID]*core.Node)
			var definition *core.Pools
			for i, s := range script {
				switch {
				case s.Define >= 0:
					definition = definitions[s.Define]
					f.SetPools(definition)
				case s.Remove:
					f.Remove(s.Node)
					delete(nodes, s.Node)
				default:
					n := declared(s.Node, installed(s.Services...), ofTenant(s.Tenant), health(s.Health))
					if old := last[s.Node]; old != nil {
						n = successor(old, installed(s.Services...), ofTenant(s.Tenant), health(s.Health))
					}
					f.Update(status(n))
					nodes[s.Node], last[s.Node] = n, n
				}
				time.Sleep(time.Duration(routeMaxAge)) // for the next count
				for _, tenant := range tenants {
					got, err := stopsFor(f, tenant)
					if diff := cmp.Diff(wantStops(nodes, definition, tenant), got); failed == nil && (err != nil || diff != "") {
						failed = fmt.Errorf("after step %d, %+v, tenant %q: %w (-want +got):\n%s", i, s, tenant, err, diff)
					}
				}
			}
			if len(script) > 0 && failed == nil {
				failed = checkServing(f, nodes, tenants)
			}
		})
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}

// checkServing checks how many nodes are counted for each tenant.
func checkServing(f *Fleet, nodes map[core.NodeID]*core.Node, tenants []core.TenantID) error {
	for _, tenant := range tenants {
		want, got := 0, 0
		for _, n := range nodes {
			if n.Serves(tenant) {
				want++
			}
		}
		for x := range f.Route(direction("en", "de"), false).Indexes() {
			got += x.Serving(tenant)
		}
		if got != want {
			return fmt.Errorf("%d nodes are counted for the tenant %q, want %d", got, tenant, want)
		}
	}
	return nil
}

// TestTenantsOfLargePools checks a pool with more nodes than a chunk has, and a tenant with more nodes than a column lists.
func TestTenantsOfLargePools(t *testing.T) {
	t.Parallel()
	f := New(presence)
	nodes := make(map[core.NodeID]*core.Node)
	for i := range 3 * chunkSlots {
		n := declared(core.NodeID(fmt.Sprint("n", i)))
		switch i % 3 {
		case 1:
			n.Tenant = "acme"
		case 2:
			n.Tenant = core.TenantID(fmt.Sprint("t", i%100))
		}
		nodes[n.ID] = n
		f.Update(status(n))
	}
	for _, tenant := range []core.TenantID{"", "acme", "t5", "without nodes"} {
		got, err := stopsFor(f, tenant)
		if diff := cmp.Diff(wantStops(nodes, nil, tenant), got); err != nil || diff != "" {
			t.Errorf("tenant %q: %v (-want +got):\n%s", tenant, err, diff)
		}
	}
}

// TestTenantsChangeWhileTheyAreRead checks that readers draw only members while nodes change their tenants and the fleet is divided anew, and that
// every node counts for its tenant afterwards.
func TestTenantsChangeWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	tenants := []core.TenantID{"", "acme", "beta"}
	nodes := make(map[core.NodeID]*core.Node)
	var done atomic.Bool
	var reading sync.WaitGroup
	for range 2 {
		reading.Go(func() {
			for i := 0; !done.Load(); i++ {
				route := f.Route(direction("en", "de"), false).For(tenants[i%len(tenants)])
				for _, s := range append(slices.Clone(route.Stops), route.Outside) {
					for k := range int(s.Len) {
						if m := s.At(s.SlotOf(k)); m.Node != nil && !s.Index.serves(m.Declared()) {
							t.Errorf("%s is drawn", m.ID())
						}
					}
				}
			}
		})
	}
	definitions := []*core.Pools{nil, {Buckets: 3}, {Buckets: 7}}
	for i := range 20_000 {
		id := core.NodeID(fmt.Sprint("n", i%200))
		tenant := ofTenant(tenants[i/7%len(tenants)])
		if old := nodes[id]; old == nil {
			nodes[id] = declared(id, tenant)
		} else {
			nodes[id] = successor(old, tenant)
		}
		f.Update(status(nodes[id]))
		if i%2000 == 0 {
			f.SetPools(definitions[i/2000%len(definitions)])
		}
	}
	done.Store(true)
	reading.Wait()
	if err := checkServing(f, nodes, tenants); err != nil {
		t.Error(err)
	}
}

// TestTenantsAreForgotten checks that nothing is left of tenants whose nodes are gone.
func TestTenantsAreForgotten(t *testing.T) {
	t.Parallel()
	f := New(presence)
	for round := range 2 {
		for i := range 50 {
			f.Update(status(declared(core.NodeID(fmt.Sprint("n", i)), ofTenant(core.TenantID(fmt.Sprint("t", i%20))))))
		}
		tenants := &f.division.Load().tenants
		if got := tenants.count.Load(); got != 20 {
			t.Errorf("round %d: %d tenants have nodes, want 20", round, got)
		}
		for i := range 50 {
			f.Remove(core.NodeID(fmt.Sprint("n", i)))
		}
		left := 0
		for range tenants.pools.values() {
			left++
		}
		if got := tenants.count.Load(); got != 0 || left != 0 {
			t.Errorf("round %d: %d and %d tenants are left", round, got, left)
		}
	}
}

// TestStopFillsACacheLine checks the size of what a selection reads of each pool.
func TestStopFillsACacheLine(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(Stop{}); size != 64 {
		t.Errorf("a stop has %d bytes, want 64", size)
	}
}
