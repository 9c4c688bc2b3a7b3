package pick_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// countingRand is a seeded generator that records the range of each call.
type countingRand struct {
	rng    *rand.Rand
	ranges []int
}

func (c *countingRand) intN(n int) int {
	c.ranges = append(c.ranges, n)
	return c.rng.IntN(n)
}

// poolWithUnready returns a pool of nodes of which some are not ready, and the ids of those that are.
func poolWithUnready(ready []bool) (*poolFixture, []core.NodeID) {
	f, able := emptyPool(), []core.NodeID{}
	for i, ok := range ready {
		n := declared(nodeID(i))
		if ok {
			able = append(able, n.ID)
		} else {
			n.Health = core.HealthDegraded
		}
		f.Update(status(n))
	}
	return f, able
}

func TestSampleWithoutReplacement(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ready := rapid.SliceOfN(rapid.SampledFrom([]bool{true, true, false}), 0, 60).Draw(t, "ready")
		f, able := poolWithUnready(ready)
		policy := defaultPolicy()
		policy.SampleK = rapid.IntRange(0, 30).Draw(t, "sample")
		draws := &countingRand{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))}
		picker := pick.New(f.Fleet, policy, draws.intN)

		for range 3 { // selections are reused and must start from scratch each time
			draws.ranges = nil
			r := selectIn(picker, f.query(), f.pool)
			got := candidates(r)
			if r.Next().Node != nil {
				t.Fatal("a selection that was used up returns another candidate")
			}
			r.End()

			limit := min(policy.SampleK, len(ready))
			if len(ready) < 2*policy.SampleK { // by their number; else slots are drawn, of which some are drawn again
				var want []int
				for i := range limit {
					want = append(want, len(ready)-i)
				}
				if diff := cmp.Diff(want, draws.ranges); diff != "" {
					t.Fatalf("ranges of the generator (-want +got):\n%s", diff)
				}
			}
			sorted := slices.Sorted(slices.Values(got))
			if len(slices.Compact(slices.Clone(sorted))) != len(got) {
				t.Fatalf("a node is returned twice: %v", got)
			}
			if len(got) > limit {
				t.Fatalf("%d candidates of %d samples", len(got), limit)
			}
			for _, id := range got {
				if !slices.Contains(able, id) {
					t.Fatalf("candidate %s is not ready", id)
				}
			}
			// A sample as large as the pool finds every ready node.
			if policy.SampleK >= len(ready) && !slices.Equal(sorted, able) {
				t.Fatalf("candidates (-want +got):\n%s", cmp.Diff(able, sorted))
			}
		}
	})
}

// Nodes are sampled only when they are needed: most selections end with the first candidate.
func TestSampleNoMoreThanNeeded(t *testing.T) {
	t.Parallel()
	f := poolOf(100)
	draws := &countingRand{rng: rand.New(rand.NewPCG(1, 1))}
	r := selectFrom(t, pick.New(f.Fleet, defaultPolicy(), draws.intN), f.query(), f.pool)
	if len(draws.ranges) != 0 {
		t.Errorf("%d samples before the first call of Next", len(draws.ranges))
	}
	for i, want := range []int{3, 3, 5, 5, 7} { // two at a time, and one more that is being fetched
		r.Next()
		if got := len(draws.ranges); got > want {
			t.Errorf("%d samples for %d candidates, want at most %d", got, i+1, want)
		}
	}
}

func TestSelectionFromEmptyPool(t *testing.T) {
	t.Parallel()
	f := emptyPool()
	r := selectFrom(t, pick.New(f.Fleet, defaultPolicy(), nil), f.query(), f.pool)
	if m := r.Next(); m.Node != nil {
		t.Errorf("candidate %s, want none", m.ID())
	}
	want := pick.Survey{Rejections: map[core.Reason]int{}}
	if diff := cmp.Diff(want, r.Survey()); diff != "" {
		t.Errorf("survey (-want +got):\n%s", diff)
	}
}

// A reservation carries the revision of the pool's member.
func TestCandidateHasTheRevisionOfThePool(t *testing.T) {
	t.Parallel()
	f := emptyPool()
	f.Update(status(declared("a", func(n *core.Node) { n.Revision = 7 })))
	r := selectFrom(t, pick.New(f.Fleet, defaultPolicy(), nil), f.query(), f.pool)
	if m := r.Next(); m.Node == nil || m.Revision != 7 {
		t.Errorf("candidate %+v, want revision 7", m)
	}
	if rest := r.Survey().Candidates; len(rest) != 1 || rest[0].Revision != 7 {
		t.Errorf("surveyed %+v, want revision 7", rest)
	}
}

func TestFirstCandidatesAreUniform(t *testing.T) {
	t.Parallel()
	const nodes = 50
	for _, c := range []struct {
		name   string
		rounds int
		sample int
		absent int // every absent-th node is not ready; 0: all are
		able   int
	}{
		{"equal nodes", 100_000, 20, 0, 50},
		{"a sample of the whole pool", 20_000, 50, 0, 50},
		{"a sample of one", 20_000, 1, 0, 50},
		{"some are not ready", 20_000, 20, 5, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ready := make([]bool, nodes)
			for i := range ready {
				ready[i] = c.absent == 0 || i%c.absent != 0
			}
			f, _ := poolWithUnready(ready)
			policy := defaultPolicy()
			policy.SampleK = c.sample
			picker, q, members := pick.New(f.Fleet, policy, seeded(1)), f.query(), f.pool
			counts := make(map[core.NodeID]int)
			for range c.rounds {
				r := selectIn(picker, q, members)
				counts[r.Next().ID()]++
				r.End()
			}
			checkUniform(t, "first candidates", counts, c.able)
		})
	}
}

// Every prefix of the order of candidates is as likely as any other
// of its length.
func TestCandidateOrdersAreUniform(t *testing.T) {
	t.Parallel()
	const nodes, rounds = 5, 60_000
	f := poolOf(nodes)
	picker, q, members := pick.New(f.Fleet, defaultPolicy(), seeded(2)), f.query(), f.pool
	prefixes := make([]map[string]int, nodes+1)
	for i := range prefixes {
		prefixes[i] = make(map[string]int)
	}
	for range rounds {
		r := selectIn(picker, q, members)
		prefix := ""
		for length, id := range candidates(r) {
			prefix += string(id)
			prefixes[length+1][prefix]++
		}
		r.End()
	}
	cells := 1
	for length := 1; length <= nodes; length++ {
		cells *= nodes - length + 1
		checkUniform(t, fmt.Sprintf("the first %d candidates", length), prefixes[length], cells)
	}
}

// A sample is much smaller than a large pool, so a position of the shuffle may be swapped more than once.
func TestOrderedPairsOfASampleAreUniform(t *testing.T) {
	t.Parallel()
	const nodes, rounds = 12, 40_000
	f := poolOf(nodes)
	policy := defaultPolicy()
	policy.SampleK = 7
	picker, q, members := pick.New(f.Fleet, policy, seeded(3)), f.query(), f.pool
	type pair struct{ a, b core.NodeID }
	early, late := make(map[pair]int), make(map[pair]int)
	for range rounds {
		r := selectIn(picker, q, members)
		all := candidates(r)
		r.End()
		early[pair{all[0], all[1]}]++
		late[pair{all[5], all[6]}]++
	}
	checkUniform(t, "the first and the second", early, nodes*(nodes-1))
	checkUniform(t, "the sixth and the last", late, nodes*(nodes-1))
}

// The survey has an order of its own, which must be uniform too.
func TestSurveyOrdersAreUniform(t *testing.T) {
	t.Parallel()
	const nodes, rounds = 4, 24_000
	for _, c := range []struct {
		name  string
		apply func(*poolFixture)
	}{
		{"with free slots", func(*poolFixture) {}},
		{"believed full", func(f *poolFixture) {
			for i := range nodes {
				f.Observe(f.node(i), 4, 4, f.Now())
			}
		}},
		{"set aside", func(f *poolFixture) {
			for i := range nodes {
				f.node(i).RecordMissedACK(f.Now())
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := poolOf(nodes)
			c.apply(f)
			picker, q, members := pick.New(f.Fleet, defaultPolicy(), seeded(4)), f.query(), f.pool
			counts := make(map[string]int)
			for range rounds {
				r := selectIn(picker, q, members)
				order := ""
				for _, m := range r.Survey().Candidates {
					order += string(m.ID())
				}
				r.End()
				counts[order]++
			}
			checkUniform(t, "orders", counts, 24)
		})
	}
}

// checkUniform fails when counts differ from each other by more than chance would make them differ once in a
// thousand experiments. Every experiment here draws from a seeded generator, so it has one outcome for good.
func checkUniform[K comparable](t *testing.T, what string, counts map[K]int, cells int) {
	t.Helper()
	total := 0
	for _, n := range counts {
		total += n
	}
	if len(counts) != cells {
		t.Errorf("%s: %d different outcomes, want %d", what, len(counts), cells)
		return
	}
	expected := float64(total) / float64(cells)
	chi := 0.0
	for _, n := range counts {
		chi += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	if limit := chiSquareLimit(cells - 1); chi > limit {
		t.Errorf("%s: χ² = %.1f over %d outcomes of %d draws, want at most %.1f: %v", what, chi, cells, total, limit, counts)
	}
}

// chiSquareLimit is the 99.9th percentile of the χ² distribution, by Wilson and Hilferty's approximation.
func chiSquareLimit(degrees int) float64 {
	const z = 3.0902
	k := float64(degrees)
	return k * math.Pow(1-2/(9*k)+z*math.Sqrt(2/(9*k)), 3)
}

// The approximation agrees with printed tables to two percent.
func TestChiSquareLimit(t *testing.T) {
	t.Parallel()
	for degrees, want := range map[int]float64{4: 18.47, 19: 43.82, 49: 85.35, 119: 173.6} {
		if got := chiSquareLimit(degrees); math.Abs(got-want) > 0.02*want {
			t.Errorf("the limit for %d degrees of freedom is %.2f, want %.2f", degrees, got, want)
		}
	}
}
