package nodes_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestDrainOfALostNode: a node that the store has lost is drained again when it registers, unless it was resumed, removed or evicted
// before.
func TestDrainOfALostNode(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		cfg := nodes.Config{Instance: "i-1", Retention: retention,
			Revocations: revocation.NewFollower(h.mem, slog.New(slog.DiscardHandler))}
		h.registry = nodes.New(cfg, h.store, h.fleet, h.jobs.parts(), h.metrics, slog.New(slog.DiscardHandler))
		drain := func(id core.NodeID, drained bool) {
			t.Helper()
			if _, err := h.registry.Drain(t.Context(), id, drained); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []core.NodeID{"lost", "resumed", "removed", "evicted"} {
			h.add(id, 1)
			drain(id, true)
		}
		drain("resumed", false)
		if _, err := h.registry.Remove(t.Context(), "removed"); err != nil {
			t.Fatal(err)
		}
		for _, id := range []core.NodeID{"lost", "resumed"} {
			if removed, err := h.mem.Remove(t.Context(), store.RemoveParams{Node: id}); err != nil || !removed {
				t.Fatal(removed, err)
			}
		}
		evicted, stop := h.evictSilent()
		time.Sleep(2 * retention)
		stop()
		<-evicted
		for id, want := range map[core.NodeID]bool{"lost": true, "resumed": false, "removed": false, "evicted": false} {
			if n := h.add(id, 1); n.Drained != want {
				t.Errorf("%s: drained %v after it registered again", id, n.Drained)
			}
		}
		drain("lost", false)
		if h.stored("lost").Node.Drained {
			t.Error("its drain cannot be ended")
		}
	})
}

// TestResumeOfANodeThatIsGone: the memory of the drain of a node that is not registered can be ended. The name of a node that was not
// drained leaves no entry.
func TestResumeOfANodeThatIsGone(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		list := revocation.NewFollower(h.mem, slog.New(slog.DiscardHandler))
		h.registry = nodes.New(nodes.Config{Instance: "i-1", Revocations: list}, h.store, h.fleet, h.jobs.parts(), h.metrics,
			slog.New(slog.DiscardHandler))
		h.add("a", 1)
		if _, err := h.registry.Drain(t.Context(), "a", true); err != nil {
			t.Fatal(err)
		}
		if removed, err := h.mem.Remove(t.Context(), store.RemoveParams{Node: "a"}); err != nil || !removed {
			t.Fatal(removed, err)
		}
		for _, id := range []core.NodeID{"a", "b"} {
			_, err := h.registry.Drain(t.Context(), id, false)
			wantCode(t, err, wire.NotFound)
		}
		page, err := h.mem.ReadRevocations(t.Context(), time.Time{}, nil)
		if err != nil || page.Count != 1 || h.registry.RemembersDrain("a") {
			t.Errorf("%v, %d entries, still drained %v", err, page.Count, h.registry.RemembersDrain("a"))
		}
		if n := h.add("a", 1); n.Drained {
			t.Error("it is drained when it comes back")
		}
	})
}

// A drain of which only the node's record has been written is an error, so that it is repeated.
func TestDrainThatIsNotRemembered(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		cfg := nodes.Config{Instance: "i-1", Revocations: forgetful{}}
		h.registry = nodes.New(cfg, h.store, h.fleet, h.jobs.parts(), h.metrics, slog.New(slog.DiscardHandler))
		h.add("a", 1)
		_, err := h.registry.Drain(t.Context(), "a", true)
		wantCode(t, err, wire.SchedulerDependencyDown)
	})
}

// forgetful has no revocations and remembers no drains.
type forgetful struct{ nodes.Revocations }

func (forgetful) NodeNameRevoked(core.NodeID) bool                     { return false }
func (forgetful) NodeDrained(core.NodeID) bool                         { return false }
func (forgetful) RecordDrain(context.Context, core.NodeID, bool) error { return store.ErrDown }
