package pick_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// counted is a seeded generator that notes what it was asked for.
type counted struct {
	rng   *rand.Rand
	asked []int
}

func (c *counted) intN(n int) int {
	c.asked = append(c.asked, n)
	return c.rng.IntN(n)
}

// mixed is a hall of nodes of which some are not ready, and the names of those that are.
func mixed(ready []bool) (*hall, []core.NodeID) {
	h, able := newHall(), []core.NodeID{}
	for i, ok := range ready {
		n := declared(nth(i))
		if ok {
			able = append(able, n.ID)
		} else {
			n.Health = core.HealthDegraded
		}
		h.Update(status(n))
	}
	return h, able
}

func TestRoundDrawsWithoutReplacement(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ready := rapid.SliceOfN(rapid.SampledFrom([]bool{true, true, false}), 0, 60).Draw(t, "ready")
		h, able := mixed(ready)
		policy := usual()
		policy.SampleK = rapid.IntRange(0, 30).Draw(t, "sample")
		draws := &counted{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))}
		picker := pick.New(h.Fleet, policy, draws.intN)

		for range 3 { // rounds are used again and must begin anew each time
			draws.asked = nil
			r := picker.Select(h.query(), h.pool.Members())
			got := offers(r)
			if r.Next().Node != nil {
				t.Fatal("a round that was used up offers again")
			}
			r.End()

			most := min(policy.SampleK, len(ready))
			var want []int
			for i := range most {
				want = append(want, len(ready)-i)
			}
			if diff := cmp.Diff(want, draws.asked); diff != "" {
				t.Fatalf("drawn from so many (-want +got):\n%s", diff)
			}
			sorted := slices.Sorted(slices.Values(got))
			if len(slices.Compact(slices.Clone(sorted))) != len(got) {
				t.Fatalf("a node is offered twice: %v", got)
			}
			if len(got) > most {
				t.Fatalf("%d offers of %d draws", len(got), most)
			}
			for _, id := range got {
				if !slices.Contains(able, id) {
					t.Fatalf("%s is offered, which is not ready", id)
				}
			}
			// A sample as large as the pool finds everybody.
			if policy.SampleK >= len(ready) && !slices.Equal(sorted, able) {
				t.Fatalf("offered (-want +got):\n%s", cmp.Diff(able, sorted))
			}
		}
	})
}

// A node is looked at when it is drawn, and drawn when it is needed: most rounds end with the first offer.
func TestRoundDrawsNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	h := hallOf(100)
	draws := &counted{rng: rand.New(rand.NewPCG(1, 1))}
	r := begin(t, pick.New(h.Fleet, usual(), draws.intN), h.query(), h.pool.Members())
	if len(draws.asked) != 0 {
		t.Errorf("%d draws before anything was asked for", len(draws.asked))
	}
	for i, want := range []int{3, 3, 5, 5, 7} { // two at a time, and one ahead that is being fetched
		r.Next()
		if got := len(draws.asked); got > want {
			t.Errorf("%d draws for %d offers, want at most %d", got, i+1, want)
		}
	}
}

func TestRoundOverNobody(t *testing.T) {
	t.Parallel()
	h := newHall()
	r := begin(t, pick.New(h.Fleet, usual(), nil), h.query(), h.pool.Members())
	if m := r.Next(); m.Node != nil {
		t.Errorf("offered %s", m.ID())
	}
	want := pick.Survey{Rejections: map[core.Reason]int{}}
	if diff := cmp.Diff(want, r.Survey()); diff != "" {
		t.Errorf("survey (-want +got):\n%s", diff)
	}
}

// A member is as of a revision, and the reservation needs it.
func TestOfferCarriesTheRevisionOfThePool(t *testing.T) {
	t.Parallel()
	h := newHall()
	h.Update(status(declared("a", func(n *core.Node) { n.Revision = 7 })))
	r := begin(t, pick.New(h.Fleet, usual(), nil), h.query(), h.pool.Members())
	if m := r.Next(); m.Node == nil || m.Revision != 7 {
		t.Errorf("offered %+v, want revision 7", m)
	}
	if rest := r.Survey().Candidates; len(rest) != 1 || rest[0].Revision != 7 {
		t.Errorf("surveyed %+v, want revision 7", rest)
	}
}
