package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// exerciseUnlisted tests the leases of a node that never lists its jobs: only the clock says how long it may have one.
func exerciseUnlisted(_ *testing.T, run runner) {
	run("a node that never lists keeps its leases until the attempt is over", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		step := h.Timing.Presence / 3
		var seq uint64
		for waited := step; waited < h.Timing.Attempt-step; waited += step {
			h.Wait(step)
			seq++
			if pulse := h.beat(t, n, beat{seq: seq}); len(pulse.Orphans)+len(pulse.Overdue) != 0 || pulse.InFlight() != 1 {
				t.Fatalf("before the deadline: %+v", pulse)
			}
		}
		h.Wait(2*step + h.Slack)
		seq++
		if pulse := h.beat(t, n, beat{seq: seq}); len(pulse.Overdue) != 1 {
			t.Errorf("past the deadline: overdue %v, want job-1", pulse.Overdue)
		}
		for range 4 {
			h.Wait(step)
			seq++
			h.beat(t, n, beat{seq: seq})
		}
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1})
	})

	run("a revoked lease of a node that never lists is kept while the node may be at it", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		if err := h.Store.Revoke(t.Context(), ref("node-a", "job-1")); err != nil {
			t.Fatal(err)
		}
		step := h.Timing.Presence / 3
		seq := uint64(0)
		for waited := step; waited < h.Timing.Attempt; waited += step {
			h.Wait(step)
			seq++
			pulse := h.beat(t, n, beat{seq: seq})
			if diff := cmp.Diff([]store.ActiveJob{{Job: "job-1", Attempt: 1}}, pulse.Cancels); diff != "" {
				t.Errorf("cancels (-want +got):\n%s", diff)
			}
			if v := h.reserve(t, n, "job-2"); v != store.Full {
				t.Fatalf("reserve %s after a reservation that the node may have taken on: %s, want FULL", waited, v)
			}
		}
		h.Wait(step + h.Timing.ReservedTTL + h.Slack)
		seq++
		if pulse := h.beat(t, n, beat{seq: seq}); len(pulse.Cancels) != 0 {
			t.Errorf("cancels after the attempt: %v", pulse.Cancels)
		}
		h.mustReserve(t, n, "job-2")
	})

	run("a revoked lease outlives the silence of a node that never lists", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		if err := h.Store.Revoke(t.Context(), ref("node-a", "job-1")); err != nil {
			t.Fatal(err)
		}
		h.Wait(h.Timing.Presence + h.Slack)
		h.beat(t, n, beat{seq: 1})
		if v := h.reserve(t, n, "job-2"); v != store.Full {
			t.Errorf("reserve beside a job that the node may still have: %s, want FULL", v)
		}
	})

	run("a lease outlives the silence of a node that never lists by the time a delivery takes", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		h.commit(t, ref("node-a", "job-1"))
		h.Wait(h.Timing.Attempt + h.Slack) // the node's own time began when the job arrived
		if pulse := h.beat(t, n, beat{seq: 1}); len(pulse.Overdue) != 1 {
			t.Errorf("overdue: %v, want job-1", pulse.Overdue)
		}
		if v := h.reserve(t, n, "job-2"); v != store.Full {
			t.Errorf("reserve beside a job that the node may still have: %s, want FULL", v)
		}
		h.Wait(h.Timing.ReservedTTL)
		h.beat(t, n, beat{seq: 2})
		h.mustReserve(t, n, "job-2")
	})
}
