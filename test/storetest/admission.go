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

// admissionBehaviours is the specification of Nodes.Admit, and of how the ledger applies it.
var admissionBehaviours = []behaviour{
	{"an ejected node keeps its jobs, and gets no new ones until it is admitted again", testEjection},
	{"no more slots than are admitted are granted to concurrent reservations", testConcurrentLimit},
	{"with more leases than are admitted nothing is granted until they fit", testLimitBelowLeases},
	{"the lower of the declared and the admitted slots counts, less the foreign work", testLimitWithForeignWork},
	{"a decision survives registrations, heartbeats, drains and connections", testAdmissionSurvives},
	{"a change that was declared before a decision does not undo it", testAdmissionAndOutdatedDeclaration},
	{"a decision is removed with its node", testAdmissionOfRemovedNode},
	{"a decision with a lower fence changes nothing and says so", testAdmissionFence},
	{"of concurrent decisions the one with the highest fence stays", testConcurrentAdmissions},
	{"a repeated decision changes nothing, and another one begins now", testRepeatedAdmission},
	{"every way to read a node shows how many slots are withheld", testWithheldSlots},
	{"watchers get a change when a decision is made", testAdmissionIsPublished},
	{"a decision on a node that is not registered, or one that contradicts itself, is an error", testBadAdmissions},
}

// limitTo returns a limit of a node's slots.
func limitTo(slots int) core.Admission {
	return core.Admission{Limited: true, Slots: slots, Reason: core.AdmissionFailing, Times: 1}
}

// admit makes a decision on a node that must be accepted, and returns the node as it is then.
func admit(t *testing.T, h *Harness, id core.NodeID, fence int64, a core.Admission) *core.Node {
	t.Helper()
	n, admitted, err := h.Store.Admit(t.Context(), store.AdmitParams{Node: id, Fence: fence, Admission: a, For: time.Minute})
	if err != nil || !admitted {
		t.Fatalf("admit %+v on %s with fence %d: %v, %v", a, id, fence, admitted, err)
	}
	if got := n.Admission; got.Limited != a.Limited || got.Slots != a.Slots || got.Reason != a.Reason || got.Times != a.Times {
		t.Fatalf("%s has the admission %+v, want %+v", id, got, a)
	}
	return n
}

// wantFull checks that no slot of a node is granted because all that may be granted are taken.
func wantFull(t *testing.T, h *Harness, n *core.Node, when string) {
	t.Helper()
	if v := h.reserve(t, n, "job-refused"); v != store.Full {
		t.Errorf("reserve %s: %s, want FULL", when, v)
	}
}

func testEjection(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 2)
	h.mustReserve(t, n, "job-1", "job-2")
	h.release(t, leaseRef("node-a", "job-2"), false)
	ejected := admit(t, h, "node-a", 1, limitTo(0))
	if !ejected.Ejected() || ejected.Version != n.Version+1 || ejected.Revision != n.Revision || ejected.Epoch != n.Epoch {
		t.Errorf("ejected: %+v, want the next version and the same revision", ejected)
	}
	wantFull(t, h, n, "on an ejected node with a free slot")
	h.mustReserve(t, n, "job-1") // the reply to the reservation was lost
	if !h.commit(t, leaseRef("node-a", "job-1")) {
		t.Error("an ejected node lost the job it had")
	}
	if o := h.occupancy(t, "node-a"); o.Closed || !o.Ejected() || o.Free() || o.Running != 1 {
		t.Errorf("occupancy %+v, want it ejected, not closed, with its job", o)
	}
	h.release(t, leaseRef("node-a", "job-1"), false)
	wantFull(t, h, n, "on an ejected node without jobs")
	one := admit(t, h, "node-a", 1, limitTo(1))
	h.mustReserve(t, n, "job-3")
	wantFull(t, h, n, "beyond the one slot that is admitted")
	all := admit(t, h, "node-a", 1, core.Admission{Times: 1, Reason: core.AdmissionFailing})
	if all.Ejected() || all.Slots() != 2 || all.Version != one.Version+1 {
		t.Errorf("admitted again: %+v, want all slots and the next version", all)
	}
	h.mustReserve(t, n, "job-4")
	wantFull(t, h, n, "on a full node")
	if n, _, err := h.Store.Admit(t.Context(), store.AdmitParams{Node: "node-a", Fence: 1}); err != nil ||
		n.Admission != (core.Admission{}) {
		t.Errorf("nothing is to be remembered: %+v, %v; want the zero value", n.Admission, err)
	}
}

func testConcurrentLimit(t *testing.T, h *Harness) {
	const slots, limit, callers = 9, 5, 48
	n := h.register(t, "node-a", slots)
	admit(t, h, "node-a", 1, limitTo(limit))
	reserve := func(round string) int32 {
		var granted atomic.Int32
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				if tryReserve(t, h, n, core.JobID(fmt.Sprintf("%s-%d", round, i))) {
					granted.Add(1)
				}
			})
		}
		wg.Wait()
		return granted.Load()
	}
	if got := reserve("limited"); got != limit {
		t.Errorf("%d slots were granted, want %d", got, limit)
	}
	admit(t, h, "node-a", 1, core.Admission{})
	if got := reserve("admitted"); got != slots-limit {
		t.Errorf("%d more slots were granted without the limit, want %d", got, slots-limit)
	}
	// Reservations while the limit changes: never more than the node declares, and none once it is ejected.
	n = h.register(t, "node-b", slots)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { tryReserve(t, h, n, core.JobID(fmt.Sprintf("job-%d", i))) })
		if i%8 == 0 {
			wg.Go(func() {
				if _, _, err := h.Store.Admit(t.Context(),
					store.AdmitParams{Node: "node-b", Fence: 1, Admission: limitTo(i / 8)}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	admit(t, h, "node-b", 2, limitTo(0))
	before := h.occupancy(t, "node-b")
	wantFull(t, h, n, "after all were ejected")
	if after := h.occupancy(t, "node-b"); after.InFlight() != before.InFlight() || after.InFlight() > slots {
		t.Errorf("%d leases after %d on %d slots", after.InFlight(), before.InFlight(), slots)
	}
}

// tryReserve reserves a slot, in any goroutine, and reports whether it was granted.
func tryReserve(t *testing.T, h *Harness, n *core.Node, job core.JobID) bool {
	r, err := h.Store.Reserve(t.Context(), store.ReserveParams{Lease: leaseRef(n.ID, job), Epoch: n.Epoch, Revision: n.Revision})
	if err != nil || r.Verdict != store.OK && r.Verdict != store.Full {
		t.Errorf("reserve: %s, %v", r.Verdict, err)
	}
	return r.Verdict == store.OK
}

func testLimitBelowLeases(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 4)
	all := []core.JobID{"job-1", "job-2", "job-3"}
	h.mustReserve(t, n, all...)
	admit(t, h, "node-a", 1, limitTo(1))
	for i, job := range all {
		wantFull(t, h, n, fmt.Sprintf("with %d leases on 1 slot", len(all)-i))
		if !h.commit(t, leaseRef("node-a", job)) {
			t.Errorf("%s lost its lease", job)
		}
		h.release(t, leaseRef("node-a", job), false)
	}
	h.mustReserve(t, n, "job-9")
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 4, Withheld: 3, Reserved: 1})
}

func testLimitWithForeignWork(t *testing.T, h *Harness) {
	h.register(t, "node-a", 5)
	n := admit(t, h, "node-a", 1, limitTo(3))
	h.mustReserve(t, n, "job-1")
	two := 2
	h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{"job-1"}, count: &two})
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 5, Withheld: 2, Reserved: 1, Foreign: 1})
	h.mustReserve(t, n, "job-2") // three admitted: a lease, foreign work, and this
	wantFull(t, h, n, "beside foreign work")
	admit(t, h, "node-a", 1, limitTo(2))
	h.release(t, leaseRef("node-a", "job-2"), false)
	wantFull(t, h, n, "beside foreign work, with a lower limit")
	n = admit(t, h, "node-a", 1, limitTo(3))
	h.mustReserve(t, n, "job-2")
	wantFull(t, h, n, "beside foreign work, with the limit as before")
	lower := h.heartbeat(t, n, heartbeat{seq: 2, active: []core.JobID{"job-1", "job-2"}, change: func(n *core.Node) { n.MaxJobs = 2 }}).Node
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 2, Reserved: 2})
	wantFull(t, h, lower, "on a node that has lowered its maximum below the limit")
	higher := h.heartbeat(t, lower,
		heartbeat{seq: 3, active: []core.JobID{"job-1", "job-2"}, change: func(n *core.Node) { n.MaxJobs = 9 }}).Node
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: 9, Withheld: 6, Reserved: 2})
	h.mustReserve(t, higher, "job-3")
	wantFull(t, h, higher, "beyond the limit, whatever the node declares")
	none := h.heartbeat(t, higher, heartbeat{seq: 4, change: func(n *core.Node) { n.MaxJobs = 0 }}).Node
	if v := h.reserve(t, none, "job-4"); v != store.NoCapacity {
		t.Errorf("reserve on a node that declares no slots: %s, want NO_CAPACITY", v)
	}
}

func testAdmissionSurvives(t *testing.T, h *Harness) {
	n := h.registerOver(t, "node-a", 1)
	want := admit(t, h, "node-a", 7, limitTo(1)).Admission
	check := func(when string, n *core.Node) {
		t.Helper()
		if diff := cmp.Diff(want, n.Admission); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", when, diff)
		}
		if read, err := readNode(t, h, "node-a"); err != nil || !read.Admission.Equal(want) || read.Version != n.Version {
			t.Errorf("after %s the node is read as %+v, %v; want version %d", when, read, err, n.Version)
		}
		if !n.AcceptsJobs() {
			return
		}
		h.mustReserve(t, n, "job-1")
		wantFull(t, h, n, "after "+when)
		h.release(t, leaseRef("node-a", "job-1"), false)
	}
	n = h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{}}).Node
	check("a heartbeat", n)
	n = h.heartbeat(t, n, heartbeat{seq: 2, active: []core.JobID{}, change: func(n *core.Node) { n.MaxJobs = 6 }}).Node
	check("a changed maximum", n)
	n = h.heartbeat(t, n, heartbeat{seq: 3, active: []core.JobID{}, change: func(n *core.Node) { n.Admission = core.Admission{} }}).Node
	check("a declaration of another admission", n)
	n = h.heartbeat(t, n, heartbeat{seq: 4, active: []core.JobID{}, health: core.HealthDegraded}).Node
	check("bad health", n)
	n = h.heartbeat(t, n, heartbeat{seq: 5, active: []core.JobID{}, health: core.HealthReady}).Node
	check("good health again", n)
	for _, drained := range []bool{true, false} {
		var err error
		if n, err = h.Store.Drain(t.Context(), store.DrainParams{Node: "node-a", Drained: drained}); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprint("drain ", drained), n)
	}
	n = h.connect(t, n, 1, true)
	check("a lost connection", n)
	n = h.connect(t, n, 2, false)
	check("another connection", n)
	n = h.registerOver(t, "node-a", 1)
	check("a registration", n)
	declared := declaredNode("node-a", 4)
	declared.Admission = core.Admission{Limited: true, Slots: 3, Reason: core.AdmissionSilent}
	r, err := h.Store.Register(t.Context(), store.RegisterParams{Node: declared, Load: core.UnknownLoad})
	if err != nil {
		t.Fatal(err)
	}
	check("a registration with an admission of its own", r.Node)
	if n, admitted, err := h.Store.Admit(t.Context(), store.AdmitParams{Node: "node-a", Fence: 6}); err != nil || admitted ||
		!n.Admission.Equal(want) {
		t.Errorf("a stale decision after the registrations: %v, %v, %+v", admitted, err, n)
	}
	declared.ID = "node-new"
	if r, err := h.Store.Register(t.Context(), store.RegisterParams{Node: declared, Load: core.UnknownLoad}); err != nil ||
		r.Node.Admission != (core.Admission{}) {
		t.Errorf("a new node decides on its own admission: %+v, %v", r.Node, err)
	}
}

func testAdmissionAndOutdatedDeclaration(t *testing.T, h *Harness) {
	known := h.register(t, "node-a", 4)
	ejected := admit(t, h, "node-a", 1, limitTo(0))
	result := h.heartbeat(t, known, heartbeat{seq: 1, change: func(n *core.Node) { n.MaxJobs = 8 }})
	if result.Node.MaxJobs != 4 || !result.Node.Admission.Equal(ejected.Admission) || result.Node.Version != ejected.Version {
		t.Errorf("a declaration on an earlier version was applied: %+v", result.Node)
	}
	wantFull(t, h, result.Node, "after a declaration on an earlier version")
	next := h.heartbeat(t, result.Node, heartbeat{seq: 2, change: func(n *core.Node) { n.MaxJobs = 8 }}).Node
	if next.MaxJobs != 8 || !next.Admission.Equal(ejected.Admission) {
		t.Errorf("after the declaration was repeated: %+v", next)
	}
	wantFull(t, h, next, "after the declaration was repeated")
}

func testAdmissionOfRemovedNode(t *testing.T, h *Harness) {
	h.register(t, "node-a", 2)
	admit(t, h, "node-a", 9, limitTo(0))
	if _, err := h.Store.Remove(t.Context(), store.RemoveParams{Node: "node-a"}); err != nil {
		t.Fatal(err)
	}
	n := h.register(t, "node-a", 2)
	if n.Admission != (core.Admission{}) {
		t.Errorf("the node that registered after the removal has the admission %+v", n.Admission)
	}
	h.mustReserve(t, n, "job-1", "job-2")
	admit(t, h, "node-a", 1, limitTo(1)) // the fence was removed too
}

func testWithheldSlots(t *testing.T, h *Harness) {
	h.register(t, "node-a", 4)
	n := admit(t, h, "node-a", 1, limitTo(1))
	h.mustReserve(t, n, "job-1")
	want := store.Occupancy{Max: 4, Withheld: 3, Reserved: 1}
	check := func(how string, o store.Occupancy) {
		t.Helper()
		if diff := cmp.Diff(want, o); diff != "" {
			t.Errorf("%s (-want +got):\n%s", how, diff)
		}
		if o.Slots() != 1 || o.Free() || o.Ejected() {
			t.Errorf("%s: %d slots, free %v, ejected %v", how, o.Slots(), o.Free(), o.Ejected())
		}
	}
	check("probe", h.occupancy(t, "node-a"))
	status, err := store.ReadNode(t.Context(), h.Store, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	check("node", status.Occupancy)
	all, err := h.Store.Nodes(t.Context())
	if err != nil || len(all) != 1 || !all[0].Node.Admission.Equal(n.Admission) || all[0].At.Before(n.Admission.Since) {
		t.Fatalf("nodes: %+v, %v", all, err)
	}
	check("nodes", all[0].Occupancy)
	result := h.heartbeat(t, n, heartbeat{seq: 1, active: []core.JobID{"job-1"}})
	check("heartbeat", result.Occupancy)
	if result.Node != n || result.At.Before(n.Admission.Since) {
		t.Errorf("a heartbeat without a change returned %+v, read at %v", result.Node, result.At)
	}
	r, err := h.Store.Register(t.Context(), store.RegisterParams{
		Node: declaredNode("node-a", 4), Load: core.UnknownLoad,
		Activity: store.Activity{Lists: true, Active: []store.ActiveJob{{Job: "job-1", Attempt: 1}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want.Reserved, want.Running = 0, 1
	check("registration", r.Occupancy)
	if r.At.Before(n.Admission.Since) {
		t.Errorf("registered at %v, before the decision at %v", r.At, n.Admission.Since)
	}
}
