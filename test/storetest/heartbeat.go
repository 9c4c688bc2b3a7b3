package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// heartbeatBehaviours is the specification of Nodes.Heartbeat of nodes that list their jobs.
var heartbeatBehaviours = []behaviour{
	{"a heartbeat without a change leaves the node as it is", testUnchangedHeartbeat},
	{"a change of health increases the version, a change of capability also the revision", testChangesOfVersionAndRevision},
	{"a heartbeat on behalf of a node does not change when the node was last seen", testHeartbeatOnBehalf},
	{"a heartbeat that is older, past its deadline or of another epoch changes nothing", testStaleHeartbeats},
	{"a listed lease is renewed, even after it expired", testListedLeasesAreRenewed},
	{"a node whose leases can expire gets no new jobs", testNoGrantAfterExpiry},
	{"a lease is an orphan at the second omission, and until it is released", testSecondOmissionOrphans},
	{"a job that is listed again after an omission is no orphan", testListedAgain},
	{"a reservation is no orphan while its job may be on its way", testYoungReservationIsNoOrphan},
	{"an orphan that is not released frees its slot within the TTL and stays in the set", testOrphanExpires},
	{"a listed job that exceeds the attempt timeout is overdue and keeps its slot", testOverdueJobKeepsSlot},
	{"a listed job without a lease takes a slot until it is omitted", testStrayTakesSlot},
	{"a revoked lease keeps its slot, and its job is to be cancelled, until the node omits it", testRevokedLeaseKeepsSlot},
	{"a revoked reservation keeps its slot while its job may be on its way", testRevokedReservationInTransit},
	{"a revoked lease keeps its slot after the first omission of its job, also if that heartbeat is repeated",
		testRevokedLeaseAfterOneOmission},
	{"all leases of a node that goes offline are orphans", testOfflineOrphansAll},
	{"work that is not ours takes slots", testForeignWorkTakesSlots},
	{"a node with a lowered maximum gets no new job until its leases fit", testLoweredMaximum},
}

func testUnchangedHeartbeat(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	result := h.heartbeat(t, n, heartbeat{seq: 1})
	same := h.heartbeat(t, n, heartbeat{seq: 2, change: func(*core.Node) {}})
	for _, got := range []*core.Node{result.Node, same.Node} {
		if diff := cmp.Diff(n, got); diff != "" {
			t.Errorf("node (-want +got):\n%s", diff)
		}
	}
}

func testChangesOfVersionAndRevision(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	degraded := h.heartbeat(t, n, heartbeat{seq: 1, health: core.HealthDegraded}).Node
	if degraded.Health != core.HealthDegraded || degraded.Version <= n.Version || degraded.Revision != n.Revision {
		t.Errorf("after a change of health: %+v", degraded)
	}
	if v := h.reserve(t, degraded, "job-1"); v != store.NotReady {
		t.Errorf("reserve on a degraded node: %s, want NOT_READY", v)
	}
	more := h.heartbeat(t, degraded, heartbeat{seq: 2, change: func(n *core.Node) {
		n.Health = core.HealthReady
		n.Semantic = core.NewLangSet("en", "zh", "de")
	}}).Node
	if more.Revision <= n.Revision || more.Epoch != n.Epoch {
		t.Errorf("after a change of languages: %+v", more)
	}
	if v := h.reserve(t, n, "job-1"); v != store.StaleRevision {
		t.Errorf("reserve on what the node could do before: %s, want STALE_REVISION", v)
	}
	h.mustReserve(t, more, "job-1")
}

func testHeartbeatOnBehalf(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	silence := h.Timing.Presence / 2
	h.Wait(silence)
	p := h.heartbeatParams(n, heartbeat{epoch: n.Epoch, health: core.HealthOffline})
	p.OnBehalf = true
	result, err := h.Store.Heartbeat(t.Context(), p)
	if err != nil || result.Verdict != store.OK || result.Node.Health != core.HealthOffline || result.Age < silence {
		t.Errorf("%s, %+v last seen %s ago, %v", result.Verdict, result.Node, result.Age, err)
	}
	if now, err := store.ReadNode(t.Context(), h.Store, "node-a"); err != nil || now.Node.Health != core.HealthOffline ||
		now.Age < silence {
		t.Errorf("after that: %+v, %v", now, err)
	}
	h.Wait(h.Timing.Presence/2 + h.Slack) // last-seen times may be written in batches
	seen, err := h.Store.Overdue(t.Context(), 0)
	if err != nil || len(seen.Nodes) != 1 || seen.Nodes[0].Age < h.Timing.Presence {
		t.Errorf("last seen: %+v, %v", seen, err)
	}
}

func testStaleHeartbeats(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	h.heartbeat(t, n, heartbeat{seq: 5})
	before, err := store.ReadNode(t.Context(), h.Store, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	offline := heartbeat{seq: 4, health: core.HealthOffline}
	result, err := h.Store.Heartbeat(t.Context(), h.heartbeatParams(n, offline))
	if err != nil || result.Verdict != store.TooLate {
		t.Errorf("an older heartbeat: %v, %v; want TOO_LATE", result.Verdict, err)
	}
	offline.seq = 6
	if result, err = h.Store.Heartbeat(expiredContext(t), h.heartbeatParams(n, offline)); err == nil && result.Verdict != store.TooLate {
		t.Errorf("an expired heartbeat: %v; want TOO_LATE or an error", result.Verdict)
	}
	offline.epoch = n.Epoch - 1
	if result, err = h.Store.Heartbeat(t.Context(), h.heartbeatParams(n, offline)); err != nil || result.Verdict != store.StaleEpoch {
		t.Errorf("a heartbeat of an earlier epoch: %v, %v; want STALE_EPOCH", result.Verdict, err)
	}
	offline.epoch = n.Epoch + 1 // the store has lost its registration
	if result, err = h.Store.Heartbeat(t.Context(), h.heartbeatParams(n, offline)); err != nil || result.Verdict != store.UnknownNode {
		t.Errorf("a heartbeat of a later epoch: %v, %v; want UNKNOWN_NODE", result.Verdict, err)
	}
	after, err := store.ReadNode(t.Context(), h.Store, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Node, after.Node); diff != "" {
		t.Errorf("node (-before +after):\n%s", diff)
	}
}

func testListedLeasesAreRenewed(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	h.commit(t, leaseRef("node-a", "job-1"))
	h.Wait(h.Timing.Presence + h.Slack) // the node was silent: the lease has expired …
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1})
	h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{"job-1"}}) // … but the node still has the job
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1, Running: 1})
	if v := h.reserve(t, n, "job-2"); v != store.Full {
		t.Errorf("reserve beside a job the node lists: %s, want FULL", v)
	}
}

func testNoGrantAfterExpiry(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	h.Wait(h.Timing.Presence + h.Slack)
	if v := h.reserve(t, n, "job-2"); v != store.NotReady {
		t.Errorf("reserve on a silent node: %s, want NOT_READY", v)
	}
}

func testSecondOmissionOrphans(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	h.mustReserve(t, n, "job-1", "job-2")
	h.commit(t, leaseRef("node-a", "job-1"))
	h.commit(t, leaseRef("node-a", "job-2"))
	first := h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{"job-2"}})
	if len(first.Orphans) != 0 {
		t.Errorf("orphans at the first omission: %v", first.Orphans)
	}
	if repeated := h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{"job-2"}}); len(repeated.Orphans) != 0 {
		t.Errorf("orphans when the heartbeat with the first omission was repeated: %v", repeated.Orphans)
	}
	for seq := uint64(2); seq <= 3; seq++ { // an orphan is reported until it is released
		result := h.heartbeat(t, n, heartbeat{seq: seq, active: []core.JobID{"job-2"}})
		if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-1": core.LeaseRunning}, statesByJob(result.Orphans)); diff != "" {
			t.Errorf("orphans of heartbeat %d (-want +got):\n%s", seq, diff)
		}
	}
	h.release(t, leaseRef("node-a", "job-1"), false)
	if result := h.heartbeat(t, n, heartbeat{seq: 4, active: []core.JobID{"job-2"}}); len(result.Orphans) != 0 {
		t.Errorf("orphans after the release: %v", result.Orphans)
	}
}

func testListedAgain(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	h.commit(t, leaseRef("node-a", "job-1"))
	for seq := uint64(1); seq <= 6; seq++ {
		active := []core.JobID{}
		if seq%2 == 0 {
			active = append(active, "job-1")
		}
		if result := h.heartbeat(t, n, heartbeat{seq: seq, active: active}); len(result.Orphans) != 0 {
			t.Fatalf("orphans at heartbeat %d: %v", seq, result.Orphans)
		}
	}
}

func testYoungReservationIsNoOrphan(t *testing.T, h *Harness) {
	repeatWhileSlow(t, func(node core.NodeID) (inTime bool) {
		n := h.register(t, node, 1)
		began := time.Now()
		h.mustReserve(t, n, "job-1")
		for seq := uint64(1); seq <= 4; seq++ { // its job may still be on its way to the node
			result := h.heartbeat(t, n, heartbeat{seq: seq, active: []core.JobID{}})
			if time.Since(began) >= h.Timing.ReservedTTL {
				return false
			}
			if len(result.Orphans) != 0 {
				t.Fatalf("orphans at heartbeat %d: %v", seq, result.Orphans)
			}
		}
		h.Wait(h.Timing.ReservedTTL + h.Slack)
		h.heartbeat(t, n, heartbeat{seq: 5, active: []core.JobID{}})
		result := h.heartbeat(t, n, heartbeat{seq: 6, active: []core.JobID{}})
		if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-1": core.LeaseReserved}, statesByJob(result.Orphans)); diff != "" {
			t.Errorf("orphans (-want +got):\n%s", diff)
		}
		return true
	})
}

func testOrphanExpires(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	h.commit(t, leaseRef("node-a", "job-1"))
	step := h.Timing.Presence / 3
	for seq := uint64(1); seq <= 5; seq++ {
		h.heartbeat(t, n, heartbeat{seq: seq, active: []core.JobID{}})
		h.Wait(step + h.Slack)
	}
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1})
	leases, err := h.Store.Orphans(t.Context(), "node-a")
	if err != nil || len(leases) != 1 {
		t.Errorf("orphans: %v, %v; the unfinished job must stay in the set", leases, err)
	}
}

func testOverdueJobKeepsSlot(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	h.commit(t, leaseRef("node-a", "job-1"))
	step := h.Timing.Presence / 3
	var result store.HeartbeatResult
	seq := uint64(0)
	for waited := step; waited < h.Timing.Attempt+2*step; waited += step {
		h.Wait(step)
		seq++
		result = h.heartbeat(t, n, heartbeat{seq: seq, active: []core.JobID{"job-1"}})
	}
	if len(result.Overdue) != 1 || result.Running != 1 {
		t.Errorf("overdue %v running %d, want job-1 overdue and running", result.Overdue, result.Running)
	}
}

func testStrayTakesSlot(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	result := h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{"job-7"}})
	if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-7": core.LeaseRunning}, statesByJob(result.Strays)); diff != "" {
		t.Errorf("strays (-want +got):\n%s", diff)
	}
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2, Running: 1})
	if result = h.heartbeat(t, n, heartbeat{seq: 2, active: []core.JobID{"job-7"}}); len(result.Strays) != 1 {
		t.Errorf("strays of the next heartbeat: %v; it was not released yet", result.Strays)
	}
	h.heartbeat(t, n, heartbeat{seq: 3, active: []core.JobID{}})
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2})
}

func testRevokedLeaseKeepsSlot(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	h.commit(t, leaseRef("node-a", "job-1"))
	if err := h.Store.Revoke(t.Context(), leaseRef("node-a", "job-1")); err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 5; seq++ {
		h.Wait(h.Timing.Presence / 2)
		result := h.heartbeat(t, n, heartbeat{seq: seq, active: []core.JobID{"job-1"}})
		if diff := cmp.Diff([]store.ActiveJob{{Job: "job-1", Attempt: 1}}, result.Cancels); diff != "" {
			t.Errorf("cancels (-want +got):\n%s", diff)
		}
		if v := h.reserve(t, n, "job-2"); v != store.Full {
			t.Fatalf("reserve beside a job the node still has: %s, want FULL", v)
		}
	}
	if result := h.heartbeat(t, n, heartbeat{seq: 6, active: []core.JobID{}}); len(result.Cancels)+len(result.Orphans) != 0 {
		t.Errorf("after the node omitted the job: %+v", result)
	}
	h.mustReserve(t, n, "job-2")
}

func testRevokedReservationInTransit(t *testing.T, h *Harness) {
	repeatWhileSlow(t, func(node core.NodeID) (inTime bool) {
		n := h.register(t, node, 1)
		began := time.Now()
		h.mustReserve(t, n, "job-1")
		h.revoke(t, node, "job-1")
		for seq := range uint64(4) {
			h.heartbeat(t, n, heartbeat{seq: 1 + seq, active: []core.JobID{}})
			verdict := h.reserve(t, n, "job-2")
			if time.Since(began) >= h.Timing.ReservedTTL {
				return false // the job can not be on its way any more
			}
			if verdict != store.Full {
				t.Fatalf("reserve while the revoked job may be on its way: %s, want FULL", verdict)
			}
		}
		h.Wait(h.Timing.ReservedTTL + h.Slack)
		for seq := range uint64(2) {
			h.heartbeat(t, n, heartbeat{seq: 5 + seq, active: []core.JobID{}})
		}
		h.mustReserve(t, n, "job-2")
		return true
	})
}

func testRevokedLeaseAfterOneOmission(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	h.commit(t, leaseRef("node-a", "job-1"))
	if err := h.Store.Revoke(t.Context(), leaseRef("node-a", "job-1")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a repeated heartbeat counts once
		h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{}})
		if v := h.reserve(t, n, "job-2"); v != store.Full {
			t.Fatalf("reserve after a heartbeat that may have been written before the job arrived: %s, want FULL", v)
		}
	}
	h.heartbeat(t, n, heartbeat{seq: 2, active: []core.JobID{}})
	h.mustReserve(t, n, "job-2")
}

func testOfflineOrphansAll(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	h.mustReserve(t, n, "job-1", "job-2")
	h.commit(t, leaseRef("node-a", "job-2"))
	result := h.heartbeat(t, n, heartbeat{seq: 1, health: core.HealthOffline})
	want := map[core.JobID]core.LeaseState{"job-1": core.LeaseReserved, "job-2": core.LeaseRunning}
	if diff := cmp.Diff(want, statesByJob(result.Orphans)); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
}

func testForeignWorkTakesSlots(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 3)
	h.mustReserve(t, n, "job-1")
	two := 2
	h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{"job-1"}, count: &two})
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 3, Reserved: 1, Foreign: 1})
	h.mustReserve(t, n, "job-2")
	if v := h.reserve(t, n, "job-3"); v != store.Full {
		t.Errorf("reserve beside foreign work: %s, want FULL", v)
	}
	// The count of a node that does not list contains everything; the leases are ours.
	h.heartbeat(t, n, heartbeat{seq: 2, count: &two})
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 3, Reserved: 2})
	h.heartbeat(t, n, heartbeat{seq: 3})
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 3, Reserved: 2})
}

func testLoweredMaximum(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 3)
	h.mustReserve(t, n, "job-1", "job-2", "job-3")
	all := []core.JobID{"job-1", "job-2", "job-3"}
	lower := h.heartbeat(t, n, heartbeat{seq: 1, active: all, change: func(n *core.Node) { n.MaxJobs = 1 }}).Node
	for i, job := range all {
		if v := h.reserve(t, lower, "job-9"); v != store.Full {
			t.Errorf("reserve with %d leases on 1 slot: %s, want FULL", len(all)-i, v)
		}
		h.release(t, leaseRef("node-a", job), false)
	}
	h.mustReserve(t, lower, "job-9")
}
