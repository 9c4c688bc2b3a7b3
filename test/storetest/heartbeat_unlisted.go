package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// unlistedBehaviours is the specification of Nodes.Heartbeat of nodes that never list their jobs: only the clock bounds how long a node may
// have one.
var unlistedBehaviours = []behaviour{
	{"leases are renewed until the attempt timeout, and are overdue after it", testUnlistedLeasesAreRenewed},
	{"a revoked lease keeps its slot while the node may be working on the job", testUnlistedRevokedLease},
	{"a revoked lease keeps its slot after a silence of the node", testUnlistedRevokedLeaseAfterSilence},
	{"a lease keeps its slot for the attempt timeout and the reserved TTL, also through a silence of the node",
		testUnlistedLeaseAfterSilence},
}

func testUnlistedLeasesAreRenewed(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	began := time.Now()
	h.mustReserve(t, n, "job-1")
	step := h.Timing.Presence / 3
	var seq uint64
	for time.Since(began) < h.Timing.Attempt-2*step {
		h.Wait(step)
		seq++
		result := h.heartbeat(t, n, heartbeat{seq: seq})
		isBefore := time.Since(began) < h.Timing.Attempt // on a busy machine a step can take longer
		if isBefore && (len(result.Orphans)+len(result.Overdue) != 0 || result.InFlight() != 1) {
			t.Fatalf("before the deadline: %+v", result)
		}
	}
	h.Wait(2*step + h.Slack)
	seq++
	if result := h.heartbeat(t, n, heartbeat{seq: seq}); len(result.Overdue) != 1 {
		t.Errorf("past the deadline: overdue %v, want job-1", result.Overdue)
	}
	for range 4 {
		h.Wait(step)
		seq++
		h.heartbeat(t, n, heartbeat{seq: seq})
	}
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1})
}

func testUnlistedRevokedLease(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	began := time.Now()
	h.mustReserve(t, n, "job-1")
	if err := h.Store.Revoke(t.Context(), leaseRef("node-a", "job-1")); err != nil {
		t.Fatal(err)
	}
	step := h.Timing.Presence / 3
	seq := uint64(0)
	for time.Since(began) < h.Timing.Attempt-step {
		h.Wait(step)
		seq++
		result := h.heartbeat(t, n, heartbeat{seq: seq})
		verdict := h.reserve(t, n, "job-2")
		waited := time.Since(began)
		if waited >= h.Timing.Attempt+h.Timing.ReservedTTL {
			break // the step took so long on a busy machine that the job may be over
		}
		if diff := cmp.Diff([]store.ActiveJob{{Job: "job-1", Attempt: 1}}, result.Cancels); diff != "" {
			t.Errorf("cancels (-want +got):\n%s", diff)
		}
		if verdict != store.Full {
			t.Fatalf("reserve %s after the reservation of a job that the node may have: %s, want FULL", waited, verdict)
		}
	}
	h.Wait(step + h.Timing.ReservedTTL + h.Slack)
	seq++
	if result := h.heartbeat(t, n, heartbeat{seq: seq}); len(result.Cancels) != 0 {
		t.Errorf("cancels after the attempt: %v", result.Cancels)
	}
	h.mustReserve(t, n, "job-2")
}

func testUnlistedRevokedLeaseAfterSilence(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	if err := h.Store.Revoke(t.Context(), leaseRef("node-a", "job-1")); err != nil {
		t.Fatal(err)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	h.heartbeat(t, n, heartbeat{seq: 1})
	if v := h.reserve(t, n, "job-2"); v != store.Full {
		t.Errorf("reserve beside a job that the node may still have: %s, want FULL", v)
	}
}

func testUnlistedLeaseAfterSilence(t *testing.T, h *Harness) {
	repeatWhileSlow(t, func(node core.NodeID) (inTime bool) {
		n, began := h.register(t, node, 1), time.Now()
		h.mustReserve(t, n, "job-1")
		h.commit(t, leaseRef(node, "job-1"))
		h.Wait(h.Timing.Attempt + h.Slack) // the node's own attempt timeout began when the job arrived
		result := h.heartbeat(t, n, heartbeat{seq: 1})
		verdict := h.reserve(t, n, "job-2")
		if time.Since(began) >= h.Timing.Attempt+h.Timing.ReservedTTL {
			return false // the job is over for certain
		}
		if len(result.Overdue) != 1 {
			t.Errorf("overdue: %v, want job-1", result.Overdue)
		}
		if verdict != store.Full {
			t.Errorf("reserve beside a job that the node may still have: %s, want FULL", verdict)
		}
		h.Wait(h.Timing.ReservedTTL)
		h.heartbeat(t, n, heartbeat{seq: 2})
		h.mustReserve(t, n, "job-2")
		return true
	})
}
