package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// keepAliveBehaviours is the specification of Nodes.KeepAlive.
var keepAliveBehaviours = []behaviour{
	{"an answer to a ping keeps a node present, with its leases and the work that is not ours", testKeepAlive},
	{"an answer to a ping changes nothing but the presence", testKeepAliveChangesNothingElse},
	{"an answer to a ping of another epoch, or of an unknown node, changes nothing", testKeepAliveOfAnotherEpoch},
	{"a node that only answers pings keeps no slot longer than it can be working", testKeepAliveWithoutLists},
}

// keepAlive records an answer to a ping, which must be accepted.
func (h *Harness) keepAlive(t *testing.T, n *core.Node, lists bool) {
	t.Helper()
	if v, err := h.Store.KeepAlive(t.Context(), store.KeepAliveParams{Node: n.ID, Epoch: n.Epoch, Lists: lists}); err != nil ||
		v != store.OK {
		t.Fatalf("keep alive %s: %s, %v", n.ID, v, err)
	}
}

func testKeepAlive(t *testing.T, h *Harness) {
	repeatWhileSlow(t, func(node core.NodeID) (inTime bool) {
		n := h.register(t, node, 6)
		h.mustReserve(t, n, "running", "revoked", "reserved")
		for _, job := range []core.JobID{"running", "revoked"} {
			h.commit(t, leaseRef(node, job))
		}
		h.revoke(t, node, "revoked")
		h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{"running", "revoked", "stray"}, count: new(4)})
		for range 4 {
			began := time.Now()
			h.Wait(h.Timing.Presence / 2)
			h.keepAlive(t, n, true)
			if time.Since(began) > h.Timing.Presence*9/10 {
				return false
			}
		}
		h.wantOccupancy(t, node, store.Occupancy{Max: 6, Reserved: 1, Running: 3, Foreign: 1})
		if s, err := store.ReadNode(t.Context(), h.Store, node); err != nil || s.Closed || s.Age > h.Timing.Presence/2 {
			t.Errorf("the node is %+v, %v", s, err)
		}
		h.mustReserve(t, n, "last")
		if v := h.reserve(t, n, "one too many"); v != store.Full {
			t.Errorf("reserve: %s, want FULL", v)
		}
		if result := h.heartbeat(t, n, heartbeat{seq: 2, active: []core.JobID{}, count: new(0)}); len(result.Orphans) > 0 {
			t.Errorf("orphans at the first omission: %v", result.Orphans)
		}
		return true
	})
}

func testKeepAliveChangesNothingElse(t *testing.T, h *Harness) {
	r, err := h.Store.Register(t.Context(),
		store.RegisterParams{Node: declaredNode("node-a", 4), Load: core.Load{CPU: 0.5, GPU: -1, Memory: 0.25}, Returning: true})
	if err != nil {
		t.Fatal(err)
	}
	n := r.Node
	h.heartbeat(t, n, heartbeat{seq: 5, count: new(2)})
	before, err := store.ReadNode(t.Context(), h.Store, n.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.keepAlive(t, n, false)
	after, err := store.ReadNode(t.Context(), h.Store, n.ID)
	if diff := cmp.Diff(before.Node, after.Node); diff != "" || err != nil || after.Load != before.Load ||
		after.Occupancy != before.Occupancy || !after.Held {
		t.Errorf("(-before +after):\n%s%v, %+v %+v, was %+v %+v", diff, err, after.Load, after.Occupancy, before.Load, before.Occupancy)
	}
	if result, err := h.Store.Heartbeat(t.Context(), h.heartbeatParams(n, heartbeat{seq: 4})); err != nil ||
		result.Verdict != store.TooLate {
		t.Errorf("a heartbeat with an earlier number: %s, %v", result.Verdict, err)
	}
}

func testKeepAliveOfAnotherEpoch(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	for id, epochs := range map[core.NodeID]map[core.Epoch]store.Verdict{
		"node-a": {n.Epoch - 1: store.StaleEpoch, n.Epoch + 1: store.UnknownNode},
		"node-b": {n.Epoch: store.UnknownNode},
	} {
		for epoch, want := range epochs {
			if v, err := h.Store.KeepAlive(t.Context(), store.KeepAliveParams{Node: id, Epoch: epoch}); err != nil || v != want {
				t.Errorf("%s in epoch %d of %d: %s, %v", id, epoch, n.Epoch, v, err)
			}
		}
	}
	if _, err := h.Store.KeepAlive(expiredContext(t), store.KeepAliveParams{Node: n.ID, Epoch: n.Epoch}); err == nil {
		t.Error("after its deadline: no error")
	}
}

func testKeepAliveWithoutLists(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	h.commit(t, leaseRef("node-a", "job-1"))
	longest := h.Timing.ReservedTTL + h.Timing.Attempt
	for waited := time.Duration(0); waited < longest+h.Timing.Presence; waited += h.Timing.Presence / 2 {
		if free := h.occupancy(t, "node-a").Free(); free && waited < longest-h.Timing.Presence {
			t.Errorf("the slot is free after %v", waited)
		}
		h.Wait(h.Timing.Presence / 2)
		h.keepAlive(t, n, false)
	}
	h.Wait(h.Slack)
	h.mustReserve(t, n, "job-2")
}
