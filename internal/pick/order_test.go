package pick_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// unshuffled is a picker that must not draw at all.
func unshuffled(t *testing.T, h *hall, policy pick.Policy) *pick.Picker {
	t.Helper()
	policy.Shuffle = false
	return pick.New(h.Fleet, policy, func(int) int {
		t.Error("a number was drawn although candidates are not shuffled")
		return 0
	})
}

func TestWithoutShuffleThePoolIsWalkedInItsOrder(t *testing.T) {
	t.Parallel()
	h := hallOf(30)
	// A removal puts the last in the place of the removed: the pool's order is its own, not that of names.
	h.Remove(nth(3))
	var order []core.NodeID
	for m := range h.pool.Members().All() {
		order = append(order, m.ID())
	}
	policy := usual()
	picker := unshuffled(t, h, policy)
	for range 2 {
		r := picker.Select(h.query(), h.pool.Members())
		if diff := cmp.Diff(order[:policy.SampleK], offers(r)); diff != "" {
			t.Errorf("offers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(order, ids(r.Survey().Candidates)); diff != "" {
			t.Errorf("rest (-want +got):\n%s", diff)
		}
		r.End()
	}
}

// The order is that of the draws; of each two the less taken still goes first, and full ones are left out.
func TestWithoutShuffleTwoChoicesStillHold(t *testing.T) {
	t.Parallel()
	h := hallOf(6)
	q := h.query()
	for i, inFlight := range []int{3, 1, 4, 0, 2, 2} {
		h.Observe(h.node(i), inFlight, 4, q.Now)
	}
	r := begin(t, unshuffled(t, h, usual()), q, h.pool.Members())
	if diff := cmp.Diff([]core.NodeID{nth(1), nth(0), nth(3), nth(4), nth(5)}, offers(r)); diff != "" {
		t.Errorf("offers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]core.NodeID{nth(0), nth(1), nth(3), nth(4), nth(5), nth(2)}, ids(r.Survey().Candidates)); diff != "" {
		t.Errorf("rest (-want +got):\n%s", diff)
	}
}
