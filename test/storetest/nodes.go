package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// nodeBehaviours is the specification of registration, drain, removal and reads of nodes (Nodes, NodeReader).
var nodeBehaviours = []behaviour{
	{"a registered node is listed, however long it has been silent", testSilentNodeIsListed},
	{"nodes are read by id, in the order of the ids, without unknown ones", testNodesByID},
	{"an operation on a node that is not registered says so", testUnknownNode},
	{"every registration has a higher epoch, revision and version", testRegistrationsIncreaseEpoch},
	{"a registration keeps the listed jobs and returns the others as orphans", testRegistrationKeepsListedJobs},
	{"a returning node that does not list its jobs gets none for one attempt", testReturningNodeIsHeld},
	{"a drained node keeps its jobs, gets no new ones, and stays drained after a registration, also after its loss", testDrain},
	{"a removed node is unknown, and its leases are removed with it", testRemove},
	{"a node that was seen more recently than required is not removed", testRemoveOnlySilentNodes},
}

func testSilentNodeIsListed(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 3)
	h.Wait(2 * h.Timing.Presence)
	status, err := store.ReadNode(t.Context(), h.Store, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	want := declaredNode("node-a", 3)
	want.Epoch, want.Revision, want.Version = n.Epoch, n.Revision, n.Version
	if diff := cmp.Diff(&want, status.Node); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	if status.Age < 2*h.Timing.Presence-h.Slack {
		t.Errorf("age is %v after %v of silence", status.Age, 2*h.Timing.Presence)
	}
	all, err := h.Store.Nodes(t.Context())
	if err != nil || len(all) != 1 || all[0].Node.ID != "node-a" {
		t.Errorf("nodes: %v, %v; want node-a alone", all, err)
	}
	seen, err := h.Store.Overdue(t.Context(), 0)
	if err != nil || len(seen.Nodes) != 1 || seen.Nodes[0].Node != "node-a" || seen.Nodes[0].Age < 2*h.Timing.Presence-h.Slack {
		t.Errorf("last seen: %v, %v; want node-a alone, silent", seen, err)
	}
}

func testNodesByID(t *testing.T, h *Harness) {
	for _, id := range []core.NodeID{"node-a", "node-b", "node-c"} {
		h.register(t, id, 1)
	}
	named, err := h.Store.Nodes(t.Context(), "node-c", "node-unknown", "node-a")
	if err != nil || len(named) != 2 || named[0].Node.ID != "node-c" || named[1].Node.ID != "node-a" {
		t.Errorf("%+v, %v; want node-c and node-a", named, err)
	}
}

func testUnknownNode(t *testing.T, h *Harness) {
	if _, err := store.ReadNode(t.Context(), h.Store, "node-x"); !errors.Is(err, store.ErrNoNode) {
		t.Errorf("node: %v, want ErrNoNode", err)
	}
	if _, err := h.Store.Drain(t.Context(), store.DrainParams{Node: "node-x", Drained: true}); !errors.Is(err, store.ErrNoNode) {
		t.Errorf("drain: %v, want ErrNoNode", err)
	}
	if err := h.Store.Mark(t.Context(), store.Mark{Node: "node-x", Service: "s", For: time.Minute}); !errors.Is(err, store.ErrNoNode) {
		t.Errorf("mark: %v, want ErrNoNode", err)
	}
	result, err := h.Store.Heartbeat(t.Context(), store.HeartbeatParams{Node: "node-x"})
	if err != nil || result.Verdict != store.UnknownNode {
		t.Errorf("heartbeat: %v, %v; want UNKNOWN_NODE", result.Verdict, err)
	}
}

func testRegistrationsIncreaseEpoch(t *testing.T, h *Harness) {
	var last core.Node
	for range 5 {
		n := h.register(t, "node-a", 1)
		if n.Epoch <= last.Epoch || n.Revision <= last.Revision || n.Version <= last.Version {
			t.Fatalf("epoch %d revision %d version %d after %d %d %d", n.Epoch, n.Revision, n.Version, last.Epoch, last.Revision,
				last.Version)
		}
		last = *n
	}
}

func testRegistrationKeepsListedJobs(t *testing.T, h *Harness) {
	repeatWhileSlow(t, func(node core.NodeID) (inTime bool) {
		n := h.register(t, node, 4)
		began := time.Now()
		h.mustReserve(t, n, "job-1", "job-2", "job-3", "job-4")
		h.commit(t, leaseRef(node, "job-1"))
		h.commit(t, leaseRef(node, "job-2"))
		if err := h.Store.Revoke(t.Context(), leaseRef(node, "job-3")); err != nil {
			t.Fatal(err)
		}
		r, err := h.Store.Register(t.Context(), store.RegisterParams{
			Node: declaredNode(node, 4), Load: core.UnknownLoad,
			Activity: store.Activity{Lists: true, Active: []store.ActiveJob{{Job: "job-1", Attempt: 1}, {Job: "job-9", Attempt: 2}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(began) >= h.Timing.ReservedTTL {
			return false // no job can be on its way any more
		}
		if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-1": core.LeaseRunning}, statesByJob(r.Kept)); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-2": core.LeaseRunning}, statesByJob(r.Orphans)); diff != "" {
			t.Errorf("orphans (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-9": core.LeaseRunning}, statesByJob(r.Strays)); diff != "" {
			t.Errorf("strays (-want +got):\n%s", diff)
		}
		// The orphan keeps its slot until its job has been moved. The job of job-4 was just reserved and may be on its way, so it keeps
		// its slot. So does job-3, which is revoked, until a second list omits it.
		h.wantOccupancy(t, node, store.Occupancy{Max: 4, Reserved: 1, Running: 4})
		h.Wait(h.Timing.ReservedTTL + h.Slack)
		for seq := range uint64(2) {
			h.heartbeat(t, r.Node, heartbeat{seq: 1 + seq, active: []core.JobID{"job-1", "job-2", "job-4"}})
		}
		h.wantOccupancy(t, node, store.Occupancy{Max: 4, Reserved: 1, Running: 2})
		return true
	})
}

func testReturningNodeIsHeld(t *testing.T, h *Harness) {
	r, err := h.Store.Register(t.Context(), store.RegisterParams{Node: declaredNode("node-a", 1), Load: core.UnknownLoad, Returning: true})
	if err != nil {
		t.Fatal(err)
	}
	if v := h.reserve(t, r.Node, "job-1"); v != store.NotReady {
		t.Errorf("reserve on a node that may be running unknown jobs: %s, want NOT_READY", v)
	}
	h.heartbeat(t, r.Node, heartbeat{seq: 1, active: []core.JobID{}})
	h.mustReserve(t, r.Node, "job-1") // it has reported that it runs none

	r, err = h.Store.Register(t.Context(), store.RegisterParams{Node: declaredNode("node-b", 1), Load: core.UnknownLoad, Returning: true})
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 3; seq++ {
		h.Wait(h.Timing.Attempt/3 + h.Slack)
		h.heartbeat(t, r.Node, heartbeat{seq: seq})
	}
	h.mustReserve(t, r.Node, "job-2")
}

func testDrain(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	h.mustReserve(t, n, "job-1")
	drained, err := h.Store.Drain(t.Context(), store.DrainParams{Node: "node-a", Drained: true})
	if err != nil || !drained.Drained || drained.Version <= n.Version {
		t.Fatalf("drain: %+v, %v", drained, err)
	}
	if drained.Revision != n.Revision {
		t.Errorf("a drain changed what the node can do: revision %d, was %d", drained.Revision, n.Revision)
	}
	if v := h.reserve(t, n, "job-2"); v != store.NotReady {
		t.Errorf("reserve on a drained node: %s, want NOT_READY", v)
	}
	if !h.commit(t, leaseRef("node-a", "job-1")) {
		t.Error("a drained node lost the job it had")
	}
	if again := h.register(t, "node-a", 2); !again.Drained {
		t.Error("a registration cleared the drain")
	}
	resumed, err := h.Store.Drain(t.Context(), store.DrainParams{Node: "node-a"})
	if err != nil {
		t.Fatal(err)
	}
	h.mustReserve(t, resumed, "job-3")

	for id, want := range map[core.NodeID]bool{"node-a": false, "node-lost": true} { // registered, and not
		r, err := h.Store.Register(t.Context(), store.RegisterParams{Node: declaredNode(id, 2), Load: core.UnknownLoad, Drained: true})
		if err != nil || r.Node.Drained != want {
			t.Errorf("%s, registered as drained: %+v, %v", id, r.Node, err)
		}
	}
}

func testRemove(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	if removed, err := h.Store.Remove(t.Context(), store.RemoveParams{Node: "node-a", Epoch: n.Epoch + 1}); err != nil || removed {
		t.Errorf("removed in another epoch: %v, %v", removed, err)
	}
	if _, err := store.ReadNode(t.Context(), h.Store, "node-a"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call changes nothing
		if removed, err := h.Store.Remove(t.Context(), store.RemoveParams{Node: "node-a", Epoch: n.Epoch}); err != nil || !removed {
			t.Fatalf("removed: %v, %v", removed, err)
		}
	}
	if v := h.reserve(t, n, "job-2"); v != store.UnknownNode {
		t.Errorf("reserve on a removed node: %s", v)
	}
	n = h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-2")
}

func testRemoveOnlySilentNodes(t *testing.T, h *Harness) {
	repeatWhileSlow(t, func(node core.NodeID) (inTime bool) {
		n, began := h.register(t, node, 1), time.Now()
		h.Wait(h.Timing.Presence / 2)
		for _, c := range []struct {
			silentFor  time.Duration
			registered bool
		}{{h.Timing.Presence, true}, {h.Timing.Presence / 4, false}} {
			if _, err := h.Store.Remove(t.Context(), store.RemoveParams{Node: n.ID, SilentFor: c.silentFor}); err != nil {
				t.Fatal(err)
			}
			_, err := store.ReadNode(t.Context(), h.Store, n.ID)
			if c.registered && time.Since(began) >= c.silentFor {
				return false
			}
			if (err == nil) != c.registered {
				t.Errorf("after removal if silent for %v: %v, want registered %v", c.silentFor, err, c.registered)
			}
		}
		return true
	})
}
