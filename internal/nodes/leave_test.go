package nodes_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// wantRemoved checks that a node is not registered, and that its jobs were moved before.
func (h *harness) wantRemoved(id core.NodeID) {
	h.t.Helper()
	if _, err := store.ReadNode(h.t.Context(), h.mem, id); err == nil {
		h.t.Errorf("%s is still registered", id)
	}
	if h.fleet.Node(id) != nil {
		h.t.Errorf("%s is still in the fleet", id)
	}
	if diff := cmp.Diff([]core.NodeID{id}, h.jobs.moved); diff != "" {
		h.t.Errorf("jobs moved of (-want +got):\n%s", diff)
	}
}

// A node that leaves is removed; one that has begun another epoch, or is unknown, is left alone.
func TestLeave(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		first := h.addConnected("a", 1, "i-1", 1)
		second := h.addConnected("a", 1, "i-1", 2)
		for _, left := range []struct {
			id    core.NodeID
			epoch core.Epoch
		}{{"a", first.Epoch}, {"unknown", 1}} {
			if err := h.registry.Leave(t.Context(), left.id, left.epoch); err != nil {
				t.Fatal(err)
			}
		}
		if got := h.stored("a").Node; got.Health != core.HealthReady || len(h.jobs.moved) != 0 {
			t.Fatalf("a leave of an earlier epoch changed %+v, and moved the jobs of %v", got, h.jobs.moved)
		}
		if err := h.registry.Leave(t.Context(), "a", second.Epoch); err != nil {
			t.Fatal(err)
		}
		h.wantRemoved("a")
	})
}

// An operator removes a node in any state; the answer has its last state.
func TestRemove(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		_, err := h.registry.Remove(t.Context(), "a")
		wantCode(t, err, wire.NotFound)
		node := h.add("a", 1)
		removed, err := h.registry.Remove(t.Context(), "a")
		if err != nil || removed.Before.Node.Epoch != node.Epoch || removed.Before.Node.Drained {
			t.Errorf("removed %+v, %v", removed.Before.Node, err)
		}
		h.wantRemoved("a")
	})
}

// registeringStore registers a node again when its jobs were moved, before it is removed.
type registeringStore struct {
	nodes.Store
	register func()
}

func (s registeringStore) Remove(ctx context.Context, p store.RemoveParams) (bool, error) {
	s.register()
	return s.Store.Remove(ctx, p)
}

// A node that registers again while it is removed stays, and is not drained by the removal.
func TestRemoveOfANodeThatRegistersAgain(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 1)
		registry := h.registryOf("i-1", registeringStore{h.mem, func() { h.add("a", 2) }})
		_, err := registry.Remove(t.Context(), "a")
		wantCode(t, err, wire.StaleEpoch)
		if got := h.stored("a"); got.Node.Drained || got.Max != 2 || got.Closed {
			t.Errorf("the node is now %+v, %+v", got.Node, got.Occupancy)
		}
	})
}
