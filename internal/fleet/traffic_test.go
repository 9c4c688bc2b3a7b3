package fleet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// reads is what a follower has read from the store.
type reads struct{ Polls, Lists, Comparisons, Declarations, Overdue int }

func (f *followerHarness) readsSince(before reads) reads {
	now := reads{Polls: f.store.called("Overdue"), Lists: f.store.called("all"), Comparisons: f.store.called("Digests")}
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	now.Declarations, now.Overdue = f.store.read, f.store.overdue
	return reads{
		now.Polls - before.Polls, now.Lists - before.Lists, now.Comparisons - before.Comparisons,
		now.Declarations - before.Declarations, now.Overdue - before.Overdue,
	}
}

// heartbeatsFor advances the time while the nodes send a heartbeat every 5 s, each at its own time.
func (f *followerHarness) heartbeatsFor(d time.Duration, ids []core.NodeID) {
	f.t.Helper()
	const interval, steps = 5 * time.Second, 10
	for i := range int(d / interval * steps) {
		for k := i % steps; k < len(ids); k += steps {
			f.heartbeat(ids[k])
		}
		time.Sleep(interval / steps)
	}
}

// TestFollowerReadsLittleWhileNothingChanges checks that nodes with heartbeats in time are neither listed nor read, and that polls are rare.
func TestFollowerReadsLittleWhileNothingChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		ids := make([]core.NodeID, 300)
		for i := range ids {
			ids[i] = core.NodeID(fmt.Sprintf("node-%d", i))
			f.register(ids[i])
		}
		f.run()
		f.heartbeatsFor(15*time.Second, ids)
		before := f.readsSince(reads{})
		f.heartbeatsFor(2*time.Minute, ids)
		got := f.readsSince(before)
		// The oldest heartbeat is 5 s old and a node is overdue after 7.5 s.
		if most := int(2 * time.Minute / (2 * time.Second)); got.Polls > most || got.Polls < 10 {
			t.Errorf("%d polls in two minutes, want 10 to %d", got.Polls, most)
		}
		if want := (reads{Polls: got.Polls, Comparisons: got.Comparisons}); got != want || got.Comparisons > 4 || got.Comparisons < 3 {
			t.Errorf("read %+v, want no lists, no declarations and three or four comparisons", got)
		}
		if f.fleet.Len() != len(ids) || len(f.reported()) > 0 {
			t.Errorf("%d nodes in view, %v reported", f.fleet.Len(), f.reported())
		}
	})
}

// TestEmptyFleetIsPolledRarely checks what an instance without nodes reads.
func TestEmptyFleetIsPolledRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.run()
		time.Sleep(time.Minute)
		synctest.Wait()
		before := f.readsSince(reads{})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		got := f.readsSince(before)
		if got.Polls > 150 || got.Comparisons > 21 || got.Lists+got.Declarations > 0 {
			t.Errorf("read %+v in ten minutes", got)
		}
	})
}

// TestComparisonReadsChangedNodesAlone checks that a comparison reads the declarations of those nodes whose changes were missed.
func TestComparisonReadsChangedNodesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		for _, id := range []core.NodeID{"a", "b", "c", "silent"} {
			f.register(id)
		}
		f.run()
		f.advance(presence+maxPollInterval, "a", "b", "c")
		f.blockChanges()
		before := f.readsSince(reads{})
		f.drain("b", true)
		f.drain("silent", true)
		if _, err := f.store.Heartbeat(t.Context(), store.HeartbeatParams{Node: "c", Load: core.Load{CPU: 0.5, GPU: 0.25, Memory: 1}}); err != nil {
			t.Fatal(err)
		}
		follower := &Follower{Fleet: f.fleet, Nodes: f.store, Marks: f.store}
		follower.compare(t.Context())
		if got := f.readsSince(before); got.Declarations != 2 || got.Comparisons != 1 {
			t.Errorf("%+v, want two declarations in one comparison", got)
		}
		if f.fleet.Node("b").Summary().Ready() {
			t.Error("the change was not applied")
		}
		if diff := cmp.Diff(packLoad(core.Load{CPU: 0.5, GPU: 0.25, Memory: 1}), f.fleet.Node("c").load.Load()); diff != "" {
			t.Errorf("load of an unchanged node (-want +got):\n%s", diff)
		}
		follower.compare(t.Context())
		if got := f.readsSince(before); got.Comparisons != 2 || got.Declarations > 3 {
			t.Errorf("%+v after a second comparison, want at most the silent node again", got)
		}
	})
}

// TestDigestDecidesWhatIsRead checks which digests make a comparison read the node.
func TestDigestDecidesWhatIsRead(t *testing.T) {
	t.Parallel()
	f := New(presence)
	for _, id := range []core.NodeID{"in-view", "silent"} {
		s := status(declared(id))
		s.Node.Epoch, s.Node.Version = 5, 3
		if id == "silent" {
			s.Age = presence
		}
		f.Update(s)
	}
	for _, c := range []struct {
		node    core.NodeID
		age     time.Duration
		epoch   core.Epoch
		version core.Version
		known   bool
	}{
		{"in-view", 0, 5, 3, true}, {"in-view", 0, 5, 2, true}, {"in-view", 0, 4, 9, true},
		{"in-view", 0, 5, 4, false}, {"in-view", 0, 6, 1, false}, {"in-view", 0, 0, 0, false},
		{"silent", presence, 5, 3, true}, {"silent", presence, 5, 2, true}, {"silent", presence, 5, 4, false}, {"silent", 0, 5, 3, false},
		{"unknown", 0, 5, 3, false}, {"unknown", presence, 5, 3, false},
	} {
		d := store.NodeDigest{LastSeen: store.LastSeen{Node: c.node, Age: c.age}, Epoch: c.epoch, Version: c.version}
		if got := f.refresh(&d); got != c.known {
			t.Errorf("%s, seen %v ago, %d@%d: known %v, want %v", c.node, c.age, c.epoch, c.version, got, c.known)
		}
	}
}

// TestDigestDoesNotReplaceLaterFacts checks that a digest, which is as old as the last heartbeat, does not hide what was observed since.
func TestDigestDoesNotReplaceLaterFacts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := New(presence)
		time.Sleep(time.Minute)
		f.Update(status(declared("a")))
		n := f.Node("a")
		time.Sleep(2 * time.Second)
		f.RecordHeartbeat("a", core.Load{CPU: 0.75}, store.Occupancy{Max: 8, Running: 6})
		digest := store.NodeDigest{
			LastSeen: store.LastSeen{Node: "a", Age: time.Second}, Epoch: n.Epoch(), Version: n.Declared().Version, InFlight: 1, Slots: 8,
		}
		if !f.refresh(&digest) {
			t.Fatal("the version is not the known one")
		}
		if got, _ := f.InFlight(n, f.Now()); got != 6 || n.Load().CPU < 0.7 || n.SinceSeen(f.Now()) != 0 {
			t.Errorf("%d in flight, load %+v, seen %v ago; want what the later heartbeat said", got, n.Load(), n.SinceSeen(f.Now()))
		}
		time.Sleep(2 * time.Second)
		if f.refresh(&digest); n.SinceSeen(f.Now()) != time.Second {
			t.Errorf("seen %v ago, want 1s", n.SinceSeen(f.Now()))
		}
		if got, _ := f.InFlight(n, f.Now()); got != 1 || n.Load().CPU > 0.1 {
			t.Errorf("%d in flight, load %+v; want what the digest says", got, n.Load())
		}
	})
}

// TestPollIsNotTrustedWhenTheNumbersDiffer checks that a node which is not registered any more does not stay in view because the others
// are in time.
func TestPollIsNotTrustedWhenTheNumbersDiffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("a")
		f.register("b")
		f.run()
		f.advance(2*time.Second, "a", "b")
		f.blockChanges()
		f.remove("b")
		f.advance(presence+2*maxPollInterval, "a")
		synctest.Wait()
		if diff := cmp.Diff([]core.NodeID{"a"}, inView(f.fleet)); diff != "" {
			t.Errorf("in view (-want +got):\n%s", diff)
		}
	})
}
