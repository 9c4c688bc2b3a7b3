package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// revokedBehaviours is the specification of revoked leases on a node that lists its jobs: a lease keeps its slot until the lists
// show that the node does not have the job, and does not expire before that.
var revokedBehaviours = []behaviour{
	{"a heartbeat renews a revoked lease whose job may be on its way", func(t *testing.T, h *Harness) {
		testHeartbeatRenewsRevoked(t, h, h.Timing.ReservedTTL*3/4)
	}},
	{"the first heartbeat that omits a revoked lease renews it", func(t *testing.T, h *Harness) {
		testHeartbeatRenewsRevoked(t, h, h.Timing.ReservedTTL)
	}},
	{"a registration renews a revoked lease whose job may be on its way",
		func(t *testing.T, h *Harness) { testRegistrationRenews(t, h, true) }},
	{"a registration renews a reservation whose job may be on its way",
		func(t *testing.T, h *Harness) { testRegistrationRenews(t, h, false) }},
	{"a heartbeat that is repeated for ever does not keep a revoked lease", testRepeatedHeartbeatFreesRevoked},
	{"a registration that lists a revoked job is answered with its cancellation", testRegistrationCancelsRevoked},
}

func testRegistrationCancelsRevoked(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	h.mustReserve(t, n, "job-1")
	h.mustReserve(t, n, "job-2")
	h.revoke(t, "node-a", "job-1")
	listed := []store.ActiveJob{{Job: "job-1", Attempt: 1}, {Job: "job-2", Attempt: 1}}
	r, err := h.Store.Register(t.Context(), store.RegisterParams{
		Node: declaredNode("node-a", 2), Load: core.UnknownLoad, Activity: store.Activity{Lists: true, Active: listed},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(listed[:1], r.Cancels); diff != "" {
		t.Errorf("cancels (-want +got):\n%s", diff)
	}
	if len(r.Kept) != 1 || r.Kept[0].Job != "job-2" || r.InFlight() != 2 {
		t.Errorf("kept %v, %d slots are taken; want job-2, and both slots", r.Kept, r.InFlight())
	}
}

func (h *Harness) revoke(t *testing.T, node core.NodeID, job core.JobID) {
	t.Helper()
	if err := h.Store.Revoke(t.Context(), leaseRef(node, job)); err != nil {
		t.Fatal(err)
	}
}

func testHeartbeatRenewsRevoked(t *testing.T, h *Harness, age time.Duration) {
	repeatWhileSlow(t, func(node core.NodeID) (inTime bool) {
		n := h.register(t, node, 1)
		began := time.Now()
		h.mustReserve(t, n, "job-1")
		h.revoke(t, node, "job-1")
		h.Wait(age)
		h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{}})
		h.Wait(h.Timing.Presence - age + h.Slack) // longer than the reservation would have lasted
		o := h.occupancy(t, node)
		if time.Since(began) >= h.Timing.Presence+age {
			return false // what the heartbeat renewed has expired
		}
		if want := (store.Occupancy{Max: 1, Running: 1}); o != want {
			t.Errorf("%+v, want %+v", o, want)
		}
		for seq := range uint64(2) {
			h.heartbeat(t, n, heartbeat{seq: 2 + seq, active: []core.JobID{}})
		}
		h.mustReserve(t, n, "job-2")
		return true
	})
}

func testRegistrationRenews(t *testing.T, h *Harness, revoked bool) {
	repeatWhileSlow(t, func(node core.NodeID) (inTime bool) {
		n := h.register(t, node, 1)
		began := time.Now()
		h.mustReserve(t, n, "job-1")
		if revoked {
			h.revoke(t, node, "job-1")
		}
		age := h.Timing.ReservedTTL * 3 / 4
		h.Wait(age)
		if _, err := h.Store.Register(t.Context(), store.RegisterParams{
			Node: declaredNode(node, 1), Load: core.UnknownLoad, Activity: store.Activity{Lists: true},
		}); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) >= h.Timing.ReservedTTL {
			return false // the job can not be on its way any more
		}
		h.Wait(h.Timing.Presence - age + h.Slack) // longer than the reservation would have lasted
		o := h.occupancy(t, node)
		if time.Since(began) >= h.Timing.Presence+age {
			return false
		}
		if o.InFlight() != 1 {
			t.Errorf("%+v, want one slot taken", o)
		}
		return true
	})
}

func testRepeatedHeartbeatFreesRevoked(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	h.revoke(t, "node-a", "job-1")
	step := h.Timing.Presence / 3
	for waited := step; waited < h.Timing.ReservedTTL+h.Timing.Attempt+h.Timing.Presence; waited += step {
		h.Wait(step)
		h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{}})
	}
	h.mustReserve(t, n, "job-2")
}
