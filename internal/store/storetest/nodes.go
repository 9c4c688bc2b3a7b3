package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

type runner = func(name string, fn func(t *testing.T, h *Harness))

func exerciseNodes(_ *testing.T, run runner) {
	run("a registered node is known and silent ones are still listed", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 3)
		h.Wait(2 * h.Timing.Presence)
		status, err := h.Store.Node(t.Context(), "node-a")
		if err != nil {
			t.Fatal(err)
		}
		want := declared("node-a", 3)
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
		seen, err := h.Store.LastSeen(t.Context())
		if err != nil || len(seen) != 1 || seen[0].Node != "node-a" || seen[0].Age < 2*h.Timing.Presence-h.Slack {
			t.Errorf("sightings: %v, %v; want node-a alone, silent", seen, err)
		}
	})

	run("an unknown node is an error, not an empty one", func(t *testing.T, h *Harness) {
		if _, err := h.Store.Node(t.Context(), "node-x"); !errors.Is(err, store.ErrNoNode) {
			t.Errorf("node: %v, want ErrNoNode", err)
		}
		if _, err := h.Store.Drain(t.Context(), store.DrainParams{Node: "node-x", Drained: true}); !errors.Is(err, store.ErrNoNode) {
			t.Errorf("drain: %v, want ErrNoNode", err)
		}
		if err := h.Store.Mark(t.Context(), store.Mark{Node: "node-x", Service: "s", For: time.Minute}); !errors.Is(err, store.ErrNoNode) {
			t.Errorf("mark: %v, want ErrNoNode", err)
		}
		pulse, err := h.Store.Heartbeat(t.Context(), store.HeartbeatParams{Node: "node-x"})
		if err != nil || pulse.Verdict != store.UnknownNode {
			t.Errorf("heartbeat: %v, %v; want UNKNOWN_NODE", pulse.Verdict, err)
		}
	})

	run("a removed node is gone with its leases", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		for range 2 { // twice is as good as once
			if err := h.Store.Remove(t.Context(), store.RemoveParams{Node: "node-a"}); err != nil {
				t.Fatal(err)
			}
		}
		if v := h.reserve(t, n, "job-2"); v != store.UnknownNode {
			t.Errorf("reserve on a removed node: %s", v)
		}
		n = h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-2")
	})

	run("a node that was heard lately is not forgotten", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.Wait(h.Timing.Presence / 2)
		for _, c := range []struct {
			silentFor time.Duration
			there     bool
		}{{h.Timing.Presence, true}, {h.Timing.Presence / 4, false}} {
			if err := h.Store.Remove(t.Context(), store.RemoveParams{Node: n.ID, SilentFor: c.silentFor}); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Store.Node(t.Context(), n.ID); (err == nil) != c.there {
				t.Errorf("after removal if silent for %v: %v, want there %v", c.silentFor, err, c.there)
			}
		}
	})

	run("a drain stops grants, keeps work, and outlives a registration", func(t *testing.T, h *Harness) {
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
		if !h.commit(t, ref("node-a", "job-1")) {
			t.Error("a drained node lost the job it had")
		}
		if again := h.register(t, "node-a", 2); !again.Drained {
			t.Error("a registration forgot the drain")
		}
		resumed, err := h.Store.Drain(t.Context(), store.DrainParams{Node: "node-a"})
		if err != nil {
			t.Fatal(err)
		}
		h.mustReserve(t, resumed, "job-3")
	})

	run("a mark is kept until it expires", func(t *testing.T, h *Harness) {
		h.register(t, "node-a", 1)
		if err := h.Store.Mark(t.Context(), store.Mark{Node: "node-a", Service: "asr-x", For: h.Timing.Presence}); err != nil {
			t.Fatal(err)
		}
		marks, err := h.Store.Marked(t.Context(), "node-a")
		if err != nil || len(marks) != 1 || marks[0].Service != "asr-x" || marks[0].For <= 0 || marks[0].For > h.Timing.Presence {
			t.Errorf("marked: %v, %v", marks, err)
		}
		h.Wait(h.Timing.Presence + h.Slack)
		if marks, err = h.Store.Marked(t.Context(), "node-a"); err != nil || len(marks) != 0 {
			t.Errorf("marked after expiry: %v, %v", marks, err)
		}
	})

	run("nodes are read by their names", func(t *testing.T, h *Harness) {
		for _, id := range []core.NodeID{"node-a", "node-b", "node-c"} {
			h.register(t, id, 1)
		}
		some, err := h.Store.Nodes(t.Context(), "node-c", "node-nobody-knows", "node-a")
		if err != nil || len(some) != 2 || some[0].Node.ID != "node-c" || some[1].Node.ID != "node-a" {
			t.Errorf("%+v, %v; want node-c and node-a", some, err)
		}
	})

	run("the marks of many nodes are read at once", func(t *testing.T, h *Harness) {
		const many = 150 // more than one batch
		var ids []core.NodeID
		for i := range many {
			id := core.NodeID(fmt.Sprintf("node-%d", i))
			ids = append(ids, id)
			h.register(t, id, 1)
			if i%50 == 7 {
				if err := h.Store.Mark(t.Context(), store.Mark{Node: id, Service: "asr-x", For: time.Hour}); err != nil {
					t.Fatal(err)
				}
			}
		}
		marks, err := h.Store.Marked(t.Context(), append(ids, "node-nobody-knows")...)
		if err != nil {
			t.Fatal(err)
		}
		var found []core.NodeID
		for _, m := range marks {
			found = append(found, m.Node)
		}
		if diff := cmp.Diff([]core.NodeID{"node-7", "node-57", "node-107"}, found); diff != "" {
			t.Errorf("nodes with marks (-want +got):\n%s", diff)
		}
	})
}

func exerciseRegister(_ *testing.T, run runner) {
	run("every registration begins a later life", func(t *testing.T, h *Harness) {
		var last core.Node
		for range 5 {
			n := h.register(t, "node-a", 1)
			if n.Epoch <= last.Epoch || n.Revision <= last.Revision || n.Version <= last.Version {
				t.Fatalf("epoch %d revision %d version %d after %d %d %d", n.Epoch, n.Revision, n.Version, last.Epoch, last.Revision, last.Version)
			}
			last = *n
		}
	})

	run("a new life keeps what the node lists and orphans the rest", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 4)
		h.mustReserve(t, n, "job-1", "job-2", "job-3", "job-4")
		h.commit(t, ref("node-a", "job-1"))
		h.commit(t, ref("node-a", "job-2"))
		if err := h.Store.Revoke(t.Context(), ref("node-a", "job-3")); err != nil {
			t.Fatal(err)
		}
		r, err := h.Store.Register(t.Context(), store.RegisterParams{
			Node: declared("node-a", 4), Load: core.UnknownLoad,
			Activity: store.Activity{Lists: true, Active: []store.ActiveJob{{Job: "job-1", Attempt: 1}, {Job: "job-9", Attempt: 2}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-1": core.LeaseRunning}, jobsOf(r.Kept)); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-2": core.LeaseRunning}, jobsOf(r.Orphans)); diff != "" {
			t.Errorf("orphans (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-9": core.LeaseRunning}, jobsOf(r.Strays)); diff != "" {
			t.Errorf("strays (-want +got):\n%s", diff)
		}
		// The orphan holds its slot until somebody has moved its job. Job-4 was just reserved: it may be on its way,
		// and keeps its slot. So does job-3, given up by its job, until a second list leaves it out.
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 4, Reserved: 1, Running: 4})
		h.Wait(h.Timing.ReservedTTL + h.Slack)
		for seq := range uint64(2) {
			h.beat(t, r.Node, beat{seq: 1 + seq, active: []core.JobID{"job-1", "job-2", "job-4"}})
		}
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 4, Reserved: 1, Running: 2})
	})

	run("a node that returns and lists nothing waits for one attempt", func(t *testing.T, h *Harness) {
		r, err := h.Store.Register(t.Context(), store.RegisterParams{Node: declared("node-a", 1), Load: core.UnknownLoad, Returning: true})
		if err != nil {
			t.Fatal(err)
		}
		if v := h.reserve(t, r.Node, "job-1"); v != store.NotReady {
			t.Errorf("reserve on a node that may be running anything: %s, want NOT_READY", v)
		}
		h.beat(t, r.Node, beat{seq: 1, active: []core.JobID{}})
		h.mustReserve(t, r.Node, "job-1") // it has said that it runs nothing

		r, err = h.Store.Register(t.Context(), store.RegisterParams{Node: declared("node-b", 1), Load: core.UnknownLoad, Returning: true})
		if err != nil {
			t.Fatal(err)
		}
		for seq := uint64(1); seq <= 3; seq++ {
			h.Wait(h.Timing.Attempt/3 + h.Slack)
			h.beat(t, r.Node, beat{seq: seq})
		}
		h.mustReserve(t, r.Node, "job-2")
	})
}
