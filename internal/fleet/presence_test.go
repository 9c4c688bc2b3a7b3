package fleet

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

func inView(f *Fleet) []core.NodeID {
	ids := []core.NodeID{}
	for n := range f.All() {
		ids = append(ids, n.ID())
	}
	slices.Sort(ids)
	return ids
}

func TestSilentNodeExpiresAtThePresenceTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		pool := f.Index(direction("en", "de"), false)
		f.Update(status(declared("a")))
		f.Update(status(declared("b"), seenAgo(5*time.Second)))

		for _, step := range []struct {
			after time.Duration
			want  []core.NodeID
		}{
			{10*time.Second - 1, []core.NodeID{"a", "b"}},
			{1, []core.NodeID{"a"}},
			{5*time.Second - 1, []core.NodeID{"a"}},
			{1, []core.NodeID{}},
		} {
			time.Sleep(step.after)
			f.ExpireSilent()
			if diff := cmp.Diff(step.want, inView(f)); diff != "" {
				t.Errorf("in view (-want +got):\n%s", diff)
			}
			if f.Len() != len(step.want) || pool.Len() != len(step.want) {
				t.Errorf("Len() = %d and %d in the pool, want %d", f.Len(), pool.Len(), len(step.want))
			}
		}
	})
}

func TestNodeWithHeartbeatsStays(t *testing.T) {
	t.Parallel()
	for name, hear := range map[string]func(*Fleet, *core.Node){
		"update": func(f *Fleet, n *core.Node) { f.Update(status(n)) },
		"beat":   func(f *Fleet, n *core.Node) { f.RecordHeartbeat(n.ID, core.UnknownLoad, store.Occupancy{Max: 4}) },
		"seen":   func(f *Fleet, n *core.Node) { f.RecordSeen(n.ID, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := agedFleet()
				now := declared("a")
				f.Update(status(now))
				time.Sleep(presence - 1)
				hear(f, now)
				if got := f.Node("a").SinceSeen(f.Now()); got != 0 {
					t.Errorf("silent for %v although just seen", got)
				}
				time.Sleep(presence - 1)
				f.ExpireSilent()
				if f.Node("a") == nil {
					t.Fatal("the node left before its time")
				}
				time.Sleep(time.Nanosecond)
				f.ExpireSilent()
				if f.Node("a") != nil {
					t.Error("the node stayed beyond its time")
				}
			})
		})
	}
}

// TestRecordSeenKeepsTheLatest checks last-seen times that arrive late and out of order.
func TestRecordSeenKeepsTheLatest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		age  time.Duration // of a last-seen time of a node that was seen 4 s ago
		want time.Duration
	}{
		{"now", 0, 0},
		{"later than the last", 3 * time.Second, 3 * time.Second},
		{"the same again", 4 * time.Second, 4 * time.Second},
		{"older than the last", 9 * time.Second, 4 * time.Second},
		{"older than the presence time", time.Minute, 4 * time.Second},
		{"older than the view itself", 2 * time.Hour, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := agedFleet()
				f.Update(status(declared("a")))
				time.Sleep(4 * time.Second)
				f.RecordSeen("a", c.age)
				if got := f.Node("a").SinceSeen(f.Now()); got != c.want {
					t.Errorf("silent for %v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestRecordSeenAtTheFirstInstant checks that a node which was seen at instant 0 counts as seen.
func TestRecordSeenAtTheFirstInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := New(presence)
		f.Update(status(declared("a")))
		time.Sleep(4 * time.Second)
		f.RecordSeen("a", 9*time.Second)
		if got := f.Node("a").SinceSeen(f.Now()); got != 4*time.Second {
			t.Errorf("silent for %v, want 4s", got)
		}
	})
}

// TestNodeSeenBeforeTheViewStarted checks nodes that were last seen before the view started.
func TestNodeSeenBeforeTheViewStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := New(presence)
		f.Update(status(declared("a"), seenAgo(14*time.Second)))
		if got := f.Node("a").SinceSeen(f.Now()); got != 14*time.Second {
			t.Errorf("silent for %v, want 14s", got)
		}
		f.ExpireSilent()
		if f.Node("a") == nil {
			t.Fatal("the node left before its time")
		}
		time.Sleep(time.Second)
		f.ExpireSilent()
		if f.Node("a") != nil {
			t.Error("the node stayed beyond its time")
		}
	})
}

// TestExpireRebuildsNothingWithoutSilentNodes checks that an expiry without silent nodes changes nothing.
func TestExpireRebuildsNothingWithoutSilentNodes(t *testing.T) {
	t.Parallel()
	f := fleetWith(t, declared("a"))
	before := structureOf(f)
	f.ExpireSilent()
	if diff := cmp.Diff(before, structureOf(f), identity); diff != "" {
		t.Errorf("the view was rebuilt:\n%s", diff)
	}
}

// TestDrainsAreTold: that a known node is drained or resumed is told once, also if it is silent meanwhile.
func TestDrainsAreTold(t *testing.T) {
	t.Parallel()
	f := New(10 * time.Second)
	var told []string
	f.OnDrain(func(id core.NodeID, drained bool) { told = append(told, fmt.Sprint(id, " ", drained)) })
	update := func(version core.Version, age time.Duration, drained bool) {
		f.Update(store.NodeStatus{Node: &core.Node{ID: "a", Epoch: 1, Version: version, Drained: drained}, Age: age})
	}
	update(1, 0, true) // it was told when it registered
	update(2, 0, false)
	update(2, 0, false)
	update(3, 0, true)
	f.Redeclare(&core.Node{ID: "a", Epoch: 1, Version: 4})
	f.ExpireSilent()
	f.Remove("a")
	update(5, 20*time.Second, false)
	update(6, 20*time.Second, true)
	update(5, 20*time.Second, false) // older
	update(7, 0, false)
	if want := []string{"a false", "a true", "a false", "a true", "a false"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
