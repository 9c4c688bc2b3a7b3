package nodes_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestDisconnectedNodeIsNotGrantableUntilReconnected(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		node := h.addConnected("a", 1, "i-1", 1)
		want := func(disconnected bool) {
			t.Helper()
			stored, known := h.stored("a").Node, h.fleet.Node("a").Declared()
			if stored.Disconnected != disconnected || known.Disconnected != disconnected || known.AcceptsJobs() == disconnected {
				t.Errorf("disconnected in the store %v, in the fleet %v; want %v", stored.Disconnected, known.Disconnected, disconnected)
			}
		}
		if err := h.registry.Disconnected(t.Context(), "a", node.Epoch, 1); err != nil {
			t.Fatal(err)
		}
		want(true)
		if err := h.registry.Reconnected(t.Context(), "a", node.Epoch, 2); err != nil {
			t.Fatal(err)
		}
		want(false)
		// The loss of the first connection arrives late.
		if err := h.registry.Disconnected(t.Context(), "a", node.Epoch, 1); err != nil {
			t.Fatal(err)
		}
		want(false)
		if err := h.registry.Disconnected(t.Context(), "a", node.Epoch, 2); err != nil {
			t.Fatal(err)
		}
		want(true)
		h.addConnected("a", 1, "i-1", 3)
		want(false)
	})
}

func TestReconnectInAnEarlierEpochIsRefused(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		wantCode(t, h.registry.Reconnected(t.Context(), "a", 1, 1), wire.StaleEpoch) // unknown
		first := h.addConnected("a", 1, "i-1", 1)
		h.addConnected("a", 1, "i-1", 2)
		wantCode(t, h.registry.Reconnected(t.Context(), "a", first.Epoch, 3), wire.StaleEpoch)
		if err := h.registry.Disconnected(t.Context(), "unknown", 1, 1); err != nil {
			t.Errorf("the lost connection of an unknown node: %v", err)
		}
	})
}

// A node that reconnects is no longer set aside: it missed ACKs because its connection was dead.
func TestReconnectClearsSetAside(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		node := h.addConnected("a", 1, "i-1", 1)
		h.fleet.Node("a").RecordMissedACK(h.fleet.Now())
		if h.registry.SetAsideFor("a") == 0 {
			t.Fatal("the node is not set aside after a missed ACK")
		}
		if err := h.registry.Reconnected(t.Context(), "a", node.Epoch, 2); err != nil {
			t.Fatal(err)
		}
		if d := h.registry.SetAsideFor("a"); d != 0 {
			t.Errorf("set aside for %v after it reconnected", d)
		}
		if d := h.registry.SetAsideFor("unknown"); d != 0 {
			t.Errorf("an unknown node is set aside for %v", d)
		}
	})
}

// A lost node is offline for all instances and its jobs are moved. That is not a heartbeat of the node.
func TestMarkLostMovesJobs(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		node := h.addConnected("a", 1, "i-1", 1)
		time.Sleep(3 * time.Second)
		if err := h.registry.MarkLost(t.Context(), "a", node.Epoch); err != nil {
			t.Fatal(err)
		}
		s := h.stored("a")
		if s.Node.Health != core.HealthOffline || s.Age != 3*time.Second {
			t.Errorf("health %v, last seen %v ago; want offline, 3s", s.Node.Health, s.Age)
		}
		if h.fleet.Node("a").Declared().Health != core.HealthOffline {
			t.Error("the node is not offline in the fleet")
		}
		if diff := cmp.Diff([]core.NodeID{"a"}, h.jobs.moved); diff != "" {
			t.Errorf("jobs moved of (-want +got):\n%s", diff)
		}
		h.jobs.moveErr = errors.New("the store is down")
		if err := h.registry.MarkLost(t.Context(), "a", node.Epoch); !errors.Is(err, h.jobs.moveErr) {
			t.Errorf("error %v, want that of MoveJobsOfNode", err)
		}
	})
}

// A node that has registered again, or is unknown, is left alone.
func TestMarkLostOfAnotherEpochDoesNothing(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		first := h.addConnected("a", 1, "i-1", 1)
		h.addConnected("a", 1, "i-2", 2)
		for _, id := range []core.NodeID{"a", "unknown"} {
			if err := h.registry.MarkLost(t.Context(), id, first.Epoch); err != nil {
				t.Error(err)
			}
		}
		if len(h.jobs.moved) != 0 || h.stored("a").Node.Health != core.HealthReady {
			t.Errorf("moved %v, health %v", h.jobs.moved, h.stored("a").Node.Health)
		}
	})
}

// The node has changed since this instance read it: the newer declaration is kept, but for its health.
func TestMarkLostOnAStaleFleet(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		node := h.addConnected("a", 1, "i-1", 1)
		changed := *node
		changed.Zone = "z1"
		if _, err := h.mem.Heartbeat(t.Context(),
			store.HeartbeatParams{Node: "a", Known: node, Declared: &changed, Load: core.UnknownLoad}); err != nil {
			t.Fatal(err)
		}
		if err := h.registry.MarkLost(t.Context(), "a", node.Epoch); err != nil {
			t.Fatal(err)
		}
		if now := h.stored("a").Node; now.Health != core.HealthOffline || now.Zone != "z1" {
			t.Errorf("health %v, zone %q", now.Health, now.Zone)
		}
	})
}
