package fleet

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// installed makes a node have services installed.
func installed(services ...string) func(*core.Node) {
	return func(n *core.Node) {
		n.Services = nil
		for _, id := range services {
			n.Services = append(n.Services, core.Service{ID: id, Version: "1", Status: core.ServiceReady})
		}
		n.Normalise()
	}
}

// membersByPool returns the members of a direction in every pool that has some.
func membersByPool(f *Fleet, d core.Direction) map[core.PoolID]map[core.NodeID]core.Revision {
	found := make(map[core.PoolID]map[core.NodeID]core.Revision)
	route := f.Route(d, false)
	for _, s := range append(slices.Clone(route.Stops), route.Outside) {
		if s.Index == nil {
			continue
		}
		if members := revisions(s.Index); len(members) > 0 {
			found[s.Pool] = members
		}
	}
	return found
}

// TestPoolsHaveExactlyTheirNodes checks after any changes of the fleet and of the definition that each node is in the pool to which the
// definition assigns it, and in no other.
func TestPoolsHaveExactlyTheirNodes(t *testing.T) {
	t.Parallel()
	definitions := []*core.Pools{
		nil, {}, {Buckets: 3}, {Buckets: 4, Seed: 1},
		{Defined: []core.PoolDefinition{{ID: "a", RequiredServices: []string{"x"}}, {ID: "b", RequiredServices: []string{"y"}}}},
		{Defined: []core.PoolDefinition{{ID: "b", RequiredServices: []string{"y"}}, {ID: "c"}}},
	}
	type step struct {
		Node     core.NodeID
		Services []string
		Remove   bool
		Define   int // -1: not
	}
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			Node:     rapid.SampledFrom(someNodes).Draw(t, "node"),
			Services: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID).Draw(t, "services"),
			Remove:   rapid.IntRange(0, 5).Draw(t, "remove") == 0,
			Define:   rapid.IntRange(-8, len(definitions)-1).Draw(t, "define"),
		}
	}), 1, 40)
	rapid.Check(t, func(rt *rapid.T) {
		script := steps.Draw(rt, "script")
		var failed error
		synctest.Test(t, func(*testing.T) {
			f, nodes, last := agedFleet(), make(map[core.NodeID]*core.Node), make(map[core.NodeID]*core.Node)
			var definition *core.Pools
			f.Index(direction("en", "de"), false)
			for i, s := range script {
				switch {
				case s.Define >= 0:
					definition = definitions[s.Define]
					f.SetPools(definition)
				case s.Remove:
					f.Remove(s.Node)
					delete(nodes, s.Node)
				default:
					n := declared(s.Node, installed(s.Services...))
					if old := last[s.Node]; old != nil {
						n = successor(old, installed(s.Services...))
					}
					f.Update(status(n))
					nodes[s.Node], last[s.Node] = n, n
				}
				time.Sleep(time.Duration(routeMaxAge)) // for the next count
				want := make(map[core.PoolID]map[core.NodeID]core.Revision)
				for id, n := range nodes {
					var pool core.PoolID
					if definition.Enabled() {
						pool = definition.Assign(n).Pool
					}
					if want[pool] == nil {
						want[pool] = make(map[core.NodeID]core.Revision)
					}
					want[pool][id] = n.Revision
				}
				if diff := cmp.Diff(want, membersByPool(f, direction("en", "de"))); diff != "" {
					failed = fmt.Errorf("after step %d, %+v (-want +got):\n%s", i, s, diff)
					return
				}
			}
		})
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}

// TestDivisionDuringChanges checks that nodes that change while the fleet is divided are where they belong.
func TestDivisionDuringChanges(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	const nodes = 300
	done := make(chan struct{})
	go func() {
		defer close(done)
		for round := range 20 {
			for i := range nodes {
				id := core.NodeID(fmt.Sprint("n", i))
				switch n := f.Node(id); {
				case n == nil:
					f.Update(status(declared(id, installed("x"))))
				case (i+round)%7 == 0:
					f.Remove(id)
				default:
					f.Update(status(successor(n.Declared(), installed([]string{"x", "y"}[(i+round)%2]))))
				}
			}
		}
	}()
	a := core.PoolDefinition{ID: "a", RequiredServices: []string{"x"}}
	definitions := []*core.Pools{{Defined: []core.PoolDefinition{a}}, {Buckets: 5}, nil, {Defined: []core.PoolDefinition{a, {ID: "b", RequiredServices: []string{"y"}}}}}
	for i := 0; ; i++ {
		select {
		case <-done:
		default:
			f.SetPools(definitions[i%len(definitions)])
			f.Route(direction("en", "de"), false)
			continue
		}
		break
	}
	definition := definitions[3]
	f.SetPools(definition)
	got := membersByPool(f, direction("en", "de"))
	count := 0
	for n := range f.All() {
		pool := definition.Assign(n.Declared()).Pool
		if _, in := got[pool][n.ID()]; !in {
			t.Errorf("%s is not in the pool %q", n.ID(), pool)
		}
		count++
	}
	for _, members := range got {
		count -= len(members)
	}
	if count != 0 {
		t.Errorf("%d nodes are in view more than in pools", count)
	}
}

// TestReadyNodesOfRoute checks which nodes are counted as ready.
func TestReadyNodesOfRoute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		f.Update(status(declared("a")))
		f.Update(status(declared("b")))
		ready := func() int {
			time.Sleep(time.Duration(routeMaxAge))
			return f.Route(direction("en", "de"), false).Stops[0].Ready
		}
		if n := ready(); n != 2 {
			t.Errorf("%d are ready, want 2", n)
		}
		n := f.Node("a").Declared()
		for name, change := range map[string]func(*core.Node){
			"degraded": health(core.HealthDegraded), "drained": func(n *core.Node) { n.Drained = true }, "ejected": limitedTo(0),
			"no slots": slots(0), "out of reach": func(n *core.Node) { n.Callback = "" },
		} {
			worse := successor(n, change)
			f.Update(status(worse))
			if got := ready(); got != 1 {
				t.Errorf("%s: %d are ready, want 1", name, got)
			}
			n = successor(worse, func(m *core.Node) { *m = *declared("a") })
			f.Update(status(n))
			if got := ready(); got != 2 {
				t.Errorf("after %s: %d are ready, want 2", name, got)
			}
		}
	})
}

// TestClosedRoutesAreEmpty checks that the indexes of a division that was replaced, and those that were evicted, are empty and closed: they are
// not kept up to date, so a selection that has begun must not use them.
func TestClosedRoutesAreEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		f.Update(status(declared("a")))
		want := func(name string, r *Route, members int, closed bool) {
			t.Helper()
			if got := len(slices.Collect(r.All())); got != members || r.Closed() != closed {
				t.Errorf("%s: %d members, closed %t; want %d, %t", name, got, r.Closed(), members, closed)
			}
		}
		before := f.Route(direction("en", "de"), false)
		want("in use", before, 1, false)
		f.SetPools(&core.Pools{Buckets: 3})
		want("replaced", before, 0, true)
		after := f.Route(direction("en", "de"), false)
		want("of the new division", after, 1, false)
		time.Sleep(indexIdleTimeout + 2*time.Second)
		f.Update(status(successor(f.Node("a").Declared())))
		f.EvictIdleIndexes()
		want("evicted", after, 0, true)
		want("asked for again", f.Route(direction("en", "de"), false), 1, false)
	})
}
