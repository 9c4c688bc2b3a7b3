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

// poolWithOccupancy returns a pool of nodes with the given in-flight jobs of four slots, some of them unknown. The known
// ones were observed just now; the fleet's average is the given one.
func poolWithOccupancy(average float64, inFlight ...int) (*poolFixture, pick.Query) {
	f := poolOf(len(inFlight))
	q := f.query()
	q.Now += fleet.Instant(10 * time.Second) // their occupancy at registration is too old to be used
	for range 2000 {
		f.Observe(f.node(0), int(average*1000), 1000, 0)
	}
	for i, n := range inFlight {
		if n != unknown {
			f.Observe(f.node(i), n, 4, q.Now)
		}
	}
	return f, q
}

func TestLowerInFlightShareIsFirstOfTwo(t *testing.T) {
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
			f, q := poolWithOccupancy(c.average, c.a, c.b)
			picker, members := pick.New(f.Fleet, defaultPolicy(), seeded(1)), f.pool
			first := make(map[core.NodeID]int)
			const rounds = 2000
			for range rounds {
				r := selectIn(picker, q, members)
				all := candidates(r)
				r.End()
				if len(all) != 2 {
					t.Fatalf("candidates %v, want both", all)
				}
				first[all[0]]++
			}
			if c.first == unknown {
				checkUniform(t, "first of two", first, 2)
			} else if diff := cmp.Diff(map[core.NodeID]int{nodeID(c.first): rounds}, first); diff != "" {
				t.Errorf("first of two (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLateHeartbeatIsTheTieBreaker: of two nodes with the same share, one that has missed a heartbeat is tried last. Two nodes that have
// not missed one, or both, are chosen at random, however old their heartbeats are.
func TestLateHeartbeatIsTheTieBreaker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		ageA, ageB time.Duration // of the last heartbeats
		inFlightA  int           // of four slots; the other is idle
		first      int           // of the two; unknown: either
	}{
		{"one is late", 11 * time.Second, time.Second, 0, 1},
		{"the other is late", 5 * time.Second, 12 * time.Second, 0, 0},
		{"both are on time", 5 * time.Second, 0, 0, unknown},
		{"both are late", 11 * time.Second, 12 * time.Second, 0, unknown},
		{"the late one is less busy", 0, 12 * time.Second, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := emptyPool()
			for i, age := range []time.Duration{c.ageA, c.ageB} {
				s := status(declared(nodeID(i)))
				s.Age = age
				f.Update(s)
			}
			q := f.query()
			f.Observe(f.node(0), c.inFlightA, 4, q.Now)
			f.Observe(f.node(1), 0, 4, q.Now)
			picker := pick.New(f.Fleet, heartbeatPolicy(), seeded(1))
			first := make(map[core.NodeID]int)
			const rounds = 2000
			for range rounds {
				r := selectIn(picker, q, f.pool)
				first[candidates(r)[0]]++
				r.End()
			}
			if c.first == unknown {
				checkUniform(t, "first of two", first, 2)
			} else if diff := cmp.Diff(map[core.NodeID]int{nodeID(c.first): rounds}, first); diff != "" {
				t.Errorf("first of two (-want +got):\n%s", diff)
			}
		})
	}
}

// In-flight shares are compared, not numbers of jobs.
func TestSharesOfNodesOfDifferentSizeAreCompared(t *testing.T) {
	t.Parallel()
	f := emptyPool()
	f.Update(status(declared("small", func(n *core.Node) { n.MaxJobs = 2 })))
	f.Update(status(declared("large", func(n *core.Node) { n.MaxJobs = 100 })))
	q := f.query()
	f.Observe(f.Node("small"), 1, 2, q.Now)
	f.Observe(f.Node("large"), 20, 100, q.Now)
	for seed := range uint64(100) {
		r := selectIn(pick.New(f.Fleet, defaultPolicy(), seeded(seed)), q, f.pool)
		if diff := cmp.Diff([]core.NodeID{"large", "small"}, candidates(r)); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		r.End()
	}
}

// The share of a node is that of the slots that may be granted, not of those that it declares: a node that is limited to one slot and
// has a job is full.
func TestSharesAreOfAdmittedSlots(t *testing.T) {
	t.Parallel()
	f := emptyPool()
	f.Update(status(declared("half", limitedTo(2)))) // 1 of 2
	f.Update(status(declared("all")))                // 1 of 4
	f.Update(status(declared("one", limitedTo(1))))  // 1 of 1
	f.Update(status(declared("over", limitedTo(1)))) // 3 of 1: it had them before
	f.Update(status(declared("ejected", limitedTo(0))))
	q := f.query()
	for id, inFlight := range map[core.NodeID]int{"half": 1, "all": 1, "one": 1, "over": 3, "ejected": 0} {
		n := f.Node(id)
		f.Observe(n, inFlight, n.Summary().Slots(), q.Now)
	}
	for id, want := range map[core.NodeID]float64{"half": 0.5, "all": 0.25, "one": 1, "over": 3, "ejected": 1} {
		if got := f.Utilization(f.Node(id), q.Now); got != want {
			t.Errorf("%s has a share of %v, want %v", id, got, want)
		}
	}
	for seed := range uint64(100) {
		r := selectIn(pick.New(f.Fleet, defaultPolicy(), seeded(seed)), q, f.pool)
		if diff := cmp.Diff([]core.NodeID{"all", "half"}, candidates(r)); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		r.End()
	}
}

// Of each two candidates the first has the lower share, whatever is known of them, and none is believed full.
func TestEveryPairIsOrderedByShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		states := rapid.SliceOfN(rapid.IntRange(unknown, 6), 1, 30).Draw(t, "in flight")
		average := rapid.SampledFrom([]float64{0, 0.3, 0.6, 1}).Draw(t, "average")
		f, q := poolWithOccupancy(average, states...)
		policy := defaultPolicy()
		policy.SampleK = len(states)
		r := selectIn(pick.New(f.Fleet, policy, seeded(rapid.Uint64().Draw(t, "seed"))), q, f.pool)
		defer r.End()
		var shares []float64
		for m := r.Next(); m.Node != nil; m = r.Next() {
			shares = append(shares, f.Utilization(m.Node, q.Now))
		}
		free := 0
		for _, n := range states {
			if n < 4 {
				free++
			}
		}
		if len(shares) != free {
			t.Fatalf("%d candidates, want the %d nodes that may have a free slot", len(shares), free)
		}
		for i, share := range shares {
			if share >= 1 {
				t.Fatalf("candidate %d is believed full", i)
			}
			if i%2 == 1 && share < shares[i-1] {
				t.Fatalf("candidate %d has a share of %v, the one before it %v", i, share, shares[i-1])
			}
		}
	})
}

// Of two samples the one with the lower share is first, not the least of all: that would send all jobs to the same node. With
// two of twenty sampled, the node with the lowest share is first in one of ten selections and the one with the highest in none.
func TestTwoChoicesInsteadOfLeastOfAll(t *testing.T) {
	t.Parallel()
	const nodes, rounds = 20, 20_000
	f := emptyPool()
	for i := range nodes {
		f.Update(status(declared(nodeID(i), func(n *core.Node) { n.MaxJobs = 100 })))
	}
	q := f.query()
	for i := range nodes {
		f.Observe(f.node(i), i, 100, q.Now)
	}
	picker, members := pick.New(f.Fleet, defaultPolicy(), seeded(7)), f.pool
	first := make(map[core.NodeID]int)
	for range rounds {
		r := selectIn(picker, q, members)
		first[r.Next().ID()]++
		r.End()
	}
	for i := range nodes {
		// The i-th is first when the other has a higher share.
		want := 2 * float64(nodes-1-i) / (nodes * (nodes - 1)) * rounds
		if got := float64(first[nodeID(i)]); math.Abs(got-want) > 5*math.Sqrt(want) {
			t.Errorf("the node with the %d-th lowest share was first %v times of %d, want about %.0f", i+1, got, rounds, want)
		}
	}
}

// unshuffled returns a picker that must not use its generator.
func unshuffled(t *testing.T, f *poolFixture, policy pick.Policy) *pick.Picker {
	t.Helper()
	policy.Shuffle = false
	return pick.New(f.Fleet, policy, func(int) int {
		t.Error("the generator was used although candidates are not shuffled")
		return 0
	})
}

func TestWithoutShuffleCandidatesAreInPoolOrder(t *testing.T) {
	t.Parallel()
	f := poolOf(30)
	// A removal puts the last node in the position of the removed one: the pool's order is not that of the ids.
	f.Remove(nodeID(3))
	var order []core.NodeID
	for m := range f.pool.All() {
		order = append(order, m.ID())
	}
	policy := defaultPolicy()
	picker := unshuffled(t, f, policy)
	for range 2 {
		r := selectIn(picker, f.query(), f.pool)
		if diff := cmp.Diff(order[:policy.SampleK], candidates(r)); diff != "" {
			t.Errorf("candidates (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(order, ids(r.Survey().Candidates)); diff != "" {
			t.Errorf("survey's candidates (-want +got):\n%s", diff)
		}
		r.End()
	}
}

// The order is that of the pool; of each two the one with the lower share still goes first, and full nodes are left out.
func TestWithoutShufflePairsAreOrderedByShare(t *testing.T) {
	t.Parallel()
	f := poolOf(6)
	q := f.query()
	for i, inFlight := range []int{3, 1, 4, 0, 2, 2} {
		f.Observe(f.node(i), inFlight, 4, q.Now)
	}
	r := selectFrom(t, unshuffled(t, f, defaultPolicy()), q, f.pool)
	if diff := cmp.Diff([]core.NodeID{nodeID(1), nodeID(0), nodeID(3), nodeID(4), nodeID(5)}, candidates(r)); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]core.NodeID{nodeID(0), nodeID(1), nodeID(3), nodeID(4), nodeID(5), nodeID(2)}, ids(r.Survey().Candidates)); diff != "" {
		t.Errorf("survey's candidates (-want +got):\n%s", diff)
	}
}
