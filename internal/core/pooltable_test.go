package core

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// expectAssignment returns the pools to one of which a node must be assigned, or why it belongs to none.
func expectAssignment(p *Pools, n *Node) (matching []PoolID, none Assignment) {
	fewest := -1
	none.Closest = n.Pool
	for i := range p.Defined {
		d := &p.Defined[i]
		if n.Pool != "" && n.Pool != d.ID {
			continue
		}
		var missing []string
		for _, r := range d.RequiredServices {
			if installed, _ := n.ServiceState(r); !installed {
				missing = append(missing, r)
			}
		}
		switch {
		case len(missing) == 0:
			matching = append(matching, d.ID)
		case fewest < 0 || len(missing) < fewest:
			none, fewest = Assignment{Missing: missing[0], Closest: d.ID}, len(missing)
		}
	}
	return matching, none
}

// TestAssignByDefinition: a node is assigned to a pool whose services it all has, or to none, with a pool of which it lacks the fewest; with
// a table that was prepared and without.
func TestAssignByDefinition(t *testing.T) {
	t.Parallel()
	required := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a@>=2", "b", "b@1", "c@latest"}), 0, 3)
	services := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Service {
		return Service{ID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id"), Version: rapid.SampledFrom([]string{"", "1", "2", "latest"}).Draw(t, "version")}
	}), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		p := &Pools{}
		for i := range rapid.IntRange(1, 4).Draw(t, "pools") {
			p.Defined = append(p.Defined, PoolDefinition{ID: PoolID(fmt.Sprint("p", i)), RequiredServices: required.Draw(t, "required")})
		}
		n := poolNode("n", services.Draw(t, "services")...)
		n.Pool = rapid.SampledFrom([]PoolID{"", "", "p0", "p1", "p2", "p3"}).Draw(t, "pinned")
		matching, none := expectAssignment(p, n)
		got := p.Assign(n)
		if diff := cmp.Diff(got, p.Prepared().Assign(n)); diff != "" {
			t.Fatalf("with a table (-without +with):\n%s", diff)
		}
		if len(matching) > 0 && (!slices.Contains(matching, got.Pool) || got.Missing != "" || got.Closest != "") || len(matching) == 0 && got != none {
			t.Fatalf("%+v, want one of %v or %+v", got, matching, none)
		}
	})
}

// TestCoveredPools: the pools that a rule remembers for a list of required services are those that are eligible one by one, however many lists
// there have been.
func TestCoveredPools(t *testing.T) {
	t.Parallel()
	p := (&Pools{Scope: ScopeAll, Defined: []PoolDefinition{
		{ID: "a", RequiredServices: []string{"asr@>=2", "nmt"}}, {ID: "b", RequiredServices: []string{"asr@>=3"}}, {ID: "c"},
	}}).Prepared()
	for round := range 2 {
		for i := range 2 * maxEligible {
			spec := &Spec{Options: Options{RequiredServices: []string{fmt.Sprint("asr@>=1.", i), "nmt"}[:1+i%2]}}
			rule := NewPoolRule(p, spec)
			for _, id := range append(p.IDs(), "") {
				if got, want := rule.Eligible(id), id != "" && p.Eligible(id, &spec.Options); got != want {
					t.Fatalf("round %d: %v is eligible in %q: %t, want %t", round, spec.Options.RequiredServices, id, got, want)
				}
			}
			if n := len(*p.Table.eligible.Load()); n > maxEligible {
				t.Fatalf("%d lists are remembered, the maximum is %d", n, maxEligible)
			}
		}
	}
	// Lists that a separator would join differ.
	for _, services := range [][]string{{"asr", "nmt"}, {"asr2:nmt"}, {"asr3:nmt"}} {
		rule := NewPoolRule(p, &Spec{Options: Options{RequiredServices: services}})
		if got, want := rule.Eligible("a"), len(services) == 2; got != want {
			t.Errorf("%q is eligible: %t, want %t", services, got, want)
		}
	}
}

// BenchmarkAssign measures the assignment of a node that matches every pool.
func BenchmarkAssign(b *testing.B) {
	for _, pools := range []int{50, 1000} {
		b.Run(fmt.Sprint(pools, " buckets"), func(b *testing.B) {
			p, n := (&Pools{Buckets: pools}).Prepared(), poolNode("node-0190aaaa-bbbb-cccc-dddd-000000000001")
			for b.Loop() {
				p.Assign(n)
			}
		})
		b.Run(fmt.Sprint(pools, " pools with services"), func(b *testing.B) {
			p := &Pools{}
			for i := range pools {
				p.Defined = append(p.Defined, PoolDefinition{ID: PoolID(fmt.Sprint("pool-", i)), RequiredServices: []string{fmt.Sprintf("asr-%d@>=2", i%5), fmt.Sprint("nmt-", i/5)}})
			}
			p = p.Prepared()
			n := poolNode("node-0190aaaa-bbbb-cccc-dddd-000000000001", Service{ID: "asr-1", Version: "2.1"}, Service{ID: "nmt-3", Version: "3.0"})
			for b.Loop() {
				p.Assign(n)
			}
		})
	}
}

// BenchmarkEligible measures the eligibility of 1,000 pools for a job that requires services.
func BenchmarkEligible(b *testing.B) {
	p := &Pools{Scope: ScopeAll}
	for i := range 1000 {
		p.Defined = append(p.Defined, PoolDefinition{ID: PoolID(fmt.Sprint("pool-", i)), RequiredServices: []string{fmt.Sprintf("asr-%d@>=2", i%5), fmt.Sprint("nmt-", i/5)}})
	}
	p = p.Prepared()
	ids, spec := p.IDs(), &Spec{Options: Options{RequiredServices: []string{"asr-1@>=1"}}}
	for b.Loop() {
		rule := NewPoolRule(p, spec)
		for _, id := range ids {
			rule.Eligible(id)
		}
	}
}
