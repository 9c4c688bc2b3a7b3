package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// ledgerBehaviours is the specification of Ledger and LeaseReader.
var ledgerBehaviours = []behaviour{
	{"slots are granted up to the maximum and not beyond", testReserveUpToMaximum},
	{"concurrent reservations get exactly the slots that there are", testConcurrentReservations},
	{"a reservation that cannot be granted has the verdict that says why", testReserveVerdicts},
	{"a repeated reservation takes no second slot", testReserveIsIdempotent},
	{"two tokens for one job are two leases, each released by its own token", testLeasesOfTwoTokens},
	{"an expired lease can be reserved again and is in the set once", testReserveExpiredLease},
	{"a reservation removes no unfinished job from the set", testReserveKeepsUnfinishedJobs},
	{"an outdated handle is harmless", testOutdatedHandle},
	{"a commit turns a reserved slot into a running one, and repeating it changes nothing", testCommit},
	{"only a live lease can be committed", testCommitOnlyLiveLeases},
	{"a parked lease takes no slot and stays in the set as an orphan", testParkedLease},
	{"the leases of an absent node free their slots within the TTL and stay in the set", testLeasesOfAbsentNode},
	{"a probe says whether a job would be granted", testProbeClosed},
}

func testReserveUpToMaximum(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 3)
	h.mustReserve(t, n, "job-1", "job-2", "job-3")
	if v := h.reserve(t, n, "job-4"); v != store.Full {
		t.Errorf("the fourth of three slots: %s, want FULL", v)
	}
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 3, Reserved: 3})
	h.release(t, leaseRef("node-a", "job-2"), false)
	h.mustReserve(t, n, "job-4")
}

func testConcurrentReservations(t *testing.T, h *Harness) {
	const slots, callers = 7, 64
	n := h.register(t, "node-a", slots)
	var granted atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			job := core.JobID(fmt.Sprintf("job-%d", i))
			r, err := h.Store.Reserve(t.Context(), store.ReserveParams{
				Lease: leaseRef(n.ID, job), Epoch: n.Epoch, Revision: n.Revision,
			})
			switch {
			case err != nil:
				t.Errorf("reserve: %v", err)
			case r.Verdict == store.OK:
				granted.Add(1)
			case r.Verdict != store.Full:
				t.Errorf("reserve: %s", r.Verdict)
			}
		})
	}
	wg.Wait()
	if granted.Load() != slots {
		t.Errorf("%d of %d slots were granted", granted.Load(), slots)
	}
}

func testReserveVerdicts(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	none := h.register(t, "node-none", 0)
	old, changed := *n, *n
	old.Epoch--
	changed.Revision--
	unknown := declaredNode("node-x", 1)
	for _, c := range []struct {
		on   core.Node
		want store.Verdict
	}{{old, store.StaleEpoch}, {changed, store.StaleRevision}, {unknown, store.UnknownNode}, {*none, store.NoCapacity}, {*n, store.OK}} {
		if got := h.reserve(t, &c.on, "job-1"); got != c.want {
			t.Errorf("reserve on %s epoch %d revision %d: %s, want %s", c.on.ID, c.on.Epoch, c.on.Revision, got, c.want)
		}
	}
	r, err := h.Store.Reserve(expiredContext(t),
		store.ReserveParams{Lease: leaseRef("node-a", "job-2"), Epoch: n.Epoch, Revision: n.Revision})
	if err == nil && r.Verdict != store.TooLate {
		t.Errorf("reserve past its deadline: %s, want TOO_LATE", r.Verdict)
	}
	if l, err := h.Store.Leases(t.Context(), leaseRef("node-a", "job-2")); err != nil || l[0].State != 0 {
		t.Error("a reservation past its deadline took effect")
	}
}

func testReserveIsIdempotent(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	for range 3 {
		h.mustReserve(t, n, "job-1") // also when the lease fills the node
	}
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1, Reserved: 1})
}

func testLeasesOfTwoTokens(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	h.mustReserve(t, n, "job-1")
	other := leaseRef("node-a", "job-1")
	other.Token = "t.other"
	r, err := h.Store.Reserve(t.Context(), store.ReserveParams{
		Lease: other, Epoch: n.Epoch, Revision: n.Revision,
	})
	if err != nil || r.Verdict != store.OK {
		t.Fatalf("reserve by another dispatcher: %v, %v", r.Verdict, err)
	}
	h.release(t, other, false)
	h.release(t, other, false)
	if l, err := h.Store.Leases(t.Context(), leaseRef("node-a", "job-9"), leaseRef("node-a", "job-1")); err != nil || l[0].State != 0 ||
		l[1].Token != "t.job-1" {
		t.Errorf("the release of the other lease removed ours: %v, %v", l, err)
	}
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2, Reserved: 1})
}

func testReserveExpiredLease(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	h.mustReserve(t, n, "job-1")
	h.Wait(max(h.Timing.Presence, h.Timing.Attempt+h.Timing.ReservedTTL) + h.Slack)
	h.heartbeat(t, n, heartbeat{seq: 1}) // the node cannot be working on it any more, so it is not renewed
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2})
	h.mustReserve(t, n, "job-1", "job-1")
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2, Reserved: 1})
	leases, err := h.Store.Orphans(t.Context(), "node-a")
	if err != nil || len(leases) != 1 {
		t.Errorf("the set has %d leases, want 1 (%v)", len(leases), err)
	}
}

func testReserveKeepsUnfinishedJobs(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	h.mustReserve(t, n, "job-1")
	h.Wait(h.Timing.Presence + h.Slack)
	h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{}}) // first omission: renewed
	h.release(t, leaseRef("node-a", "job-1"), true)
	h.mustReserve(t, n, "job-2", "job-3")
	leases, err := h.Store.Orphans(t.Context(), "node-a")
	if err != nil || len(leases) != 3 {
		t.Errorf("leases: %v, %v; a reservation removed an unfinished job", leases, err)
	}
}

func testOutdatedHandle(t *testing.T, h *Harness) {
	h.register(t, "node-a", 1)
	before, err := store.ReadNode(t.Context(), h.Store, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Store.Remove(t.Context(), store.RemoveParams{Node: "node-a"}); err != nil {
		t.Fatal(err)
	}
	n := h.register(t, "node-a", 1)
	r, err := h.Store.Reserve(t.Context(), store.ReserveParams{
		Lease: leaseRef("node-a", "job-1"), Handle: before.Handle, Epoch: n.Epoch, Revision: n.Revision,
	})
	if err != nil || r.Verdict != store.OK {
		t.Fatalf("reserve: %v, %v", r.Verdict, err)
	}
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1, Reserved: 1})
	if err := h.Store.Release(t.Context(), store.ReleaseParams{Lease: leaseRef("node-a", "job-1"), Handle: before.Handle}); err != nil {
		t.Fatal(err)
	}
	h.flush()
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1})
}

func testCommit(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	h.mustReserve(t, n, "job-1", "job-2")
	for range 2 {
		if !h.commit(t, leaseRef("node-a", "job-1")) {
			t.Error("commit of a live lease was refused")
		}
	}
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2, Reserved: 1, Running: 1})
}

func testCommitOnlyLiveLeases(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 4)
	h.mustReserve(t, n, "job-1", "job-2", "job-3", "job-4")
	forged := leaseRef("node-a", "job-1")
	forged.Token = "t.forged"
	h.release(t, leaseRef("node-a", "job-2"), false)
	h.release(t, leaseRef("node-a", "job-3"), true)
	if err := h.Store.Revoke(t.Context(), leaseRef("node-a", "job-4")); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]core.LeaseRef{
		"of another token": forged, "released": leaseRef("node-a", "job-2"), "parked": leaseRef("node-a", "job-3"),
		"revoked": leaseRef("node-a", "job-4"), "never reserved": leaseRef("node-a", "job-5"), "unknown node": leaseRef("node-x", "job-1"),
	} {
		if h.commit(t, r) {
			t.Errorf("commit of a lease that is %s was accepted", name)
		}
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if h.commit(t, leaseRef("node-a", "job-1")) {
		t.Error("commit of an expired lease was accepted")
	}
}

func testParkedLease(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mustReserve(t, n, "job-1")
	h.release(t, leaseRef("node-a", "job-1"), true)
	h.mustReserve(t, n, "job-2")
	leases, err := h.Store.Orphans(t.Context(), "node-a")
	if err != nil {
		t.Fatal(err)
	}
	want := map[core.JobID]core.LeaseState{"job-1": core.LeaseParked, "job-2": core.LeaseReserved}
	if diff := cmp.Diff(want, statesByJob(leases)); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
	result := h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{"job-2"}})
	if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-1": core.LeaseParked}, statesByJob(result.Orphans)); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
	h.release(t, leaseRef("node-a", "job-1"), false)
	if leases, _ = h.Store.Orphans(t.Context(), "node-a"); len(leases) != 1 {
		t.Errorf("leases after the release: %v", leases)
	}
}

func testLeasesOfAbsentNode(t *testing.T, h *Harness) {
	repeatWhileSlow(t, func(node core.NodeID) (inTime bool) {
		n, began := h.register(t, node, 2), time.Now()
		h.mustReserve(t, n, "job-1", "job-2")
		h.commit(t, leaseRef(node, "job-2"))
		h.Wait(h.Timing.Presence / 2)
		half := h.occupancy(t, node)
		if time.Since(began) >= h.Timing.Presence {
			return false
		}
		if want := (store.Occupancy{Max: 2, Reserved: 1, Running: 1}); half != want {
			t.Errorf("occupancy after half of the presence: %+v, want %+v", half, want)
		}
		h.Wait(h.Timing.Presence/2 + h.Slack)
		h.wantOccupancy(t, node, store.Occupancy{Max: 2})
		leases, err := h.Store.Orphans(t.Context(), node)
		if err != nil || len(leases) != 2 {
			t.Errorf("orphans: %v, %v; want both jobs", leases, err)
		}
		return true
	})
}

func testProbeClosed(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	wantClosed := func(when string, want bool) {
		t.Helper()
		if got := h.occupancy(t, "node-a"); got.Closed != want || got.Free() == want {
			t.Errorf("%s: %+v, want closed %v", when, got, want)
		}
	}
	wantClosed("ready", false)
	degraded := h.heartbeat(t, n, heartbeat{seq: 1, health: core.HealthDegraded}).Node
	wantClosed("degraded", true)
	h.heartbeat(t, degraded, heartbeat{seq: 2, health: core.HealthReady})
	wantClosed("ready again", false)
	if _, err := h.Store.Drain(t.Context(), store.DrainParams{Node: "node-a", Drained: true}); err != nil {
		t.Fatal(err)
	}
	wantClosed("drained", true)
	if _, err := h.Store.Drain(t.Context(), store.DrainParams{Node: "node-a"}); err != nil {
		t.Fatal(err)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	wantClosed("silent", true)
	if _, err := h.Store.Register(t.Context(),
		store.RegisterParams{Node: declaredNode("node-a", 1), Load: core.UnknownLoad, Returning: true}); err != nil {
		t.Fatal(err)
	}
	wantClosed("held", true)
	if o := h.occupancy(t, "node-a"); !o.Held {
		t.Errorf("held: %+v, want Held", o)
	}
	h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{}})
	wantClosed("after it listed its jobs", false)
}
