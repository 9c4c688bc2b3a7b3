package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// fallBehind holds back the changes that are made by meanwhile, adds more changes of a busy node than a store buffers for a
// slow follower, and then delivers. No time passes, so that no poll finds what the changes do not contain.
func (f *followerHarness) fallBehind(busy core.NodeID, meanwhile func()) {
	f.t.Helper()
	hold := make(chan struct{})
	f.store.mu.Lock()
	f.store.hold = hold
	f.store.mu.Unlock()
	f.drain(busy, true) // the follower now waits with this one in its hands
	synctest.Wait()

	meanwhile()
	for i := range 5000 {
		f.drain(busy, i%2 == 0)
	}
	f.store.mu.Lock()
	f.store.hold = nil
	f.store.mu.Unlock()
	close(hold)
	synctest.Wait()
	if f.store.gaps == 0 {
		f.t.Fatal("the store made no gap")
	}
}

// TestFollowerComparesAfterAGap checks that a follower which missed changes compares the whole fleet.
func TestFollowerComparesAfterAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("busy")
		f.register("removed")
		f.register("changed")
		f.run()
		// Within a second of its last heartbeat a node that is not on the list may have registered after the
		// list was read, so the one that will be removed has to be silent for longer.
		f.advance(5*time.Second, "busy", "changed")
		f.fallBehind("busy", func() {
			f.remove("removed")
			f.register("changed", speaks("en", "zh"))
			f.register("new")
			f.mark("new", "asr", time.Minute)
			f.mark("changed", "nmt", time.Minute)
			synctest.Wait()
			if diff := cmp.Diff([]core.NodeID{"busy", "changed", "removed"}, inView(f.fleet)); diff != "" {
				t.Fatalf("in view while changes are held back (-want +got):\n%s", diff)
			}
		})

		if diff := cmp.Diff([]core.NodeID{"busy", "changed", "new"}, inView(f.fleet)); diff != "" {
			t.Errorf("in view (-want +got):\n%s", diff)
		}
		if got := revisions(f.fleet.Pool(direction("en", "zh"), false).Members()); got["changed"] != 2 {
			t.Errorf("en→zh has %v, want the changed node as of revision 2", got)
		}
		if !f.fleet.Node("busy").Summary().Ready() {
			t.Error("the busy node is not as the last change left it")
		}
		if len(marked(f.fleet, "new", "asr")) != 1 {
			t.Error("the marks of a node found by comparison were not taken")
		}
		if len(marked(f.fleet, "changed", "nmt")) != 1 {
			t.Error("a mark that was missed, of a node that was in view, was not taken")
		}
	})
}

// TestComparisonKeepsNodesThatRegisterMeanwhile checks that a node which registers while the list is read, and is not on
// it, is not removed.
func TestComparisonKeepsNodesThatRegisterMeanwhile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		rest time.Duration // of the reading, after the node registered
	}{
		{"at the last moment", 0},
		{"during a quick reading", pollInterval / 2},
		{"during a slow reading", 3 * pollInterval},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFollowerHarness(t)
				follower := &Follower{Fleet: f.fleet, Nodes: f.store, Marks: f.store}
				f.fleet.Update(status(declared("forgotten")))
				time.Sleep(5 * time.Second)
				f.store.afterReading = func() {
					f.fleet.Update(f.register("new").NodeStatus)
					time.Sleep(c.rest)
				}
				follower.compare(t.Context())
				if diff := cmp.Diff([]core.NodeID{"new"}, inView(f.fleet)); diff != "" {
					t.Errorf("in view (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestFollowerResumesABrokenStream checks that the follower watches again after a delay and compares the whole fleet.
func TestFollowerResumesABrokenStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.store.failing["Watch"] = 3
		f.run()
		synctest.Wait()
		f.register("a")
		if got := f.store.called("Watch"); got != 1 {
			t.Fatalf("%d attempts at once, want 1", got)
		}
		f.advance(3*watchRetryDelay*11/10, "a")
		synctest.Wait()
		if got := f.store.called("Watch"); got != 4 {
			t.Errorf("%d attempts, want 4: three that failed about a second apart and one that did not", got)
		}
		if f.fleet.Node("a") == nil {
			t.Error("what went by while the stream was broken is not in view")
		}
		f.register("b")
		synctest.Wait()
		if f.fleet.Node("b") == nil {
			t.Error("changes are not followed again")
		}
	})
}

// TestFollowerSurvivesAnUnavailableStore checks that the view keeps its nodes while the store is unavailable and catches up
// afterwards.
func TestFollowerSurvivesAnUnavailableStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("a")
		f.run()
		f.advance(3*pollInterval, "a")
		synctest.Wait()
		f.store.mu.Lock()
		f.store.failing["Overdue"] = 8
		f.store.mu.Unlock()
		f.advance(20*maxPollInterval, "a")
		synctest.Wait()
		n := f.fleet.Node("a")
		if n == nil {
			t.Fatal("the node left although it sent heartbeats all the time")
		}
		if got := n.SinceSeen(f.fleet.Now()); got > presence/2+maxPollInterval {
			t.Errorf("thought silent for %v after the store came back", got)
		}
		if got := f.reported(); len(got) > 0 {
			t.Errorf("reported %v", got)
		}
	})
}

// TestFollowerRetriesAFailedComparison checks that a failed comparison is retried at the next poll, not after
// compareInterval: until then selections miss the changes.
func TestFollowerRetriesAFailedComparison(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("busy")
		f.register("changed")
		f.run()
		synctest.Wait()
		f.fallBehind("busy", func() {
			f.drain("changed", true)
			f.register("new")
			f.store.mu.Lock()
			f.store.failing["Nodes"] = 1
			f.store.mu.Unlock()
		})
		f.advance(3*maxPollInterval, "busy", "changed", "new")
		synctest.Wait()
		if f.fleet.Node("changed").Summary().Ready() {
			t.Error("a drain is not in view three polls after the comparison failed")
		}
		if f.fleet.Node("new") == nil {
			t.Error("a node is not in view three polls after the comparison failed")
		}
	})
}

// TestFollowerAdmitsANodeWithUnreadableMarks checks that a node is in view even if its marks could not be read.
func TestFollowerAdmitsANodeWithUnreadableMarks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("a")
		f.store.failing["Marked"] = 1
		f.run()
		synctest.Wait()
		if f.fleet.Node("a") == nil {
			t.Error("the node is not in view")
		}
	})
}
