package pick_test

import (
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

func TestFirstOffersAreUniform(t *testing.T) {
	t.Parallel()
	const nodes = 50
	for _, c := range []struct {
		name   string
		rounds int
		sample int
		absent int // every so-many-th is not ready; 0: none
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
			h, _ := mixed(ready)
			policy := usual()
			policy.SampleK = c.sample
			picker, q, members := pick.New(h.Fleet, policy, seeded(1)), h.query(), h.pool.Members()
			counts := make(map[core.NodeID]int)
			for range c.rounds {
				r := picker.Begin(q, members)
				counts[r.Next().ID()]++
				r.End()
			}
			checkUniform(t, "first offers", counts, c.able)
		})
	}
}

// Not only the first offer: every beginning of the order in which nodes are offered is as likely as any other
// of its length.
func TestOffersAreUniformInEveryOrder(t *testing.T) {
	t.Parallel()
	const nodes, rounds = 5, 60_000
	h := hallOf(nodes)
	picker, q, members := pick.New(h.Fleet, usual(), seeded(2)), h.query(), h.pool.Members()
	prefixes := make([]map[string]int, nodes+1)
	for i := range prefixes {
		prefixes[i] = make(map[string]int)
	}
	for range rounds {
		r := picker.Begin(q, members)
		prefix := ""
		for length, id := range offers(r) {
			prefix += string(id)
			prefixes[length+1][prefix]++
		}
		r.End()
	}
	cells := 1
	for length := 1; length <= nodes; length++ {
		cells *= nodes - length + 1
		checkUniform(t, fmt.Sprintf("the first %d offers", length), prefixes[length], cells)
	}
}

// A sample is much smaller than a large pool, so a place of the shuffle may be displaced more than once.
func TestOrderedPairsOfASampleAreUniform(t *testing.T) {
	t.Parallel()
	const nodes, rounds = 12, 40_000
	h := hallOf(nodes)
	policy := usual()
	policy.SampleK = 7
	picker, q, members := pick.New(h.Fleet, policy, seeded(3)), h.query(), h.pool.Members()
	type pair struct{ a, b core.NodeID }
	early, late := make(map[pair]int), make(map[pair]int)
	for range rounds {
		r := picker.Begin(q, members)
		all := offers(r)
		r.End()
		early[pair{all[0], all[1]}]++
		late[pair{all[5], all[6]}]++
	}
	checkUniform(t, "the first and the second", early, nodes*(nodes-1))
	checkUniform(t, "the sixth and the last", late, nodes*(nodes-1))
}

// The wider search has an order of its own, which must not favour anybody either.
func TestSurveysAreUniformInEveryOrder(t *testing.T) {
	t.Parallel()
	const nodes, rounds = 4, 24_000
	for _, c := range []struct {
		name  string
		arise func(*hall)
	}{
		{"with room", func(*hall) {}},
		{"believed full", func(h *hall) {
			for i := range nodes {
				h.Observe(h.node(i), 4, 4, h.Now())
			}
		}},
		{"set aside", func(h *hall) {
			for i := range nodes {
				h.node(i).RecordMissedACK(h.Now())
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := hallOf(nodes)
			c.arise(h)
			picker, q, members := pick.New(h.Fleet, usual(), seeded(4)), h.query(), h.pool.Members()
			counts := make(map[string]int)
			for range rounds {
				r := picker.Begin(q, members)
				order := ""
				for _, m := range r.Survey().Rest {
					order += string(m.ID())
				}
				r.End()
				counts[order]++
			}
			checkUniform(t, "orders", counts, 24)
		})
	}
}
