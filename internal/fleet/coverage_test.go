package fleet

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
)

func hasService(id string) func(*core.Node) {
	return func(n *core.Node) { n.Services = []core.Service{{ID: id, Status: core.ServiceReady}} }
}

// TestCoverage checks what is covered in a fleet with a pool to which a tenant is bound, another pool, and a node of no pool.
func TestCoverage(t *testing.T) {
	t.Parallel()
	directions := []core.Direction{{Src: "en", Tgt: "de"}, {Src: "en", Tgt: "fr"}}
	division := core.Pools{
		Defined:   []core.PoolDefinition{{ID: "bound", RequiredServices: []string{"b"}}, {ID: "rest", RequiredServices: []string{"r"}}},
		Overrides: map[core.TenantID]core.PoolID{"acme": "bound"},
	}
	strict, elsewhere := division, division
	strict.Strict = true
	elsewhere.Overrides = map[core.TenantID]core.PoolID{"acme": "rest", "beta": "empty"}
	elsewhere.Defined = append(slices.Clone(division.Defined), core.PoolDefinition{ID: "empty", RequiredServices: []string{"e"}})
	drained := func(n *core.Node) { n.Drained = true }
	nodes := []*core.Node{
		declared("b1", hasService("b")), declared("b2", hasService("b"), drained), declared("b3", hasService("b"), ofTenant("acme")),
		declared("r1", hasService("r")), declared("r2", hasService("r"), limitedTo(0)), declared("r3", hasService("r"), ofTenant("beta")),
		declared("none"),
	}
	for name, c := range map[string]struct {
		division *core.Pools
		want     []string // what is covered: ready/registered
	}{
		"not divided": {nil, []string{"en→de 3/5", "en→de for tenant acme 4/6", "en→de for tenant beta 4/6", "en→fr 0/0"}},
		"divided": {&division, []string{
			"en→de 3/5", "en→de for tenant beta 4/6", "en→de in pool bound 1/2", "en→de in pool bound for tenant acme 2/3",
			"en→de in pool rest 1/2", "en→de in pool rest for tenant beta 2/3", "en→fr 0/0",
		}},
		"strictly divided": {&strict, []string{
			"en→de 2/4", "en→de for tenant beta 3/5", "en→de in pool bound 1/2", "en→de in pool bound for tenant acme 2/3",
			"en→de in pool rest 1/2", "en→de in pool rest for tenant beta 2/3", "en→fr 0/0",
		}},
		"bound to other pools": {&elsewhere, []string{
			"en→de 3/5", "en→de in pool bound 1/2", "en→de in pool empty 0/0", "en→de in pool rest 1/2", "en→fr 0/0", "en→fr in pool empty 0/0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coverOf := func(except *core.Node) (*Fleet, *Coverage) {
				f := agedFleet()
				for _, n := range nodes {
					if n != except {
						f.Update(status(n))
					}
				}
				f.SetPools(c.division)
				return f, f.Cover(directions)
			}
			f, all := coverOf(nil)
			var got []string
			for cover, covered := range all.All() {
				got = append(got, fmt.Sprintf("%s %d/%d", cover, covered.Ready, covered.Nodes))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, n := range nodes { // what is left without a node is what is there if it is not registered
				_, rest := coverOf(n)
				counted := f.CoveringNode(n)
				for cover, covered := range all.Needs(&counted) {
					if want := rest.Of(cover.CoverGroup, slices.Index(directions, cover.Direction)); covered != want {
						t.Errorf("%s without %s: %+v, want %+v", cover, n.ID, covered, want)
					}
				}
			}
		})
	}
}

// TestCoverageCountsSilentNodes checks that a pool whose nodes are all silent is not covered, and not forgotten.
func TestCoverageCountsSilentNodes(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	f.SetPools(&core.Pools{Defined: []core.PoolDefinition{{ID: "p", RequiredServices: []string{"s"}}}})
	f.Update(status(declared("a", hasService("s")), seenAgo(presence)))
	count := 0
	for cover, covered := range f.Cover([]core.Direction{{Src: "en", Tgt: "de"}}).All() {
		if count++; covered != (Covered{Nodes: 1}) {
			t.Errorf("%s: %+v", cover, covered)
		}
	}
	if count != 2 {
		t.Errorf("%d groups, want all nodes and those of the pool", count)
	}
}
