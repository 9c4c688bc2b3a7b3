package pick_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

const unknown = -1

// taken is a hall of nodes with so many of their four slots taken, some of them unknown. What is known was seen
// just now; the average is what the test says.
func taken(average float64, inFlight ...int) (*hall, pick.Query) {
	h := hallOf(len(inFlight))
	q := h.query()
	q.Now += fleet.Instant(10 * time.Second) // what the nodes came with is too old to be believed
	for range 2000 {
		h.Observe(h.node(0), int(average*1000), 1000, 0)
	}
	for i, n := range inFlight {
		if n != unknown {
			h.Observe(h.node(i), n, 4, q.Now)
		}
	}
	return h, q
}

func TestOfTwoTheLessTakenIsOfferedFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		average float64
		a, b    int
		first   int // of the two; unknown: either
	}{
		{"idle and half", 0.5, 0, 2, 0},
		{"three quarters and a quarter", 0.5, 3, 1, 1},
		{"equal", 0.5, 2, 2, unknown},
		{"unknown and less than average", 0.5, unknown, 1, 1},
		{"unknown and more than average", 0.5, unknown, 3, 0},
		{"unknown and idle, in an idle fleet", 0, 0, unknown, unknown},
		{"unknown and nearly full, in a full fleet", 1, 3, unknown, 0},
		{"both unknown", 0.5, unknown, unknown, unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, q := taken(c.average, c.a, c.b)
			picker, members := pick.New(h.Fleet, usual(), seeded(1)), h.pool.Members()
			first := make(map[core.NodeID]int)
			const rounds = 2000
			for range rounds {
				r := picker.Begin(q, members)
				all := offers(r)
				r.End()
				if len(all) != 2 {
					t.Fatalf("offered %v, want both", all)
				}
				first[all[0]]++
			}
			if c.first == unknown {
				checkUniform(t, "first of two", first, 2)
			} else if diff := cmp.Diff(map[core.NodeID]int{nth(c.first): rounds}, first); diff != "" {
				t.Errorf("first of two (-want +got):\n%s", diff)
			}
		})
	}
}

// Shares of nodes of different size are compared, not numbers of jobs.
func TestAShareIsOfTheNodesOwnSize(t *testing.T) {
	t.Parallel()
	h := newHall()
	h.Update(status(declared("small", func(n *core.Node) { n.MaxJobs = 2 })))
	h.Update(status(declared("large", func(n *core.Node) { n.MaxJobs = 100 })))
	q := h.query()
	h.Observe(h.Node("small"), 1, 2, q.Now)
	h.Observe(h.Node("large"), 20, 100, q.Now)
	for seed := range uint64(100) {
		r := pick.New(h.Fleet, usual(), seeded(seed)).Begin(q, h.pool.Members())
		if diff := cmp.Diff([]core.NodeID{"large", "small"}, offers(r)); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		r.End()
	}
}

// Of each two that are offered the first is the less taken, whatever is known of them, and none is believed full.
func TestEveryPairIsOrdered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		states := rapid.SliceOfN(rapid.IntRange(unknown, 6), 1, 30).Draw(t, "in flight")
		average := rapid.SampledFrom([]float64{0, 0.3, 0.6, 1}).Draw(t, "average")
		h, q := taken(average, states...)
		policy := usual()
		policy.SampleK = len(states)
		r := pick.New(h.Fleet, policy, seeded(rapid.Uint64().Draw(t, "seed"))).Begin(q, h.pool.Members())
		defer r.End()
		var shares []float64
		for m := r.Next(); m.Node != nil; m = r.Next() {
			shares = append(shares, h.Utilization(m.Node, q.Now))
		}
		room := 0
		for _, n := range states {
			if n < 4 {
				room++
			}
		}
		if len(shares) != room {
			t.Fatalf("%d offers, want the %d nodes that may have room", len(shares), room)
		}
		for i, share := range shares {
			if share >= 1 {
				t.Fatalf("offer %d is believed full", i)
			}
			if i%2 == 1 && share < shares[i-1] {
				t.Fatalf("offer %d has a share of %v, the one before it %v", i, share, shares[i-1])
			}
		}
	})
}

// Two choices, not least of many, which on numbers that are a little old sends everybody to the same node. With
// two of twenty drawn, the least taken comes first in one round of ten and the most taken in none.
func TestLeastTakenIsNotAlwaysFirst(t *testing.T) {
	t.Parallel()
	const nodes, rounds = 20, 20_000
	h := newHall()
	for i := range nodes {
		h.Update(status(declared(nth(i), func(n *core.Node) { n.MaxJobs = 100 })))
	}
	q := h.query()
	for i := range nodes {
		h.Observe(h.node(i), i, 100, q.Now)
	}
	picker, members := pick.New(h.Fleet, usual(), seeded(7)), h.pool.Members()
	first := make(map[core.NodeID]int)
	for range rounds {
		r := picker.Begin(q, members)
		first[r.Next().ID()]++
		r.End()
	}
	for i := range nodes {
		// The i-th comes first when the other is one of those that are taken more.
		want := 2 * float64(nodes-1-i) / (nodes * (nodes - 1)) * rounds
		if got := float64(first[nth(i)]); math.Abs(got-want) > 5*math.Sqrt(want) {
			t.Errorf("the %d-th least taken was offered first %v times of %d, want about %.0f", i+1, got, rounds, want)
		}
	}
}
