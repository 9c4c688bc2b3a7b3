package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

func exerciseLedger(_ *testing.T, run runner) {
	run("slots are granted up to the maximum and not one more", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 3)
		h.mustReserve(t, n, "job-1", "job-2", "job-3")
		if v := h.reserve(t, n, "job-4"); v != store.Full {
			t.Errorf("the fourth of three slots: %s, want FULL", v)
		}
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 3, Reserved: 3})
		h.release(t, ref("node-a", "job-2"), false)
		h.mustReserve(t, n, "job-4")
	})

	run("reserving the same lease again takes nothing more", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		for range 3 {
			h.mustReserve(t, n, "job-1") // also when the node is full of it
		}
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1, Reserved: 1})
	})

	run("two dispatchers of one job hold two leases and free only their own", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		h.mustReserve(t, n, "job-1")
		other := ref("node-a", "job-1")
		other.Token = "t.other"
		r, err := h.Store.Reserve(t.Context(), store.ReserveParams{
			Lease: other, Epoch: n.Epoch, Revision: n.Revision,
		})
		if err != nil || r.Verdict != store.OK {
			t.Fatalf("reserve by another dispatcher: %v, %v", r.Verdict, err)
		}
		h.release(t, other, false)
		h.release(t, other, false)
		if l, err := h.Store.Leases(t.Context(), ref("node-a", "job-9"), ref("node-a", "job-1")); err != nil || l[0].State != 0 || l[1].Token != "t.job-1" {
			t.Errorf("the other's release freed ours: %v, %v", l, err)
		}
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2, Reserved: 1})
	})

	run("every verdict", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		none := h.register(t, "node-none", 0)
		old, changed := *n, *n
		old.Epoch--
		changed.Revision--
		unknown := declared("node-x", 1)
		for _, c := range []struct {
			on   core.Node
			want store.Verdict
		}{{old, store.StaleEpoch}, {changed, store.StaleRevision}, {unknown, store.UnknownNode}, {*none, store.NoCapacity}, {*n, store.OK}} {
			if got := h.reserve(t, &c.on, "job-1"); got != c.want {
				t.Errorf("reserve on %s epoch %d revision %d: %s, want %s", c.on.ID, c.on.Epoch, c.on.Revision, got, c.want)
			}
		}
		r, err := h.Store.Reserve(late(t), store.ReserveParams{Lease: ref("node-a", "job-2"), Epoch: n.Epoch, Revision: n.Revision})
		if err == nil && r.Verdict != store.TooLate {
			t.Errorf("reserve past its deadline: %s, want TOO_LATE", r.Verdict)
		}
		if l, err := h.Store.Leases(t.Context(), ref("node-a", "job-2")); err != nil || l[0].State != 0 {
			t.Error("a reservation past its deadline took effect")
		}
	})

	run("a probe says whether anything would be granted", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		wantClosed := func(when string, want bool) {
			t.Helper()
			if got := h.occupancy(t, "node-a"); got.Closed != want || got.Free() == want {
				t.Errorf("%s: %+v, want closed %v", when, got, want)
			}
		}
		wantClosed("ready", false)
		sick := h.beat(t, n, beat{seq: 1, health: core.HealthDegraded}).Node
		wantClosed("degraded", true)
		h.beat(t, sick, beat{seq: 2, health: core.HealthReady})
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
		if _, err := h.Store.Register(t.Context(), store.RegisterParams{Node: declared("node-a", 1), Load: core.UnknownLoad, Returning: true}); err != nil {
			t.Fatal(err)
		}
		wantClosed("held", true)
		if o := h.occupancy(t, "node-a"); !o.Held {
			t.Errorf("held: %+v does not say so", o)
		}
		h.beat(t, n, beat{seq: 1, active: []core.JobID{}})
		wantClosed("it lists its jobs", false)
	})

	run("a lease that lapsed can be reserved again, once", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		h.mustReserve(t, n, "job-1")
		h.Wait(max(h.Timing.Presence, h.Timing.Attempt+h.Timing.ReservedTTL) + h.Slack)
		h.beat(t, n, beat{seq: 1}) // when the node cannot be working on it any more it renews nothing
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2})
		h.mustReserve(t, n, "job-1", "job-1")
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2, Reserved: 1})
		leases, err := h.Store.Orphans(t.Context(), "node-a")
		if err != nil || len(leases) != 1 {
			t.Errorf("the set has %d members, want 1 (%v)", len(leases), err)
		}
	})

	run("a handle that is out of date does no harm", func(t *testing.T, h *Harness) {
		h.register(t, "node-a", 1)
		before, err := h.Store.Node(t.Context(), "node-a")
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Store.Remove(t.Context(), store.RemoveParams{Node: "node-a"}); err != nil {
			t.Fatal(err)
		}
		n := h.register(t, "node-a", 1)
		r, err := h.Store.Reserve(t.Context(), store.ReserveParams{
			Lease: ref("node-a", "job-1"), Handle: before.Handle, Epoch: n.Epoch, Revision: n.Revision,
		})
		if err != nil || r.Verdict != store.OK {
			t.Fatalf("reserve: %v, %v", r.Verdict, err)
		}
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1, Reserved: 1})
		if err := h.Store.Release(t.Context(), store.ReleaseParams{Lease: ref("node-a", "job-1"), Handle: before.Handle}); err != nil {
			t.Fatal(err)
		}
		h.settle()
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 1})
	})

	run("a commit moves a slot from reserved to running, once", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		h.mustReserve(t, n, "job-1", "job-2")
		for range 2 {
			if !h.commit(t, ref("node-a", "job-1")) {
				t.Error("commit of a live lease was refused")
			}
		}
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2, Reserved: 1, Running: 1})
	})

	run("what does not live cannot be committed", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 4)
		h.mustReserve(t, n, "job-1", "job-2", "job-3", "job-4")
		forged := ref("node-a", "job-1")
		forged.Token = "t.forged"
		h.release(t, ref("node-a", "job-2"), false)
		h.release(t, ref("node-a", "job-3"), true)
		if err := h.Store.Revoke(t.Context(), ref("node-a", "job-4")); err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]core.LeaseRef{
			"another's token": forged, "released": ref("node-a", "job-2"), "parked": ref("node-a", "job-3"),
			"revoked": ref("node-a", "job-4"), "never reserved": ref("node-a", "job-5"), "unknown node": ref("node-x", "job-1"),
		} {
			if h.commit(t, r) {
				t.Errorf("commit of a lease that is %s was accepted", name)
			}
		}
		h.Wait(h.Timing.Presence + h.Slack)
		if h.commit(t, ref("node-a", "job-1")) {
			t.Error("commit of an expired lease was accepted")
		}
	})

	run("a parked lease takes no slot but still names its job", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 1)
		h.mustReserve(t, n, "job-1")
		h.release(t, ref("node-a", "job-1"), true)
		h.mustReserve(t, n, "job-2")
		names, err := h.Store.Orphans(t.Context(), "node-a")
		if err != nil {
			t.Fatal(err)
		}
		want := map[core.JobID]core.LeaseState{"job-1": core.LeaseParked, "job-2": core.LeaseReserved}
		if diff := cmp.Diff(want, jobsOf(names)); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
		pulse := h.beat(t, n, beat{seq: 1, active: []core.JobID{"job-2"}})
		if diff := cmp.Diff(map[core.JobID]core.LeaseState{"job-1": core.LeaseParked}, jobsOf(pulse.Orphans)); diff != "" {
			t.Errorf("orphans (-want +got):\n%s", diff)
		}
		h.release(t, ref("node-a", "job-1"), false)
		if names, _ = h.Store.Orphans(t.Context(), "node-a"); len(names) != 1 {
			t.Errorf("names after the release: %v", names)
		}
	})

	run("leases of a node that vanished free their slots within the TTL and stay named", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		h.mustReserve(t, n, "job-1", "job-2")
		h.commit(t, ref("node-a", "job-2"))
		h.Wait(h.Timing.Presence / 2)
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2, Reserved: 1, Running: 1})
		h.Wait(h.Timing.Presence/2 + h.Slack)
		h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2})
		names, err := h.Store.Orphans(t.Context(), "node-a")
		if err != nil || len(names) != 2 {
			t.Errorf("orphans: %v, %v; want both jobs", names, err)
		}
	})

	run("a reservation deletes nothing", func(t *testing.T, h *Harness) {
		n := h.register(t, "node-a", 2)
		h.mustReserve(t, n, "job-1")
		h.Wait(h.Timing.Presence + h.Slack)
		h.beat(t, n, beat{seq: 1, active: []core.JobID{}}) // first omission: renewed
		h.release(t, ref("node-a", "job-1"), true)
		h.mustReserve(t, n, "job-2", "job-3")
		names, err := h.Store.Orphans(t.Context(), "node-a")
		if err != nil || len(names) != 3 {
			t.Errorf("names: %v, %v; a reservation dropped an unfinished job", names, err)
		}
	})

	run("many at once never get more than there is", func(t *testing.T, h *Harness) {
		const slots, callers = 7, 64
		n := h.register(t, "node-a", slots)
		var granted atomic.Int32
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				job := core.JobID(fmt.Sprintf("job-%d", i))
				r, err := h.Store.Reserve(t.Context(), store.ReserveParams{
					Lease: ref(n.ID, job), Epoch: n.Epoch, Revision: n.Revision,
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
	})
}
