package fleet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestSlowSilentCallbackDoesNotStopThePoll checks that live nodes stay in view while the jobs of a thousand lost ones are
// handled.
func TestSlowSilentCallbackDoesNotStopThePoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		const many = 1000
		for i := range many {
			f.register(core.NodeID(fmt.Sprintf("lost-%d", i)))
		}
		f.register("loud")
		f.silent = func(core.NodeID) error {
			time.Sleep(60 * time.Millisecond) // a minute for all of them
			return nil
		}
		f.run()
		for range 90 {
			f.advance(time.Second, "loud")
			synctest.Wait()
			n := f.fleet.Node("loud")
			if n == nil {
				t.Fatalf("the node with heartbeats left the view after %v", time.Since(f.start))
			}
			if silence := n.SinceSeen(f.fleet.Now()); silence > presence/2+2*maxPollInterval {
				t.Fatalf("the node with heartbeats each second counted as silent for %v, %v after the start", silence, time.Since(f.start))
			}
		}
		reported := make(map[core.NodeID]int)
		for _, r := range f.reported() {
			reported[r.Node]++
		}
		if len(reported) != many || f.fleet.Len() != 1 {
			t.Errorf("%d nodes were reported and %d are in view, want %d and 1", len(reported), f.fleet.Len(), many)
		}
		for id, n := range reported {
			if n != 1 {
				t.Errorf("%s was reported %d times", id, n)
			}
		}
	})
}

// TestExpireManyNodes checks that the pools have exactly the remaining nodes, with their revisions.
func TestExpireManyNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		pool := f.Index(direction("en", "de"), false)
		const many = 2000
		for i := range many {
			f.Update(status(declared(core.NodeID(fmt.Sprintf("n%d", i)))))
		}
		before := pool.Len()
		time.Sleep(presence)
		for i := range many {
			if i%50 == 0 {
				f.RecordSeen(core.NodeID(fmt.Sprintf("n%d", i)), 0)
			}
		}
		f.ExpireSilent()
		left := revisions(pool)
		if len(left) != many/50 || f.Len() != many/50 || before != many {
			t.Errorf("%d in the pool, %d in view, %d in the list from before; want %d, %d, %d", len(left), f.Len(), before, many/50, many/50, many)
		}
		silent := 0
		for n := range f.Silent() {
			silent++
			if _, in := left[n.ID]; in {
				t.Errorf("%s is silent and in the pool", n.ID)
			}
		}
		if silent != many-many/50 {
			t.Errorf("%d are silent, want %d", silent, many-many/50)
		}
		for i := range many { // one that comes back, and one that leaves by itself
			f.Update(status(declared(core.NodeID(fmt.Sprintf("n%d", i)))))
		}
		f.Remove("n50")
		if n := pool.Len(); n != many-1 {
			t.Errorf("%d in the pool after all came back and one left, want %d", n, many-1)
		}
	})
}

// TestIndexesAreBuiltWithoutBlockingWriters checks that building an index blocks no writer, and that concurrent changes are in
// it.
func TestIndexesAreBuiltWithoutBlockingWriters(t *testing.T) {
	t.Parallel()
	f := New(presence)
	for i := range 100 {
		f.Update(status(declared(core.NodeID(fmt.Sprintf("n%d", i)))))
	}
	changes := []func(){
		func() { f.Update(status(declared("new"))) },
		func() { f.Remove("n7") },
		func() { f.Update(status(nextEpoch(declared("n8"), speaks("fr", "it")))) },
		func() { f.Mark(store.Mark{Node: "n9", Service: "asr", Epoch: 1, For: time.Minute}) },
		func() { f.Update(status(nextEpoch(declared("n10")))) },
	}
	f.division.Load().onScan = func() {
		for _, change := range changes {
			change() // which would wait for ever if the writers had to
		}
		changes = nil
	}
	got := revisions(f.Index(direction("en", "de"), false))
	f.division.Load().onScan = nil
	want := make(map[core.NodeID]core.Revision)
	for n := range f.All() {
		if n.ID() != "n8" {
			want[n.ID()] = n.Declared().Revision
		}
	}
	if len(changes) != 0 || len(want) != 99 {
		t.Fatalf("%d changes were not made; %d nodes serve the direction", len(changes), len(want))
	}
	for id, revision := range want {
		if got[id] != revision {
			t.Errorf("%s is in the pool as of revision %d, want %d", id, got[id], revision)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d in the pool, want %d", len(got), len(want))
	}
}
