package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// The tests below check that parts of the view are rebuilt only if they change: with thousands of nodes, rebuilding at each
// heartbeat would dominate the cost.

// same compares by identity: a part that was rebuilt equal was still rebuilt.
func same[T any](a, b *T) bool { return a == b }

var identity = cmp.Options{
	cmp.AllowUnexported(structure{}, indexKey{}),
	cmp.Comparer(same[map[core.NodeID]*Node]), cmp.Comparer(same[map[indexKey]*entry]),
}

func TestHeartbeatRebuildsNothing(t *testing.T) {
	t.Parallel()
	load := core.Load{CPU: 0.75, GPU: 0.25, Memory: 1}
	for name, beat := range map[string]func(*Fleet, *core.Node){
		"beat": func(f *Fleet, n *core.Node) {
			f.RecordHeartbeat(n.ID, load, store.Occupancy{Max: 4, Reserved: 1, Running: 1, Foreign: 1})
		},
		"update": func(f *Fleet, n *core.Node) { f.Update(status(n, loaded(load), running(3))) },
		"update with another object": func(f *Fleet, n *core.Node) { // as from a store that makes another object at each read
			copied := *n
			f.Update(status(&copied, loaded(load), running(3)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				now := current()
				f := fleetWith(t, now)
				time.Sleep(5 * time.Second)
				before, n := structureOf(f), f.Node("a")
				beat(f, now)

				if diff := cmp.Diff(before, structureOf(f), identity); diff != "" {
					t.Errorf("the view was rebuilt:\n%s", diff)
				}
				if f.Node("a") != n {
					t.Error("the node is another object")
				}
				want := nodeView{Declared: now, Epoch: 7, Brief: Summary(packSummary(now)), Load: load, InFlight: 3, Known: true}
				if diff := cmp.Diff(want, viewOf(f, "a"), nearly, cmp.Comparer(same[core.Node])); diff != "" {
					t.Errorf("belief (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestChangeOfHealthOrCapacityTouchesNoIndex checks that health, drain and capacity, which every selection reads from the
// node, do not change indexes.
func TestChangeOfHealthOrCapacityTouchesNoIndex(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*core.Node){
		"health":   health(core.HealthDegraded),
		"drain":    func(n *core.Node) { n.Drained = true },
		"capacity": slots(40),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := current()
			f := fleetWith(t, now)
			before, n := structureOf(f), f.Node("a")
			next := successor(now, change)
			f.Update(status(next))

			if diff := cmp.Diff(before, structureOf(f), identity); diff != "" {
				t.Errorf("the view was rebuilt:\n%s", diff)
			}
			if n.Declared() != next || n.Summary() != Summary(packSummary(next)) {
				t.Errorf("declared is %+v, want %+v", n.Declared(), next)
			}
		})
	}
}

// TestChangeOfCapabilityMovesBetweenIndexes checks which indexes have a node after it has changed.
func TestChangeOfCapabilityMovesBetweenIndexes(t *testing.T) {
	t.Parallel()
	f := New(presence)
	left, stayed, entered, never := direction("en", "de"), direction("en", "fr"), direction("en", "zh"), direction("ja", "ko")
	f.Update(status(declared("other", speaks("en", "de", "fr", "zh", "ja", "ko"))))
	now := declared("a", speaks("en", "de", "fr"))
	f.Update(status(now))
	for _, d := range []core.Direction{left, stayed, entered, never} {
		f.Index(d, false)
	}
	before, n := structureOf(f), f.Node("a")
	f.Update(status(successor(now, speaks("en", "fr", "zh"))))
	after := structureOf(f)

	if after.shards != before.shards || after.entries != before.entries || f.Node("a") != n {
		t.Error("more than members was rebuilt")
	}
	for _, c := range []struct {
		name string
		way  core.Direction
		want core.Revision // of node a; 0: not a member
	}{
		{"left", left, 0},
		{"stayed", stayed, 2},
		{"entered", entered, 2},
		{"never", never, 0},
	} {
		want := map[core.NodeID]core.Revision{"other": 1}
		if c.want != 0 {
			want["a"] = c.want
		}
		if diff := cmp.Diff(want, after.members[indexKey{Direction: c.way}]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestRemoveLeavesEveryIndex(t *testing.T) {
	t.Parallel()
	now := current()
	f := fleetWith(t, now)
	f.Remove("a")
	if f.Node("a") != nil || f.Len() != 0 {
		t.Error("the node is still in view")
	}
	if n := f.Index(direction("en", "de"), false).Len(); n != 0 {
		t.Error("the node is still in its index")
	}
	if c := &f.division.Load().pools[0].columns; len(c.byKey) != 0 || len(c.versions) != 0 {
		t.Errorf("%d columns and the versions of %d services and models are left", len(c.byKey), len(c.versions))
	}
	f.Remove("a") // again
	if f.Len() != 0 {
		t.Errorf("Len() = %d after a second removal", f.Len())
	}
}

// TestOldMapsOfNodesNeverChange checks that a map which a reader iterates over does not change.
func TestOldMapsOfNodesNeverChange(t *testing.T) {
	t.Parallel()
	f := New(presence)
	empty := f.nodes.shard("a").Load()
	f.Update(status(declared("a")))
	with := f.nodes.shard("a").Load()
	f.Remove("a")
	if len(*empty) != 0 || len(*with) != 1 || len(*f.nodes.shard("a").Load()) != 0 {
		t.Errorf("the maps hold %d, %d and %d nodes, want 0, 1 and 0", len(*empty), len(*with), len(*f.nodes.shard("a").Load()))
	}
}
