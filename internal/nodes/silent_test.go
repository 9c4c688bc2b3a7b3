package nodes_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Of the nodes that have fallen silent, only those that have jobs are handled, and a node whose heartbeat has arrived
// meanwhile is left alone.
func TestMoveJobsOfSilentNodes(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		for _, id := range []core.NodeID{"idle", "busy", "back"} {
			h.add(id, 1)
		}
		h.reserve("busy", "job-1")
		h.reserve("back", "job-2")
		time.Sleep(timing.Presence + time.Second)
		h.heartbeat(nodes.Heartbeat{Node: "back"})
		if unhandled := h.registry.MoveJobsOfSilent(t.Context(), []core.NodeID{"idle", "busy", "back"}); len(unhandled) != 0 {
			t.Errorf("unhandled %v", unhandled)
		}
		if diff := cmp.Diff([]core.NodeID{"busy"}, h.jobs.moved); diff != "" {
			t.Errorf("jobs moved of (-want +got):\n%s", diff)
		}
		// The lock was released: the same instance or another may handle it again.
		if unhandled := h.registryOf("i-2", h.mem).MoveJobsOfSilent(t.Context(), []core.NodeID{"busy"}); len(unhandled) != 0 {
			t.Errorf("unhandled by another instance: %v", unhandled)
		}
	})
}

// While another instance moves the jobs of a node, this one tries again later; after an error it does too.
func TestMoveJobsOfSilentNodeIsRetried(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 1)
		h.reserve("a", "job-1")
		time.Sleep(timing.Presence + time.Second)
		lock, err := h.mem.Lock(t.Context(), store.LockParams{Name: "silent:a", Holder: "i-2", TTL: 5 * time.Second})
		if err != nil || !lock.Held {
			t.Fatal(lock, err)
		}
		if unhandled := h.registry.MoveJobsOfSilent(t.Context(), []core.NodeID{"a"}); !errors.Is(unhandled["a"],
			fleet.ErrHandledElsewhere) || len(h.jobs.moved) != 0 {
			t.Errorf("unhandled %v, moved %v; want it left to the other instance", unhandled, h.jobs.moved)
		}
		time.Sleep(6 * time.Second) // the other instance has died
		h.jobs.moveErr = errors.New("no node")
		if unhandled := h.registry.MoveJobsOfSilent(t.Context(), []core.NodeID{"a"}); !errors.Is(unhandled["a"], h.jobs.moveErr) {
			t.Errorf("unhandled %v, want the error of MoveJobsOfNode", unhandled)
		}
		h.jobs.moveErr = nil
		if unhandled := h.registry.MoveJobsOfSilent(t.Context(), []core.NodeID{"a"}); len(unhandled) != 0 || len(h.jobs.moved) != 2 {
			t.Errorf("unhandled %v, moved %v", unhandled, h.jobs.moved)
		}
		h.store.down.Store(true)
		if unhandled := h.registry.MoveJobsOfSilent(t.Context(), []core.NodeID{"a", "b"}); len(unhandled) != 2 {
			t.Errorf("unhandled %v while the store is down, want both", unhandled)
		}
	})
}

// evictSilent runs EvictSilent until stop is called.
func (h *harness) evictSilent() (ended <-chan struct{}, stop func()) {
	ctx, stop := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.registry.EvictSilent(ctx)
	}()
	return done, stop
}

// Nodes are evicted after the retention time of silence, also after a failure of the store.
func TestSilentNodesAreEvicted(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("silent", 1)
		h.add("alive", 1)
		ended, stop := h.evictSilent()
		advance := func(d time.Duration) {
			for range d / (10 * time.Second) {
				time.Sleep(10 * time.Second)
				h.heartbeat(nodes.Heartbeat{Node: "alive"})
			}
			synctest.Wait()
		}
		advance(retention - time.Minute)
		h.stored("silent") // fails the test if it was evicted
		h.store.down.Store(true)
		time.Sleep(3 * time.Minute)
		h.store.down.Store(false)
		h.stored("silent")
		advance(2 * time.Minute)
		if _, err := store.ReadNode(t.Context(), h.mem, "silent"); !errors.Is(err, store.ErrNoNode) {
			t.Errorf("a node that is silent for longer than the retention time: %v", err)
		}
		h.stored("alive")
		stop()
		<-ended
	})
}

// TestLossIsRecordedOnce: a node that falls silent is an event, but not one that was marked as lost before, nor for an instance that starts
// later.
func TestLossIsRecordedOnce(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("silent", 1)
		h.add("marked", 1)
		if err := h.registry.MarkLost(t.Context(), "marked", h.fleet.Node("marked").Epoch()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(timing.Presence + time.Second)
		h.fleet.ExpireSilent()
		ids := []core.NodeID{"silent", "marked"}
		h.lossesOf(h.fleet, ids)
		time.Sleep(time.Hour)
		started := fleet.New(timing.Presence) // of an instance that starts now
		for _, id := range ids {
			started.Update(h.stored(id))
		}
		if diff := cmp.Diff([]core.NodeID{"silent"}, h.lossesOf(started, ids)); diff != "" {
			t.Errorf("recorded losses (-want +got):\n%s", diff)
		}
	})
}

// lossesOf lets an instance with a view handle silent nodes, and returns those whose loss is recorded by now.
func (h *harness) lossesOf(view *fleet.Fleet, ids []core.NodeID) (lost []core.NodeID) {
	h.t.Helper()
	recorder := journal.NewEvents("i-2", h.metrics.EventsDropped, slog.New(slog.DiscardHandler))
	cfg := nodes.Config{Instance: "i-2", Presence: timing.Presence, Retention: retention, Events: recorder}
	r := nodes.New(cfg, h.mem, view, h.jobs.parts(), h.metrics, slog.New(slog.DiscardHandler))
	if unhandled := r.MoveJobsOfSilent(h.t.Context(), ids); len(unhandled) != 0 {
		h.t.Errorf("unhandled %v", unhandled)
	}
	ended, cancel := context.WithCancel(h.t.Context())
	cancel()
	recorder.Run(ended, h.mem) // it writes what is queued
	page, err := journal.EventLog(h.mem).Read(h.t.Context(), store.ReadLogParams{Limit: 100})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range page.Entries {
		if e.Instance == "i-2" && e.Kind == store.EventNodeLost {
			lost = append(lost, e.Node)
		}
	}
	return lost
}
