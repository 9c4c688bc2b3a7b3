package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// nodeView holds everything that the view has of one node.
type nodeView struct {
	Declared *core.Node
	Epoch    core.Epoch
	Brief    Summary
	Load     core.Load
	InFlight int
	Known    bool
	Silence  time.Duration
}

func viewOf(f *Fleet, id core.NodeID) nodeView {
	n, now := f.Node(id), f.Now()
	b := nodeView{Declared: n.Declared(), Epoch: n.Epoch(), Brief: n.Summary(), Load: n.Load(), Silence: n.SinceSeen(now)}
	b.InFlight, b.Known = f.InFlight(n, now)
	return b
}

// Loads are packed with four digits.
var nearly = cmpopts.EquateApprox(0, 1e-4)

func TestUpdateAppliesTheStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		handle := new(noHandle)
		s := status(declared("a"), seenAgo(3*time.Second), loaded(core.Load{CPU: 0.25, GPU: 0.5, Memory: -1}), running(2))
		s.Handle = handle
		f.Update(s)

		n := f.Node("a")
		if n == nil {
			t.Fatal("the node is not in view")
		}
		if n.ID() != "a" || n.Handle() != store.Handle(handle) || f.Len() != 1 {
			t.Errorf("id %q, handle %v, %d in view", n.ID(), n.Handle(), f.Len())
		}
		want := nodeView{
			Declared: s.Node, Epoch: 1, Brief: Summary(packSummary(s.Node)), Load: core.Load{CPU: 0.25, GPU: 0.5},
			InFlight: 2, Known: true, Silence: 3 * time.Second,
		}
		if diff := cmp.Diff(want, viewOf(f, "a"), nearly); diff != "" {
			t.Errorf("belief (-want +got):\n%s", diff)
		}
	})
}

func TestUpdateIgnoresASilentNode(t *testing.T) {
	t.Parallel()
	f := New(presence)
	f.Update(status(declared("a"), seenAgo(presence)))
	if f.Node("a") != nil || f.Len() != 0 {
		t.Error("a node that had been silent for the presence time came into view")
	}
	f.Update(status(declared("a"), seenAgo(presence-time.Millisecond)))
	if f.Node("a") == nil {
		t.Error("a node that was seen within the presence time is not in view")
	}
}

// fleetWith returns a view of one node with a pool that it serves and one that it does not.
func fleetWith(t *testing.T, now *core.Node) *Fleet {
	t.Helper()
	f := agedFleet()
	f.Index(direction("en", "de"), false)
	f.Index(direction("en", "zh"), false)
	f.Update(status(now, loaded(core.Load{CPU: 0.5, GPU: 0.5, Memory: 0.5}), running(1)))
	if f.Node(now.ID) == nil {
		t.Fatal("the node is not in view")
	}
	return f
}

// olderRecords builds three kinds of older records of a node, each different in every field.
func olderRecords(now *core.Node) map[string]*core.Node {
	other := func(n *core.Node) {
		health(core.HealthDegraded)(n)
		slots(9)(n)
		speaks("en", "zh")(n)
	}
	made := func(epoch core.Epoch, version core.Version) *core.Node {
		n := *now
		other(&n)
		n.Epoch, n.Version, n.Revision = epoch, version, now.Revision-1
		return &n
	}
	return map[string]*core.Node{
		"an older version":                        made(now.Epoch, now.Version-1),
		"an older epoch":                          made(now.Epoch-1, now.Version-1),
		"an older epoch whose version was higher": made(now.Epoch-1, now.Version+7),
	}
}

func current() *core.Node {
	return declared("a", func(n *core.Node) { n.Epoch, n.Revision, n.Version = 7, 5, 8 })
}

func TestOlderRecordsDoNotChangeTheDeclaration(t *testing.T) {
	t.Parallel()
	for name, record := range olderRecords(current()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				now := current()
				f := fleetWith(t, now)
				f.Node("a").RecordMissedACK(f.Now())
				time.Sleep(time.Second)
				before := structureOf(f)
				f.Update(status(record, seenAgo(2*time.Second)))

				if diff := cmp.Diff(before, structureOf(f), identity); diff != "" {
					t.Errorf("the view was rebuilt:\n%s", diff)
				}
				n := f.Node("a")
				if n.Declared() != now || n.Epoch() != now.Epoch || n.Summary() != Summary(packSummary(now)) {
					t.Errorf("declared is now %+v", n.Declared())
				}
				if !n.IsSetAside(f.Now()) {
					t.Error("an older life wiped the slate of a newer one")
				}
				if got := n.SinceSeen(f.Now()); got != time.Second {
					t.Errorf("silent for %v, want 1s", got)
				}
			})
		})
	}
}

// TestOlderRecordsDoNotChangeLoadAndOccupancy checks that a change which waited in a queue does not override later
// heartbeats.
func TestOlderRecordsDoNotChangeLoadAndOccupancy(t *testing.T) {
	t.Parallel()
	for name, record := range olderRecords(current()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleetWith(t, current())
				time.Sleep(time.Second)
				before := viewOf(f, "a")
				f.Update(status(record, seenAgo(2*time.Second), loaded(core.Load{CPU: 1, GPU: 1, Memory: 1}), running(4)))
				if diff := cmp.Diff(before, viewOf(f, "a")); diff != "" {
					t.Errorf("belief (-before +after):\n%s", diff)
				}
			})
		})
	}
}

func TestHeartbeatOfAnUnknownNodeIsIgnored(t *testing.T) {
	t.Parallel()
	f := New(presence)
	f.RecordHeartbeat("a", core.UnknownLoad, store.Occupancy{Max: 4})
	f.RecordSeen("a", 0)
	f.Mark(store.Mark{Node: "a", Service: "asr", Epoch: 1, For: time.Minute})
	f.Remove("a")
	if f.Len() != 0 || f.Node("a") != nil {
		t.Error("a node came into view of which nothing is known")
	}
}

// TestNewEpochClearsMissedACKs checks that another registration continues the revisions, moves pools and clears missed ACKs.
func TestNewEpochClearsMissedACKs(t *testing.T) {
	t.Parallel()
	now := current()
	f := fleetWith(t, now)
	n := f.Node("a")
	n.RecordMissedACK(f.Now())

	next := successor(now, health(core.HealthDegraded))
	f.Update(status(next))
	if !n.IsSetAside(f.Now()) {
		t.Error("a change within one life forgave a miss")
	}
	f.Update(status(nextEpoch(next, speaks("en", "zh"))))
	if n.IsSetAside(f.Now()) {
		t.Error("a new life is still set aside for the misses of the old one")
	}
	n.RecordMissedACK(0)
	if n.IsSetAside(Instant(setAsideStep)) {
		t.Error("a new life counts the misses of the old one")
	}
	if diff := cmp.Diff(map[core.NodeID]core.Revision{}, revisions(f.Index(direction("en", "de"), false))); diff != "" {
		t.Errorf("en→de (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[core.NodeID]core.Revision{"a": 6}, revisions(f.Index(direction("en", "zh"), false))); diff != "" {
		t.Errorf("en→zh (-want +got):\n%s", diff)
	}
}

// TestNewEpochWithTheSameRevisionMovesPools checks a store that lost a node and numbers its revisions from 1 again: if the
// view missed the removal, only the epoch distinguishes the declarations.
func TestNewEpochWithTheSameRevisionMovesPools(t *testing.T) {
	t.Parallel()
	first := declared("a", speaks("en", "de"))
	f := fleetWith(t, first)
	second := declared("a", speaks("en", "zh"), func(n *core.Node) { n.Epoch = 2 })
	f.Update(status(second))
	if diff := cmp.Diff(map[core.NodeID]core.Revision{}, revisions(f.Index(direction("en", "de"), false))); diff != "" {
		t.Errorf("en→de, which it does not serve any more (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[core.NodeID]core.Revision{"a": 1}, revisions(f.Index(direction("en", "zh"), false))); diff != "" {
		t.Errorf("en→zh, which it serves now (-want +got):\n%s", diff)
	}
}
