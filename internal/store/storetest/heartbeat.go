package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

func exerciseHeartbeat(_ *testing.T, run runner) {
	run("a heartbeat that says nothing new changes nothing", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		pulse := h.beat(t, n, beat{seq: 1})
		same := h.beat(t, n, beat{seq: 2, change: func(*core.Node) {}})
		for _, got := range []*core.Node{pulse.Node, same.Node} {
			if diff := cmp.Diff(n, got); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		}
	})

	run("a change of health or maximum is a version, of capability a revision", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		sick := h.beat(t, n, beat{seq: 1, health: core.HealthDegraded}).Node
		if sick.Health != core.HealthDegraded || sick.Version <= n.Version || sick.Revision != n.Revision {
			t.Errorf("after a change of health: %+v", sick)
		}
		if v := h.reserve(t, sick, "job-1"); v != store.NotReady {
			t.Errorf("reserve on a degraded node: %s, want NOT_READY", v)
		}
		more := h.beat(t, sick, beat{seq: 2, change: func(n *core.Node) {
			n.Health = core.HealthReady
			n.Capability.Semantic = core.NewLangSet("en", "zh", "de")
		}}).Node
		if more.Revision <= n.Revision || more.Epoch != n.Epoch {
			t.Errorf("after a change of languages: %+v", more)
		}
		if v := h.reserve(t, n, "job-1"); v != store.StaleRevision {
			t.Errorf("reserve on what the node could do before: %s, want STALE_REVISION", v)
		}
		h.mustReserve(t, more, "job-1")
	})

	run("what others say of a node does not make it heard", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		silence := h.Timing.Presence / 2
		h.Wait(silence)
		p := h.params(n, beat{epoch: n.Epoch, health: core.HealthOffline})
		p.OnBehalf = true
		pulse, err := h.Store.Heartbeat(t.Context(), p)
		if err != nil || pulse.Verdict != store.OK || pulse.Node.Health != core.HealthOffline || pulse.Age < silence {
			t.Errorf("%s, %+v heard %s ago, %v", pulse.Verdict, pulse.Node, pulse.Age, err)
		}
		if now, err := h.Store.Node(t.Context(), "node-a"); err != nil || now.Node.Health != core.HealthOffline || now.Age < silence {
			t.Errorf("after that: %+v, %v", now, err)
		}
		h.Wait(h.Timing.Presence/2 + h.Slack) // also as far as it is told in batches
		seen, err := h.Store.LastSeen(t.Context())
		if err != nil || len(seen) != 1 || seen[0].Age < h.Timing.Presence {
			t.Errorf("sightings: %+v, %v", seen, err)
		}
	})

	run("an older, an expired or a foreign heartbeat changes nothing", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		h.beat(t, n, beat{seq: 5})
		before, err := h.Store.Node(t.Context(), "node-a")
		if err != nil {
			t.Fatal(err)
		}
		offline := beat{seq: 4, health: core.HealthOffline}
		pulse, err := h.Store.Heartbeat(t.Context(), h.params(n, offline))
		if err != nil || pulse.Verdict != store.TooLate {
			t.Errorf("an older heartbeat: %v, %v; want TOO_LATE", pulse.Verdict, err)
		}
		offline.seq = 6
		if pulse, err = h.Store.Heartbeat(late(t), h.params(n, offline)); err == nil && pulse.Verdict != store.TooLate {
			t.Errorf("an expired heartbeat: %v; want TOO_LATE or an error", pulse.Verdict)
		}
		offline.epoch = n.Epoch - 1
		if pulse, err = h.Store.Heartbeat(t.Context(), h.params(n, offline)); err != nil || pulse.Verdict != store.StaleEpoch {
			t.Errorf("a heartbeat of another life: %v, %v; want STALE_EPOCH", pulse.Verdict, err)
		}
		after, err := h.Store.Node(t.Context(), "node-a")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before.Node, after.Node); diff != "" {
			t.Errorf("node (-before +after):\n%s", diff)
		}
	})

	run("listed leases are renewed whatever the clock says", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		h.commit(t, ref("node-a", "job-1"))
		h.Wait(h.Timing.Presence + h.Slack) // the node was silent: the lease has lapsed …
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1})
		h.beat(t, n, beat{seq: 1, active: []core.JobID{"job-1"}}) // … but the node still has the job
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1, Running: 1})
		if v := h.reserve(t, n, "job-2"); v != store.Full {
			t.Errorf("reserve beside a job the node lists: %s, want FULL", v)
		}
	})

	run("a lease cannot lapse while its node is grantable", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		h.Wait(h.Timing.Presence + h.Slack)
		if v := h.reserve(t, n, "job-2"); v != store.NotReady {
			t.Errorf("reserve on a silent node: %s, want NOT_READY", v)
		}
	})

	run("the second omission makes an orphan", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		h.mustReserve(t, n, "job-1", "job-2")
		h.commit(t, ref("node-a", "job-1"))
		h.commit(t, ref("node-a", "job-2"))
		first := h.beat(t, n, beat{seq: 1, active: []core.JobID{"job-2"}})
		if len(first.Orphans) != 0 {
			t.Errorf("orphans at the first omission: %v", first.Orphans)
		}
		if again := h.beat(t, n, beat{seq: 1, active: []core.JobID{"job-2"}}); len(again.Orphans) != 0 {
			t.Errorf("orphans when the first omission was repeated: %v", again.Orphans)
		}
		for seq := uint64(2); seq <= 3; seq++ { // and it is said until somebody has seen to it
			pulse := h.beat(t, n, beat{seq: seq, active: []core.JobID{"job-2"}})
			if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-1": core.LeaseRunning}, jobsOf(pulse.Orphans)); diff != "" {
				t.Errorf("orphans of heartbeat %d (-want +got):\n%s", seq, diff)
			}
		}
		h.release(t, ref("node-a", "job-1"), false)
		if pulse := h.beat(t, n, beat{seq: 4, active: []core.JobID{"job-2"}}); len(pulse.Orphans) != 0 {
			t.Errorf("orphans after the release: %v", pulse.Orphans)
		}
	})

	run("a job listed again after an omission is no orphan", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		h.commit(t, ref("node-a", "job-1"))
		for seq := uint64(1); seq <= 6; seq++ {
			active := []core.JobID{}
			if seq%2 == 0 {
				active = append(active, "job-1")
			}
			if pulse := h.beat(t, n, beat{seq: seq, active: active}); len(pulse.Orphans) != 0 {
				t.Fatalf("orphans at heartbeat %d: %v", seq, pulse.Orphans)
			}
		}
	})

	run("a reservation is not judged before its time", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		for seq := uint64(1); seq <= 4; seq++ { // it may still be on its way to the node
			if pulse := h.beat(t, n, beat{seq: seq, active: []core.JobID{}}); len(pulse.Orphans) != 0 {
				t.Fatalf("orphans at heartbeat %d: %v", seq, pulse.Orphans)
			}
		}
		h.Wait(h.Timing.ReservedTTL + h.Slack)
		h.beat(t, n, beat{seq: 5, active: []core.JobID{}})
		pulse := h.beat(t, n, beat{seq: 6, active: []core.JobID{}})
		if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-1": core.LeaseReserved}, jobsOf(pulse.Orphans)); diff != "" {
			t.Errorf("orphans (-want +got):\n%s", diff)
		}
	})

	run("an orphan nobody sees to frees its slot within the TTL", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		h.commit(t, ref("node-a", "job-1"))
		step := h.Timing.Presence / 3
		for seq := uint64(1); seq <= 5; seq++ {
			h.beat(t, n, beat{seq: seq, active: []core.JobID{}})
			h.Wait(step + h.Slack)
		}
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1})
		names, err := h.Store.Orphans(t.Context(), "node-a")
		if err != nil || len(names) != 1 {
			t.Errorf("orphans: %v, %v; the unfinished job must still be named", names, err)
		}
	})

	run("a listed job past its deadline is overdue and still takes its slot", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		h.commit(t, ref("node-a", "job-1"))
		step := h.Timing.Presence / 3
		var pulse store.HeartbeatResult
		seq := uint64(0)
		for waited := step; waited < h.Timing.Attempt+2*step; waited += step {
			h.Wait(step)
			seq++
			pulse = h.beat(t, n, beat{seq: seq, active: []core.JobID{"job-1"}})
		}
		if len(pulse.Overdue) != 1 || pulse.Running != 1 {
			t.Errorf("overdue %v running %d, want job-1 overdue and running", pulse.Overdue, pulse.Running)
		}
	})

	run("what a node lists and nobody gave it takes a slot until it stops listing it", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		pulse := h.beat(t, n, beat{seq: 1, active: []core.JobID{"job-7"}})
		if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-7": core.LeaseRunning}, jobsOf(pulse.Strays)); diff != "" {
			t.Errorf("strays (-want +got):\n%s", diff)
		}
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2, Running: 1})
		if pulse = h.beat(t, n, beat{seq: 2, active: []core.JobID{"job-7"}}); len(pulse.Strays) != 1 {
			t.Errorf("strays of the next heartbeat: %v; nobody has judged it yet", pulse.Strays)
		}
		h.beat(t, n, beat{seq: 3, active: []core.JobID{}})
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2})
	})

	run("a revoked lease is cancelled and kept until the node lets go", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		h.commit(t, ref("node-a", "job-1"))
		if err := h.Store.Revoke(t.Context(), ref("node-a", "job-1")); err != nil {
			t.Fatal(err)
		}
		for seq := uint64(1); seq <= 5; seq++ {
			h.Wait(h.Timing.Presence / 2)
			pulse := h.beat(t, n, beat{seq: seq, active: []core.JobID{"job-1"}})
			if diff := cmp.Diff([]store.ActiveJob{{Job: "job-1", Attempt: 1}}, pulse.Cancels); diff != "" {
				t.Errorf("cancels (-want +got):\n%s", diff)
			}
			if v := h.reserve(t, n, "job-2"); v != store.Full {
				t.Fatalf("reserve beside a job the node still has: %s, want FULL", v)
			}
		}
		if pulse := h.beat(t, n, beat{seq: 6, active: []core.JobID{}}); len(pulse.Cancels)+len(pulse.Orphans) != 0 {
			t.Errorf("after the node let go: %+v", pulse)
		}
		h.mustReserve(t, n, "job-2")
	})

	run("a revoked reservation is kept while its job may be on its way", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		if err := h.Store.Revoke(t.Context(), ref("node-a", "job-1")); err != nil {
			t.Fatal(err)
		}
		for seq := range uint64(4) {
			h.beat(t, n, beat{seq: 1 + seq, active: []core.JobID{}})
			if v := h.reserve(t, n, "job-2"); v != store.Full {
				t.Fatalf("the job may be on its way, and yet: %s, want FULL", v)
			}
		}
		h.Wait(h.Timing.ReservedTTL + h.Slack)
		for seq := range uint64(2) {
			h.beat(t, n, beat{seq: 5 + seq, active: []core.JobID{}})
		}
		h.mustReserve(t, n, "job-2")
	})

	run("a revoked lease outlives a heartbeat that was written before its job arrived", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		h.commit(t, ref("node-a", "job-1"))
		if err := h.Store.Revoke(t.Context(), ref("node-a", "job-1")); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the same heartbeat twice is one
			h.beat(t, n, beat{seq: 1, active: []core.JobID{}})
			if v := h.reserve(t, n, "job-2"); v != store.Full {
				t.Fatalf("the heartbeat may have been written before the job arrived, and yet: %s, want FULL", v)
			}
		}
		h.beat(t, n, beat{seq: 2, active: []core.JobID{}})
		h.mustReserve(t, n, "job-2")
	})

	run("a node that goes offline orphans all it has at once", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		h.mustReserve(t, n, "job-1", "job-2")
		h.commit(t, ref("node-a", "job-2"))
		pulse := h.beat(t, n, beat{seq: 1, health: core.HealthOffline})
		want := map[core.JobID]core.LeaseState{"job-1": core.LeaseReserved, "job-2": core.LeaseRunning}
		if diff := cmp.Diff(want, jobsOf(pulse.Orphans)); diff != "" {
			t.Errorf("orphans (-want +got):\n%s", diff)
		}
	})

	run("work that is not ours counts against the maximum", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 3)
		h.mustReserve(t, n, "job-1")
		two := 2
		h.beat(t, n, beat{seq: 1, active: []core.JobID{"job-1"}, count: &two})
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 3, Reserved: 1, Foreign: 1})
		h.mustReserve(t, n, "job-2")
		if v := h.reserve(t, n, "job-3"); v != store.Full {
			t.Errorf("reserve beside foreign work: %s, want FULL", v)
		}
		// A node that does not list counts everything; what the ledger knows of is ours.
		h.beat(t, n, beat{seq: 2, count: &two})
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 3, Reserved: 2})
		h.beat(t, n, beat{seq: 3})
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 3, Reserved: 2})
	})

	run("when the maximum is lowered leases only shrink", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 3)
		h.mustReserve(t, n, "job-1", "job-2", "job-3")
		all := []core.JobID{"job-1", "job-2", "job-3"}
		lower := h.beat(t, n, beat{seq: 1, active: all, change: func(n *core.Node) { n.MaxJobs = 1 }}).Node
		for i, job := range all {
			if v := h.reserve(t, lower, "job-9"); v != store.Full {
				t.Errorf("reserve with %d leases on 1 slot: %s, want FULL", len(all)-i, v)
			}
			h.release(t, ref("node-a", job), false)
		}
		h.mustReserve(t, lower, "job-9")
	})
}
