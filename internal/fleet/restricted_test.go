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

// TestRestrictedIndexes checks after any changes of the fleet that an index with a restriction has exactly the nodes that serve the direction
// and fulfil it, whether it was built before or after the change.
func TestRestrictedIndexes(t *testing.T) {
	t.Parallel()
	versions := rapid.SampledFrom([]string{"", "1", "2.1", "3.0"})
	required := func(name string) *rapid.Generator[[]string] {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"a", "b"}).Draw(t, name) + rapid.SampledFrom([]string{"", "@2.1", "@>=2", "@<3"}).Draw(t, "conditions")
		}), 0, 2)
	}
	restrictions := rapid.Custom(func(t *rapid.T) core.Restriction {
		return core.Restriction{
			Region: rapid.SampledFrom([]string{"", "eu", "us"}).Draw(t, "region"), Services: required("service").Draw(t, "services"), Models: required("model").Draw(t, "models"),
		}
	})
	type step struct {
		Node     core.NodeID
		Remove   bool
		Region   string
		Services []core.Service
		Models   []string
		Query    core.Restriction
	}
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		s := step{
			Node: rapid.SampledFrom(someNodes).Draw(t, "node"), Remove: rapid.IntRange(0, 5).Draw(t, "remove") == 0,
			Region: rapid.SampledFrom([]string{"", "eu", "us"}).Draw(t, "region"), Query: restrictions.Draw(t, "query"),
		}
		for _, id := range []string{"a", "b"} {
			if rapid.Bool().Draw(t, "service") {
				s.Services = append(s.Services, core.Service{ID: id, Version: versions.Draw(t, "version"), Status: core.ServiceReady})
			}
			if rapid.Bool().Draw(t, "model") {
				model := id
				if v := versions.Draw(t, "version"); v != "" {
					model += "@" + v
				}
				s.Models = append(s.Models, model)
			}
		}
		return s
	}), 1, 30)
	rapid.Check(t, func(rt *rapid.T) {
		script := steps.Draw(rt, "script")
		var failed error
		synctest.Test(t, func(*testing.T) {
			f, nodes, last := agedFleet(), make(map[core.NodeID]*core.Node), make(map[core.NodeID]*core.Node)
			queries := []core.Restriction{{}}
			for i, s := range script {
				if s.Remove {
					f.Remove(s.Node)
					delete(nodes, s.Node)
				} else {
					change := func(n *core.Node) {
						n.Region, n.Services, n.Models = s.Region, s.Services, s.Models
					}
					n := declared(s.Node, change)
					if old := last[s.Node]; old != nil {
						n = successor(old, change)
					}
					f.Update(status(n))
					nodes[s.Node], last[s.Node] = n, n
				}
				queries = append(queries, s.Query)
				time.Sleep(time.Duration(routeMaxAge)) // for the next count
				for k := range queries {
					if failed = checkRestricted(f, nodes, &queries[k]); failed != nil {
						failed = fmt.Errorf("after step %d, %+v: %w", i, s, failed)
						return
					}
				}
			}
		})
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}

func checkRestricted(f *Fleet, nodes map[core.NodeID]*core.Node, r *core.Restriction) error {
	var want, got []core.NodeID
	for id, n := range nodes {
		if r.Allows(n) {
			want = append(want, id)
		}
	}
	for m := range f.RestrictedRoute(direction("en", "de"), false, r).All() {
		got = append(got, m.ID())
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%+v (-want +got):\n%s", *r, diff)
	}
	return nil
}
