package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// overdueBehaviours is the specification of NodeReader.Overdue and NodeReader.Digests.
var overdueBehaviours = []behaviour{
	{"without nodes none is overdue", testNothingOverdue},
	{"nodes that were not seen for the time are overdue, and the others are counted", testOverdueNodes},
	{"a digest has the version of its node, its load and its slots", testDigests},
	{"a removed node has no digest", testNoDigestOfARemovedNode},
	{"that a silent node sends heartbeats again is a change", testWatchReturns},
}

// eventually repeats a check that depends on writes in batches until it returns an empty text.
func eventually(t *testing.T, h *Harness, check func() string) {
	t.Helper()
	problem := check()
	for range 50 {
		if problem == "" {
			return
		}
		h.Wait(h.Slack)
		problem = check()
	}
	t.Error(problem)
}

// overdueNodes reads which nodes are overdue.
func overdueNodes(t *testing.T, h *Harness, after time.Duration) store.Overdue {
	t.Helper()
	got, err := h.Store.Overdue(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func testNothingOverdue(t *testing.T, h *Harness) {
	if diff := cmp.Diff(store.Overdue{}, overdueNodes(t, h, 0)); diff != "" {
		t.Errorf("overdue (-want +got):\n%s", diff)
	}
	if all, err := h.Store.Digests(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("digests: %v, %v; want none", all, err)
	}
}

func testOverdueNodes(t *testing.T, h *Harness) {
	for _, id := range []core.NodeID{"node-a", "node-b", "node-c"} {
		h.register(t, id, 1)
	}
	h.Wait(h.Timing.Presence)
	late := h.register(t, "node-d", 1)
	h.heartbeat(t, declaredNow(t, h, "node-b"), heartbeat{seq: 1})
	eventually(t, h, func() string {
		got := overdueNodes(t, h, h.Timing.Presence)
		ids := make(map[core.NodeID]bool)
		for _, s := range got.Nodes {
			ids[s.Node] = true
			if s.Age < h.Timing.Presence {
				return "an overdue node was seen " + s.Age.String() + " ago"
			}
		}
		if got.Registered != 4 || got.Oldest >= h.Timing.Presence {
			return "some of four nodes are not counted, or one is too old for the others: " + got.Oldest.String()
		}
		return cmp.Diff(map[core.NodeID]bool{"node-a": true, "node-c": true}, ids)
	})
	h.Wait(h.Timing.Presence + h.Slack)
	if got := overdueNodes(t, h, h.Timing.Presence); len(got.Nodes) != 4 || got.Registered != 4 || got.Oldest != 0 {
		t.Errorf("%+v, want four nodes that are overdue", got)
	}
	if _, err := h.Store.Remove(t.Context(), store.RemoveParams{Node: late.ID}); err != nil {
		t.Fatal(err)
	}
	if got := overdueNodes(t, h, h.Timing.Presence); len(got.Nodes) != 3 || got.Registered != 3 {
		t.Errorf("%+v, want three nodes after one was removed", got)
	}
}

// declaredNow reads a node.
func declaredNow(t *testing.T, h *Harness, id core.NodeID) *core.Node {
	t.Helper()
	status, err := store.ReadNode(t.Context(), h.Store, id)
	if err != nil {
		t.Fatal(err)
	}
	return status.Node
}

func testDigests(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 3)
	other := h.register(t, "node-b", 1)
	h.mustReserve(t, n, "job-1")
	p := h.heartbeatParams(n, heartbeat{seq: 1, health: core.HealthDegraded})
	p.Load = core.Load{CPU: 0.5, GPU: -1, Memory: 0.25}
	result, err := h.Store.Heartbeat(t.Context(), p)
	if err != nil || result.Verdict != store.OK {
		t.Fatalf("%v, %v", result.Verdict, err)
	}
	want := map[core.NodeID]store.NodeDigest{
		"node-a": {Epoch: n.Epoch, Version: result.Node.Version, Load: p.Load, InFlight: 1, Slots: 3},
		"node-b": {Epoch: other.Epoch, Version: other.Version, Load: core.UnknownLoad, Slots: 1},
	}
	again := h.heartbeatParams(result.Node, heartbeat{seq: 1})
	again.Load = p.Load
	eventually(t, h, func() string {
		again.Seq++ // on a busy machine, the heartbeats before may be too old already
		if _, err := h.Store.Heartbeat(t.Context(), again); err != nil {
			return err.Error()
		}
		h.heartbeat(t, other, heartbeat{seq: again.Seq})
		all, err := h.Store.Digests(t.Context())
		if err != nil {
			return err.Error()
		}
		got := make(map[core.NodeID]store.NodeDigest)
		for _, d := range all {
			id, age := d.Node, d.Age
			if d.LastSeen = (store.LastSeen{}); age < 0 || age > h.Timing.Presence {
				return "the age of " + string(id) + " is " + age.String()
			}
			got[id] = d
		}
		return cmp.Diff(want, got)
	})
}

func testNoDigestOfARemovedNode(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 3)
	h.heartbeat(t, n, heartbeat{seq: 1})
	if removed, err := h.Store.Remove(t.Context(), store.RemoveParams{Node: n.ID}); err != nil || !removed {
		t.Fatalf("%v, %v", removed, err)
	}
	h.Wait(h.Slack)
	if all, err := h.Store.Digests(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("digests: %v, %v; want none", all, err)
	}
}

func testWatchReturns(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	changes := h.watch(t)
	h.heartbeat(t, n, heartbeat{seq: 1}) // no change
	h.Wait(h.Timing.Presence + h.Slack)
	h.heartbeat(t, n, heartbeat{seq: 2})
	c := <-changes
	if c.Node != "node-a" || c.Now.Node == nil || c.Now.Age >= h.Timing.Presence || c.Now.Node.Version != n.Version {
		t.Errorf("%+v, want node-a, seen a moment ago", c)
	}
	h.mark(t, store.Mark{Node: "node-a", Service: "asr", Epoch: n.Epoch, NodeVersion: n.Version, For: time.Minute})
	if c := <-changes; c.Mark == nil {
		t.Errorf("%+v came before the mark, want one change for the return", c)
	}
}
