package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// markBehaviours is the specification of Marks.
var markBehaviours = []behaviour{
	{"a mark is listed until it expires", testMarkExpires},
	{"marks of a service and of its versions are distinct", testMarksOfVersions},
	{"a mark of the same service replaces the first, and keeps the higher version of the node", testMarkReplaced},
	{"a registration removes the marks, and refuses those of the epoch before", testMarksEndWithEpoch},
	{"a node remembers since which version each service is ready", testReadySince},
	{"a mark after a missed deadline changes nothing", testLateMark},
	{"a node has a limited number of marks", testMarksAreLimited},
	{"the marks of any number of nodes are listed in the order of the nodes", testMarksOfManyNodes},
}

// mark writes a mark that must be accepted.
func (h *Harness) mark(t *testing.T, m store.Mark) {
	t.Helper()
	if err := h.Store.Mark(t.Context(), m); err != nil {
		t.Fatalf("mark %+v: %v", m, err)
	}
}

// markOf is a mark of a node as it is.
func markOf(n *core.Node, service, version string, d time.Duration) store.Mark {
	return store.Mark{Node: n.ID, Service: service, Version: version, Epoch: n.Epoch, NodeVersion: n.Version, For: d}
}

// listMarks lists the marks of a node by service and version, without their remaining times, which must be more than 0 and at most max.
func listMarks(t *testing.T, h *Harness, id core.NodeID, maxFor time.Duration) []store.Mark {
	t.Helper()
	marks, err := h.Store.Marked(t.Context(), id)
	if err != nil {
		t.Fatalf("marked: %v", err)
	}
	for i, m := range marks {
		if m.For <= 0 || m.For > maxFor {
			t.Errorf("%s@%s is marked for %v, want at most %v", m.Service, m.Version, m.For, maxFor)
		}
		marks[i].For = 0
	}
	slices.SortFunc(marks, func(a, b store.Mark) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Version, b.Version))
	})
	return marks
}

func testMarkExpires(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	h.mark(t, markOf(n, "asr-x", "", h.Timing.Presence))
	want := markOf(n, "asr-x", "", 0)
	if diff := gocmp.Diff([]store.Mark{want}, listMarks(t, h, n.ID, h.Timing.Presence)); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if marks := listMarks(t, h, n.ID, 0); len(marks) != 0 {
		t.Errorf("marked after expiry: %v", marks)
	}
}

func testMarksOfVersions(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	want := []store.Mark{ // in order; names may contain any character
		markOf(n, "1:a", "b", 0), markOf(n, "a", "", 0), markOf(n, "a", "1", 0), markOf(n, "a", "b:c", 0), markOf(n, "a:b", "c", 0),
		markOf(n, "a@1", "", 0), markOf(n, "服务", "一", 0),
	}
	for _, m := range want {
		m.For = time.Hour
		h.mark(t, m)
	}
	if diff := gocmp.Diff(want, listMarks(t, h, n.ID, time.Hour)); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
}

func testMarkReplaced(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	m := markOf(n, "asr-x", "1", time.Minute)
	for _, step := range []struct{ version, want core.Version }{{3, 3}, {2, 3}, {5, 5}} {
		m.NodeVersion, m.For = step.version, m.For+time.Minute
		h.mark(t, m)
		marks := listMarks(t, h, n.ID, m.For)
		if len(marks) != 1 || marks[0].NodeVersion != step.want {
			t.Errorf("marked at version %d: %+v, want one mark at %d", step.version, marks, step.want)
		}
		if longest, err := h.Store.Marked(t.Context(), n.ID); err != nil || longest[0].For <= m.For-time.Minute {
			t.Errorf("marked for %v, %v; want %v", longest, err, m.For)
		}
	}
}

func testMarksEndWithEpoch(t *testing.T, h *Harness) {
	first := h.register(t, "node-a", 1)
	h.mark(t, markOf(first, "asr-x", "", time.Hour))
	second := h.register(t, "node-a", 1)
	if marks := listMarks(t, h, "node-a", time.Hour); len(marks) != 0 {
		t.Errorf("marks after a registration: %v", marks)
	}
	if err := h.Store.Mark(t.Context(), markOf(first, "asr-x", "", time.Hour)); !errors.Is(err, store.ErrNoNode) {
		t.Errorf("a mark of the epoch before: %v, want ErrNoNode", err)
	}
	h.mark(t, markOf(second, "asr-x", "", time.Hour))
	if marks := listMarks(t, h, "node-a", time.Hour); len(marks) != 1 {
		t.Errorf("marks in the new epoch: %v", marks)
	}
}

func testReadySince(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	declare := func(status core.ServiceStatus, slots int) {
		t.Helper()
		n = h.heartbeat(t, n, heartbeat{change: func(next *core.Node) {
			next.MaxJobs = slots
			next.Services = []core.Service{{ID: "asr", Version: "1", Status: status}}
		}}).Node
	}
	for _, step := range []struct {
		status core.ServiceStatus
		slots  int
		ready  bool // since this step
	}{
		{core.ServiceReady, 1, true}, {core.ServiceReady, 2, false}, {core.ServiceError, 2, false}, {core.ServiceReady, 2, true},
		{core.ServiceReady, 3, false},
	} {
		var want core.Version
		if step.status == core.ServiceReady && len(n.Services) > 0 {
			want = n.Services[0].ReadySince
		}
		declare(step.status, step.slots)
		if step.ready {
			want = n.Version
		}
		stored, err := store.ReadNode(t.Context(), h.Store, n.ID)
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]*core.Node{"the heartbeat": n, "the store": stored.Node} {
			if since := got.Services[0].ReadySince; since != want {
				t.Errorf("%s with %d slots: %s has it ready since version %d, want %d", step.status, step.slots, name, since, want)
			}
		}
	}
}

func testLateMark(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	if err := h.Store.Mark(expiredContext(t), markOf(n, "asr-x", "", time.Hour)); err == nil {
		t.Error("no error")
	}
	if marks := listMarks(t, h, n.ID, time.Hour); len(marks) != 0 {
		t.Errorf("it has marked: %v", marks)
	}
}

func testMarksAreLimited(t *testing.T, h *Harness) {
	n := h.register(t, "node-a", 1)
	for i := range store.MaxMarks + 2 {
		// The two that expire first are neither the first nor the last.
		d := time.Hour + time.Duration(i)*time.Second
		if i == 7 || i == 9 {
			d = time.Minute + time.Duration(i)*time.Second
		}
		h.mark(t, markOf(n, fmt.Sprintf("s-%03d", i), "", d))
	}
	h.mark(t, markOf(n, "s-011", "", time.Hour)) // one that is marked takes no place
	var want, got []string
	for i := range store.MaxMarks + 2 {
		if i != 7 && i != 9 {
			want = append(want, fmt.Sprintf("s-%03d", i))
		}
	}
	for _, m := range listMarks(t, h, n.ID, 2*time.Hour) {
		got = append(got, m.Service)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
}

func testMarksOfManyNodes(t *testing.T, h *Harness) {
	const many = 150 // more than one batch
	var ids []core.NodeID
	for i := range many {
		id := core.NodeID(fmt.Sprintf("node-%d", i))
		ids = append(ids, id)
		n := h.register(t, id, 1)
		if i%50 == 7 {
			h.mark(t, markOf(n, "asr-x", "", time.Hour))
		}
	}
	marks, err := h.Store.Marked(t.Context(), append(ids, "node-unknown")...)
	if err != nil {
		t.Fatal(err)
	}
	var found []core.NodeID
	for _, m := range marks {
		found = append(found, m.Node)
	}
	if diff := gocmp.Diff([]core.NodeID{"node-7", "node-57", "node-107"}, found); diff != "" {
		t.Errorf("nodes with marks (-want +got):\n%s", diff)
	}
}
