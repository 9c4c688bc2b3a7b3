package fleet

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestNodeFillsTwoCacheLines checks that what every selection reads is in the first cache line of a node, and that no node extends into
// a third.
func TestNodeFillsTwoCacheLines(t *testing.T) {
	t.Parallel()
	const line = 64
	var n Node
	if size := unsafe.Sizeof(n); size != 2*line {
		t.Errorf("a node has %d bytes, want %d", size, 2*line)
	}
	for name, end := range map[string]uintptr{
		"summary":       unsafe.Offsetof(n.summary) + unsafe.Sizeof(n.summary),
		"lastSeen":      unsafe.Offsetof(n.lastSeen) + unsafe.Sizeof(n.lastSeen),
		"others":        unsafe.Offsetof(n.others) + unsafe.Sizeof(n.others),
		"load":          unsafe.Offsetof(n.load) + unsafe.Sizeof(n.load),
		"setAsideUntil": unsafe.Offsetof(n.setAsideUntil) + unsafe.Sizeof(n.setAsideUntil),
		"ours":          unsafe.Offsetof(n.ours) + unsafe.Sizeof(n.ours),
		"id":            unsafe.Offsetof(n.id) + unsafe.Sizeof(n.id),
	} {
		if end > line {
			t.Errorf("%s ends at byte %d, beyond the first cache line", name, end)
		}
	}
}

// TestUtilizationUsesAdmittedSlots checks that the current limit counts, not that of the observation.
func TestUtilizationUsesAdmittedSlots(t *testing.T) {
	t.Parallel()
	f, n := fleetWithNode(t, 8)
	now := f.Now()
	f.Observe(n, 1, 8, now)
	for _, c := range []struct {
		limit func(*core.Node)
		want  float64
	}{
		{limitedTo(4), 0.25},
		{limitedTo(1), 1},
		{limitedTo(0), 1},
		{limitedTo(100), 0.125},
		{func(n *core.Node) { n.Admission = core.Admission{} }, 0.125},
	} {
		f.Redeclare(successor(n.Declared(), c.limit))
		if got := f.Utilization(n, now); got != c.want {
			t.Errorf("share %v of %d slots, want %v", got, n.Summary().Slots(), c.want)
		}
	}
	f.Redeclare(successor(n.Declared(), limitedTo(2)))
	f.ObserveFree(n, 1, now)
	if inFlight, known := f.InFlight(n, now); !known || inFlight != 1 {
		t.Errorf("%d in flight with one of two slots free", inFlight)
	}
}

// TestMeanUtilizationIsOfAdmittedSlots checks that a status and a heartbeat count against the slots that may be granted: a node with
// one job, or more, on its only admitted slot makes the mean rise as any full node does, and an ejected one has no share.
func TestMeanUtilizationIsOfAdmittedSlots(t *testing.T) {
	t.Parallel()
	mean := func(change func(*core.Node), jobs int) float64 {
		f := agedFleet()
		for range 2000 {
			f.Update(status(declared("a", change), running(jobs)))
			f.RecordHeartbeat("a", core.UnknownLoad, status(declared("a", change), running(jobs)).Occupancy)
		}
		return math.Float64frombits(f.meanUtilization.Load())
	}
	for _, c := range []struct {
		name         string
		change       func(*core.Node)
		jobs         int
		least, limit float64
	}{
		{"one of four", func(*core.Node) {}, 1, 0.24, 0.26},
		{"one of one that is admitted", limitedTo(1), 1, 0.99, 1},
		{"three of one that is admitted", limitedTo(1), 3, 0.99, 1},
		{"one of none", limitedTo(0), 1, 0, 0},
	} {
		if got := mean(c.change, c.jobs); got < c.least || got > c.limit {
			t.Errorf("%s: the mean is %v, want %v to %v", c.name, got, c.least, c.limit)
		}
	}
}

// TestStoreTime checks that the clock of the store is followed from the statuses of a node, however far it is from ours.
func TestStoreTime(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	readAt := func(at time.Time) func(*store.NodeStatus) { return func(s *store.NodeStatus) { s.At = at } }
	f.Update(status(declared("unknown")))
	if got := f.Node("unknown").StoreTime(f.Now()); !got.IsZero() {
		t.Errorf("the clock is unknown, and is at %v", got)
	}
	first := declared("a", limitedTo(0))
	at := time.UnixMilli(1_500_000_000_000)
	first.Admission.Since, first.Admission.Until = at, at.Add(time.Minute)
	f.Update(status(first, readAt(at)))
	n := f.Node("a")
	now := f.Now()
	if got := n.StoreTime(now).Sub(at); got < 0 || got > 30*time.Second {
		t.Errorf("%v after the status was read", got)
	}
	base := n.StoreTime(now)
	if got := n.StoreTime(now + Instant(25*time.Second)).Sub(base); got != 25*time.Second {
		t.Errorf("%v passed in 25 s", got)
	}
	if got := n.Declared().Admission.Remaining(base.Add(35 * time.Second)); got > 25*time.Second || got < 0 {
		t.Errorf("%v are left after 35 s of a minute", got)
	}
	// A status without a time, and a declaration without a status, leave it as it is.
	f.Update(status(successor(n.Declared(), slots(5))))
	f.Redeclare(successor(n.Declared(), slots(6)))
	if got := n.StoreTime(now); !got.Equal(base) {
		t.Errorf("the clock moved by %v", got.Sub(base))
	}
	// Another server has taken over, with another clock.
	later := at.Add(time.Hour)
	f.Update(status(successor(n.Declared(), slots(7)), readAt(later)))
	if got := n.StoreTime(now).Sub(later); got > 0 || got < -30*time.Second {
		t.Errorf("%v from the clock of the other server", got)
	}
}
