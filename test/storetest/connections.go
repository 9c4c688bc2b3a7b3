package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// connectionBehaviours is the specification of Nodes.Connect.
var connectionBehaviours = []behaviour{
	{"a disconnected node keeps its jobs and gets no new ones until it is connected again", testLostConnection},
	{"a node whose connection is silent gets no new jobs until something comes", testSilentConnection},
	{"a report about an earlier connection changes nothing", testEarlierConnection},
	{"a report about a connection of an earlier epoch changes nothing", testConnectionOfEarlierEpoch},
	{"heartbeats and drains do not change whether a node is connected", testDisconnectedThroughChanges},
	{"a lost connection does not change when the node was last seen", testDisconnectIsNoHeartbeat},
	{"watchers get a change when a connection is lost or established", testConnectionChangesArePublished},
	{"a connection of a node that is not registered is an error", testConnectUnknownNode},
}

func testLostConnection(t *testing.T, h *Harness) {
	n := h.registerOver(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	lost := h.connect(t, n, 1, true)
	if !lost.Disconnected || lost.Version != n.Version+1 || lost.Revision != n.Revision {
		t.Errorf("lost: %+v, want it disconnected, with the next version and the same revision", lost)
	}
	if v := h.reserve(t, n, "job-2"); v != store.NotReady {
		t.Errorf("reserve on a disconnected node: %s, want NOT_READY", v)
	}
	if !h.commit(t, leaseRef("node-a", "job-1")) {
		t.Error("a disconnected node lost the job it had")
	}
	status, err := store.ReadNode(t.Context(), h.Store, "node-a")
	if err != nil || !status.Node.Disconnected || !status.Closed || status.Running != 1 {
		t.Errorf("status %+v of %+v, %v; want it disconnected, closed, with its job", status.Occupancy, status.Node, err)
	}
	connected := h.connect(t, n, 2, false)
	if connected.Disconnected || connected.Version != lost.Version+1 {
		t.Errorf("connected again: %+v, want the next version", connected)
	}
	h.mustReserve(t, n, "job-2")
}

func testSilentConnection(t *testing.T, h *Harness) {
	n := h.registerOver(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	report := store.ConnectParams{Node: n.ID, Epoch: n.Epoch, Connection: 1, Lost: true, SilentFor: 2 * time.Second}
	silent := h.connectWith(t, report)
	status, err := store.ReadNode(t.Context(), h.Store, n.ID)
	if err != nil {
		t.Fatal(err)
	}
	since := time.UnixMilli(silent.SilentSince)
	if late := status.At.Sub(since) - report.SilentFor; !silent.Disconnected || late < -time.Millisecond || late > h.Slack+time.Second {
		t.Errorf("silent since %v, which is %v later than it should be: %+v", since, late, silent)
	}
	if v := h.reserve(t, n, "job-2"); v != store.NotReady || !status.Closed || status.InFlight() != 1 {
		t.Errorf("reserve on a silent node: %s, its status: %+v", v, status)
	}
	h.Wait(2 * time.Millisecond)
	for what, now := range map[string]*core.Node{
		"reported again":    h.connectWith(t, report),
		"after a heartbeat": h.heartbeat(t, silent, heartbeat{seq: 1, health: core.HealthReady}).Node,
	} {
		if now.SilentSince != silent.SilentSince || now.Version != silent.Version {
			t.Errorf("%s: %+v, want it as before", what, now)
		}
	}
	if lost := h.connect(t, n, 1, true); !lost.Disconnected || lost.SilentSince != 0 || lost.Version != silent.Version+1 {
		t.Errorf("then its connection is lost: %+v", lost)
	}
	h.connectWith(t, report)
	if heard := h.connect(t, n, 1, false); heard.Disconnected || heard.SilentSince != 0 {
		t.Errorf("then something comes: %+v", heard)
	}
	h.mustReserve(t, n, "job-2")
}

func testEarlierConnection(t *testing.T, h *Harness) {
	n := h.registerOver(t, "node-a", 1)
	h.connect(t, n, 2, false)
	if now := h.connect(t, n, 1, true); now.Disconnected || now.Version != n.Version {
		t.Errorf("the loss of an earlier connection counts: %+v", now)
	}
	h.connect(t, n, 2, true)
	if now := h.connect(t, n, 1, false); !now.Disconnected {
		t.Errorf("an earlier connection takes back the loss of a later: %+v", now)
	}
	if now := h.connect(t, n, 0, false); now.Disconnected {
		t.Errorf("a node that needs no connection is disconnected: %+v", now)
	}
}

func testConnectionOfEarlierEpoch(t *testing.T, h *Harness) {
	old := h.registerOver(t, "node-a", 7)
	h.connect(t, old, 7, true)
	n := h.registerOver(t, "node-a", 1)
	if n.Disconnected {
		t.Error("a registration does not connect the node")
	}
	h.mustReserve(t, n, "job-1")
	if now := h.connect(t, old, 7, true); now.Disconnected || now.Epoch != n.Epoch {
		t.Errorf("the loss of a connection of an earlier epoch counts: %+v", now)
	}
	h.connect(t, n, 1, true)
	if now := h.connect(t, old, 8, false); !now.Disconnected {
		t.Errorf("a connection of an earlier epoch counts: %+v", now)
	}
}

func testDisconnectedThroughChanges(t *testing.T, h *Harness) {
	n := h.registerOver(t, "node-a", 1)
	degraded := h.heartbeat(t, n, heartbeat{seq: 1, health: core.HealthDegraded}).Node
	lost := h.connect(t, n, 1, true)
	// A change that was computed before the loss is ignored, one after it keeps the node disconnected.
	h.heartbeat(t, degraded, heartbeat{seq: 2, health: core.HealthReady})
	ready := h.heartbeat(t, lost, heartbeat{seq: 3, health: core.HealthReady}).Node
	if !ready.Disconnected || ready.Health != core.HealthReady {
		t.Errorf("after a heartbeat: %+v, want it ready and disconnected", ready)
	}
	for _, drained := range []bool{true, false} {
		now, err := h.Store.Drain(t.Context(), store.DrainParams{Node: n.ID, Drained: drained})
		if err != nil || !now.Disconnected || now.Drained != drained {
			t.Errorf("after drain %v: %+v, %v; want it still disconnected", drained, now, err)
		}
	}
	if v := h.reserve(t, ready, "job-1"); v != store.NotReady {
		t.Errorf("reserve: %s, want NOT_READY", v)
	}
	if now := h.connect(t, n, 2, false); now.Disconnected {
		t.Errorf("connected again: %+v", now)
	}
	h.mustReserve(t, ready, "job-1")
}

func testDisconnectIsNoHeartbeat(t *testing.T, h *Harness) {
	n := h.registerOver(t, "node-a", 1)
	h.Wait(h.Timing.Presence / 2)
	h.connect(t, n, 1, true)
	status, err := store.ReadNode(t.Context(), h.Store, n.ID)
	if err != nil || status.Age < h.Timing.Presence/2-h.Slack {
		t.Errorf("last seen %v ago, %v; the loss of a connection is no heartbeat", status.Age, err)
	}
}

func testConnectionChangesArePublished(t *testing.T, h *Harness) {
	n := h.registerOver(t, "node-a", 1)
	changes := h.watch(t)
	for i, lost := range []bool{true, false} {
		want := h.connect(t, n, uint64(i+1), lost)
		for c := range changes {
			if c.Now.Node.Version == want.Version {
				if c.Now.Node.Disconnected != lost {
					t.Errorf("change %+v, want disconnected %v", c.Now.Node, lost)
				}
				break
			}
		}
	}
}

func testConnectUnknownNode(t *testing.T, h *Harness) {
	_, err := h.Store.Connect(t.Context(), store.ConnectParams{Node: "node-x", Epoch: 1, Connection: 1, Lost: true})
	if !errors.Is(err, store.ErrNoNode) {
		t.Errorf("connect: %v, want ErrNoNode", err)
	}
}

// connect reports that a connection was established or lost, and returns the node as it is then.
func (h *Harness) connect(t *testing.T, n *core.Node, connection uint64, lost bool) *core.Node {
	t.Helper()
	return h.connectWith(t, store.ConnectParams{Node: n.ID, Epoch: n.Epoch, Connection: connection, Lost: lost})
}

func (h *Harness) connectWith(t *testing.T, p store.ConnectParams) *core.Node {
	t.Helper()
	now, err := h.Store.Connect(t.Context(), p)
	if err != nil {
		t.Fatalf("connect %s: %v", p.Node, err)
	}
	return now
}

// registerOver registers a node over a connection.
func (h *Harness) registerOver(t *testing.T, id core.NodeID, connection uint64) *core.Node {
	t.Helper()
	r, err := h.Store.Register(t.Context(), store.RegisterParams{Node: declaredNode(id, 4), Load: core.UnknownLoad, Connection: connection})
	if err != nil {
		t.Fatalf("register %s: %v", id, err)
	}
	return r.Node
}
