package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// The part of the specification of Nodes.Admit that is about the decisions themselves: fences, repetitions and errors.

// readNode reads a node.
func readNode(t *testing.T, h *Harness, id core.NodeID) (*core.Node, error) {
	t.Helper()
	status, err := store.ReadNode(t.Context(), h.Store, id)
	return status.Node, err
}

func testAdmissionFence(t *testing.T, h *Harness) {
	const fence = 1_900_000_000_000 // as a lock has it: a time in milliseconds
	n := h.register(t, "node-a", 9)
	limit := 9
	for i, c := range []struct {
		fence    int64
		admitted bool
	}{{fence, true}, {fence - 1, false}, {1, false}, {fence, true}, {fence + 1, true}, {fence, false}} {
		before, err := readNode(t, h, "node-a")
		if err != nil {
			t.Fatal(err)
		}
		now, admitted, err := h.Store.Admit(t.Context(), store.AdmitParams{Node: "node-a", Fence: c.fence, Admission: limitTo(i)})
		if err != nil || admitted != c.admitted {
			t.Fatalf("fence %d: admitted %v, %v", c.fence-fence, admitted, err)
		}
		if admitted {
			limit = i
		} else if diff := cmp.Diff(before, now); diff != "" {
			t.Errorf("a fenced decision changed the node (-want +got):\n%s", diff)
		}
		if now.Slots() != limit {
			t.Errorf("fence %d: %d slots are admitted, want %d", c.fence-fence, now.Slots(), limit)
		}
	}
	for i := range limit {
		h.mustReserve(t, n, core.JobID(fmt.Sprint("job-", i)))
	}
	wantFull(t, h, n, "beyond the last decision that was not fenced")
}

func testConcurrentAdmissions(t *testing.T, h *Harness) {
	const leaders = 12
	n := h.register(t, "node-a", leaders+1)
	var wg sync.WaitGroup
	for _, leader := range rand.Perm(leaders) {
		wg.Go(func() {
			for range 4 {
				p := store.AdmitParams{Node: "node-a", Fence: int64(leader) + 1, Admission: limitTo(leader)}
				if _, _, err := h.Store.Admit(t.Context(), p); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h.heartbeat(t, n, heartbeat{}) // on a busy machine the node could be absent by now
	h.wantOccupancy(t, "node-a", store.Occupancy{Max: leaders + 1, Withheld: 2})
	for i := range leaders - 1 {
		h.mustReserve(t, n, core.JobID(fmt.Sprint("job-", i)))
	}
	wantFull(t, h, n, "beyond what the last leader admitted")
}

func testRepeatedAdmission(t *testing.T, h *Harness) {
	h.register(t, "node-a", 4)
	read := func() store.NodeStatus {
		t.Helper()
		status, err := store.ReadNode(t.Context(), h.Store, "node-a")
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	before := read().At
	first := admit(t, h, "node-a", 1, limitTo(1))
	after := read()
	if a := first.Admission; a.Since.Before(before) || a.Since.After(after.At) || a.Until.Sub(a.Since) != time.Minute {
		t.Errorf("decided between %v and %v for a minute: %+v", before, after.At, a)
	}
	if left := after.Node.Admission.Remaining(after.At); left > time.Minute || left < time.Minute-after.At.Sub(before) {
		t.Errorf("%v are left of a minute", left)
	}
	h.Wait(h.Timing.ReservedTTL)
	for _, fence := range []int64{1, 2} { // also by the next leader, which does not know who decided it
		if again := admit(t, h, "node-a", fence, limitTo(1)); cmp.Diff(first, again) != "" {
			t.Errorf("a repeated decision changed the node (-first +again):\n%s", cmp.Diff(first, again))
		}
	}
	if _, admitted, err := h.Store.Admit(t.Context(), store.AdmitParams{Node: "node-a", Fence: 1}); err != nil || admitted {
		t.Errorf("a decision with the fence before the repetition: %v, %v", admitted, err)
	}
	for i, p := range []store.AdmitParams{
		{Admission: limitTo(2), For: time.Minute},
		{Admission: limitTo(2), For: time.Hour},
		{Admission: limitTo(2)},
		{Admission: core.Admission{Limited: true, Slots: 2, Reason: core.AdmissionSilent, Times: 1}},
		{Admission: core.Admission{Limited: true, Slots: 2, Reason: core.AdmissionSilent, Times: 2}},
		{Admission: core.Admission{Reason: core.AdmissionSilent, Times: 2}, For: time.Hour},
	} {
		p.Node, p.Fence = "node-a", 2
		began := read()
		n, admitted, err := h.Store.Admit(t.Context(), p)
		if err != nil || !admitted || n.Version != began.Node.Version+1 {
			t.Fatalf("decision %d: version %d, %v, %v; want %d", i, n.Version, admitted, err, began.Node.Version+1)
		}
		want := p.Admission
		want.Since = n.Admission.Since
		if p.For > 0 {
			want.Until = want.Since.Add(p.For)
		}
		if diff := cmp.Diff(want, n.Admission); diff != "" || want.Since.Before(began.At) {
			t.Errorf("decision %d at %v (-want +got):\n%s", i, began.At, diff)
		}
	}
}

func testAdmissionIsPublished(t *testing.T, h *Harness) {
	h.register(t, "node-a", 4)
	changes := h.watch(t)
	for i, a := range []core.Admission{limitTo(0), limitTo(1), {}} {
		want := admit(t, h, "node-a", int64(i+1), a)
		for c := range changes {
			if c.Now.Node.Version == want.Version {
				if diff := cmp.Diff(want, c.Now.Node); diff != "" || c.Now.Slots() != want.Slots() {
					t.Errorf("%d slots (-want +got):\n%s", c.Now.Slots(), diff)
				}
				break
			}
		}
	}
}

func testBadAdmissions(t *testing.T, h *Harness) {
	p := store.AdmitParams{Node: "node-x", Fence: 1, Admission: limitTo(0)}
	if n, admitted, err := h.Store.Admit(t.Context(), p); !errors.Is(err, store.ErrNoNode) || admitted || n != nil {
		t.Errorf("on an unknown node: %v, %v, %v; want ErrNoNode", n, admitted, err)
	}
	if _, err := readNode(t, h, "node-x"); !errors.Is(err, store.ErrNoNode) {
		t.Errorf("a decision made a node: %v", err)
	}
	before := h.register(t, "node-a", 4)
	for name, p := range map[string]store.AdmitParams{
		"negative slots": {Fence: 1, Admission: limitTo(-1)},
		"too many slots": {Fence: 1, Admission: limitTo(core.MaxConcurrentJobs + 1)},
		"no reason":      {Fence: 1, Admission: core.Admission{Limited: true}},
		"another reason": {Fence: 1, Admission: core.Admission{Limited: true, Reason: "failing 1 2 3"}},
		"negative times": {Fence: 1, Admission: core.Admission{Times: -1}},
		"negative time":  {Fence: 1, Admission: limitTo(0), For: -time.Second},
		"no fence":       {Admission: limitTo(0)},
	} {
		p.Node = "node-a"
		if n, admitted, err := h.Store.Admit(t.Context(), p); !errors.Is(err, core.ErrBadAdmission) || admitted || n != nil {
			t.Errorf("%s: %v, %v, %v; want ErrBadAdmission", name, n, admitted, err)
		}
	}
	p.Node = "node-a"
	if _, admitted, err := h.Store.Admit(expiredContext(t), p); err == nil || admitted {
		t.Errorf("past its deadline: %v, %v", admitted, err)
	}
	if now, err := readNode(t, h, "node-a"); err != nil || cmp.Diff(before, now) != "" {
		t.Errorf("%v (-before +now):\n%s", err, cmp.Diff(before, now))
	}
}
