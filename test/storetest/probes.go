package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// probeBehaviours is the specification of reservations for probes.
var probeBehaviours = []behaviour{
	{"a probe is granted on a drained and on an ejected node, up to the slots that it declares", testReserveProbe},
	{"a probe that cannot be granted has the verdict that says why", testReserveProbeVerdicts},
	{"a repeated reservation of a probe takes no second slot", testReserveProbeIsIdempotent},
	{"probes and jobs together get exactly the slots that there are", testConcurrentProbes},
	{"the lease of a probe is one as any other", testProbeLease},
	{"a record remembers that its job is a probe", testProbeRecord},
}

// reserveProbe reserves a slot for a probe.
func reserveProbe(t *testing.T, h *Harness, n *core.Node, job core.JobID) store.Reservation {
	t.Helper()
	r, err := h.Store.Reserve(t.Context(),
		store.ReserveParams{Lease: leaseRef(n.ID, job), Epoch: n.Epoch, Revision: n.Revision, Probe: true})
	if err != nil {
		t.Fatalf("reserve %s for a probe: %v", n.ID, err)
	}
	return r
}

// wantProbe checks the verdict on a probe, and the free slots after it.
func wantProbe(t *testing.T, h *Harness, n *core.Node, job core.JobID, want store.Verdict, free int) {
	t.Helper()
	if got := reserveProbe(t, h, n, job); got != (store.Reservation{Verdict: want, Free: free}) {
		t.Errorf("probe %s of %s: %s with %d free, want %s with %d", job, n.ID, got.Verdict, got.Free, want, free)
	}
}

func testReserveProbe(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	h.mustReserve(t, n, "job-1")
	if _, err := h.Store.Drain(t.Context(), store.DrainParams{Node: n.ID, Drained: true}); err != nil {
		t.Fatal(err)
	}
	if v := h.reserve(t, n, "job-2"); v != store.NotReady {
		t.Errorf("a job on a drained node: %s", v)
	}
	wantProbe(t, h, n, "probe-1", store.OK, 0)
	wantProbe(t, h, n, "probe-2", store.Full, 0)
	h.release(t, leaseRef(n.ID, "probe-1"), false)
	if _, err := h.Store.Drain(t.Context(), store.DrainParams{Node: n.ID}); err != nil {
		t.Fatal(err)
	}
	h.flush()
	ejected := core.Admission{Limited: true, Reason: core.AdmissionFailing, Times: 1}
	if _, _, err := h.Store.Admit(t.Context(), store.AdmitParams{Node: n.ID, Admission: ejected, Fence: 1}); err != nil {
		t.Fatal(err)
	}
	if v := h.reserve(t, n, "job-2"); v != store.Full {
		t.Errorf("a job on an ejected node: %s", v)
	}
	wantProbe(t, h, n, "probe-2", store.OK, 0)
	wantProbe(t, h, n, "probe-3", store.Full, 0)
	h.wantOccupancy(t, n.ID, store.Occupancy{Max: 2, Reserved: 2, Withheld: 2})
}

func testReserveProbeVerdicts(t *testing.T, h *Harness) {
	n, none := h.register(t, "node-a", 1), h.register(t, "node-none", 0)
	old, changed, unknown := *n, *n, declaredNode("node-x", 1)
	old.Epoch--
	changed.Revision--
	wantProbe(t, h, &old, "probe-1", store.StaleEpoch, 1)
	wantProbe(t, h, &changed, "probe-1", store.StaleRevision, 1)
	wantProbe(t, h, &unknown, "probe-1", store.UnknownNode, 0)
	wantProbe(t, h, none, "probe-1", store.NoCapacity, 0)

	away := h.registerOver(t, "node-away", 1)
	if away = h.connect(t, away, 1, true); !away.Disconnected {
		t.Fatal("it is not disconnected")
	}
	if got := reserveProbe(t, h, away, "probe-1"); got.Verdict != store.NotReady {
		t.Errorf("a probe of a disconnected node: %s", got.Verdict)
	}
	for _, health := range []core.Health{core.HealthDegraded, core.HealthDraining, core.HealthOffline} {
		declared := declaredNode(core.NodeID("node-"+health.String()), 1)
		declared.Health = health
		r, err := h.Store.Register(t.Context(),
			store.RegisterParams{Node: declared, Load: core.UnknownLoad, Activity: store.Activity{Lists: true}})
		if err != nil {
			t.Fatal(err)
		}
		if got := reserveProbe(t, h, r.Node, "probe-1"); got.Verdict != store.NotReady {
			t.Errorf("a probe of a node that is %s: %s", health, got.Verdict)
		}
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if got := reserveProbe(t, h, n, "probe-1"); got.Verdict != store.NotReady {
		t.Errorf("a probe of a silent node: %s", got.Verdict)
	}
	r, err := h.Store.Reserve(expiredContext(t),
		store.ReserveParams{Lease: leaseRef(n.ID, "probe-2"), Epoch: n.Epoch, Revision: n.Revision, Probe: true})
	if err == nil && r.Verdict != store.TooLate {
		t.Errorf("reserve past its deadline: %s, want TOO_LATE", r.Verdict)
	}
	for _, job := range []core.JobID{"probe-1", "probe-2"} {
		if l, err := h.Store.Leases(t.Context(), leaseRef(n.ID, job)); err != nil || l[0].State != 0 {
			t.Errorf("%s took effect: %+v, %v", job, l, err)
		}
	}
}

func testReserveProbeIsIdempotent(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	for range 3 {
		wantProbe(t, h, n, "probe-1", store.OK, 0)
	}
	h.wantOccupancy(t, n.ID, store.Occupancy{Max: 1, Reserved: 1})
}

func testConcurrentProbes(t *testing.T, h *Harness) {
	const slots, callers = 7, 64
	n := h.register(t, "node-a", slots)
	var granted atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			r, err := h.Store.Reserve(t.Context(), store.ReserveParams{
				Lease: leaseRef(n.ID, core.JobID(fmt.Sprintf("job-%d", i))), Epoch: n.Epoch, Revision: n.Revision, Probe: i%2 == 0,
			})
			switch {
			case err != nil:
				t.Errorf("reserve: %v", err)
			case r.Verdict == store.OK:
				granted.Add(1)
			}
		})
	}
	wg.Wait()
	if got := granted.Load(); got != slots {
		t.Errorf("%d granted, want %d", got, slots)
	}
	h.wantOccupancy(t, n.ID, store.Occupancy{Max: slots, Reserved: slots})
}

func testProbeLease(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	wantProbe(t, h, n, "probe-1", store.OK, 0)
	if !h.commit(t, leaseRef(n.ID, "probe-1")) {
		t.Error("it cannot be committed")
	}
	h.wantOccupancy(t, n.ID, store.Occupancy{Max: 1, Running: 1})
	if orphans := h.heartbeat(t, n, heartbeat{active: []core.JobID{"probe-1"}}).Orphans; len(orphans) > 0 {
		t.Errorf("orphans: %v", orphans)
	}
	wantProbe(t, h, n, "probe-2", store.Full, 0)
	h.revoke(t, n.ID, "probe-1") // the node may still have it
	wantProbe(t, h, n, "probe-2", store.Full, 0)
	h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{}})
	h.heartbeat(t, n, heartbeat{seq: 2, active: []core.JobID{}})
	wantProbe(t, h, n, "probe-2", store.OK, 0)
}

func testProbeRecord(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	p := h.jobParams("probe-1", n.ID, "t.1")
	p.Spec.TestJob = true
	if job := h.create(t, p); !job.TestJob {
		t.Error("the created record is not one of a probe")
	}
	job, err := h.Store.Get(t.Context(), "probe-1")
	if err != nil || !job.TestJob {
		t.Errorf("the record is %+v, %v", job, err)
	}
}
