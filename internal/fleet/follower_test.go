package fleet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
)

func TestFollowerReadsExistingNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("a")
		f.register("gone")
		f.mark("a", "asr", time.Minute)
		time.Sleep(presence)
		f.heartbeat("a")
		f.run()
		synctest.Wait()
		if diff := cmp.Diff([]core.NodeID{"a"}, inView(f.fleet)); diff != "" {
			t.Fatalf("in view (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]bool{"asr": true}, marked(f.fleet, "a", "asr", "nmt")); diff != "" {
			t.Errorf("marks set before it began (-want +got):\n%s", diff)
		}
		f.advance(time.Minute-presence, "a")
		if diff := cmp.Diff(map[string]bool{}, marked(f.fleet, "a", "asr")); diff != "" {
			t.Errorf("marks after their time (-want +got):\n%s", diff)
		}
	})
}

// TestFollowerAppliesChangesAtOnce checks that pushed changes are in view before any time has passed.
func TestFollowerAppliesChangesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.run()
		synctest.Wait()
		pool := f.fleet.Index(direction("en", "de"), false)
		began := time.Now()
		settle := func() *Node {
			synctest.Wait()
			if waited := time.Since(began); waited != 0 {
				t.Fatalf("took %v", waited)
			}
			return f.fleet.Node("a")
		}

		r := f.register("a")
		n := settle()
		if n == nil || n.Declared() != r.Node || n.Handle() != r.Handle || pool.Len() != 1 {
			t.Fatal("a registration was not applied")
		}
		f.drain("a", true)
		if settle(); n.Declared().EffectiveHealth() != core.HealthDraining || n.Summary().Ready() {
			t.Error("a drain was not applied")
		}
		f.drain("a", false)
		if settle(); !n.Summary().Ready() {
			t.Error("the end of a drain was not applied")
		}
		f.admit("a", 1, core.Admission{Limited: true, Slots: 1, Reason: core.AdmissionSilent, Times: 1})
		if settle(); n.Summary().Slots() != 1 || n.Summary().Ejected() {
			t.Error("a limit was not applied")
		}
		f.admit("a", 2, core.Admission{Limited: true, Reason: core.AdmissionSilent, Times: 2})
		if settle(); n.Summary().Slots() != 0 || !n.Summary().Ejected() {
			t.Error("an ejection was not applied")
		}
		f.register("a")
		if settle(); !n.Summary().Ejected() || n.Declared().Admission.Times != 2 {
			t.Error("a registration ended an ejection")
		}
		f.admit("a", 2, core.Admission{})
		if settle(); n.Summary().Slots() != n.Declared().MaxJobs || n.Summary().Ejected() {
			t.Error("the end of an ejection was not applied")
		}
		f.mark("a", "asr", time.Minute)
		if settle(); len(marked(f.fleet, "a", "asr")) != 1 {
			t.Error("a mark was not applied")
		}
		f.register("a", speaks("en", "zh"))
		if settle() != n || pool.Len() != 0 || f.fleet.Index(direction("en", "zh"), false).Len() != 1 {
			t.Error("another registration was not applied")
		}
		f.remove("a")
		if settle() != nil || f.fleet.Len() != 0 {
			t.Error("a removal was not applied")
		}
	})
}

// TestFollowerKeepsNodesWithHeartbeats checks that the poll finds heartbeats without changes, which are not pushed.
func TestFollowerKeepsNodesWithHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("a")
		f.run()
		for range 60 {
			f.advance(time.Second, "a")
			synctest.Wait()
			n := f.fleet.Node("a")
			if n == nil {
				t.Fatalf("the node left after %v although it sends heartbeats each second", time.Since(f.start))
			}
			if got := n.SinceSeen(f.fleet.Now()); got > presence/2+maxPollInterval {
				t.Fatalf("thought silent for %v", got)
			}
		}
		if got := f.reported(); len(got) > 0 {
			t.Errorf("reported %v", got)
		}
	})
}

// blockChanges makes the store lose every change from now on without an error.
func (f *followerHarness) blockChanges() {
	synctest.Wait()
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.store.deaf = true
}

// TestFollowerComparesRegularly checks that a change which was lost without an error is found by the next comparison.
func TestFollowerComparesRegularly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("a")
		f.run()
		f.blockChanges()
		f.drain("a", true)
		f.advance(compareInterval+2*maxPollInterval, "a")
		synctest.Wait()
		if n := f.fleet.Node("a"); n == nil || n.Summary().Ready() {
			t.Error("a drain was not noticed")
		}
	})
}

func TestFollowerFindsLostRegistrationsAndRemovals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("kept")
		f.register("removed")
		f.run()
		f.blockChanges()
		f.remove("removed")
		f.register("new")
		f.mark("new", "asr", 10*time.Minute)
		f.advance(compareInterval+2*maxPollInterval, "kept", "new")
		synctest.Wait()
		if diff := cmp.Diff([]core.NodeID{"kept", "new"}, inView(f.fleet)); diff != "" {
			t.Errorf("in view (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]bool{"asr": true}, marked(f.fleet, "new", "asr")); diff != "" {
			t.Errorf("marks of the new one (-want +got):\n%s", diff)
		}
	})
}

func TestFollowerEvictsIdlePools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.run()
		f.fleet.Index(direction("en", "de"), false)
		time.Sleep(indexIdleTimeout)
		synctest.Wait()
		if diff := cmp.Diff([]string{"en→de"}, poolNames(f.fleet)); diff != "" {
			t.Errorf("before its time (-want +got):\n%s", diff)
		}
		time.Sleep(compareInterval + 2*maxPollInterval)
		synctest.Wait()
		if got := poolNames(f.fleet); len(got) > 0 {
			t.Errorf("still there: %v", got)
		}
	})
}

// TestFollowerReadsMarksOfAReturningNode checks that a node which left the view and continues its heartbeats still has its marks, and
// that it has none after it has registered again.
func TestFollowerReadsMarksOfAReturningNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("a")
		f.run()
		synctest.Wait()
		f.mark("a", "asr", time.Minute)
		time.Sleep(presence + maxPollInterval)
		synctest.Wait()
		if f.fleet.Node("a") != nil {
			t.Fatal("the silent node is still in view")
		}
		f.heartbeat("a")
		time.Sleep(2 * maxPollInterval)
		synctest.Wait()
		if diff := cmp.Diff(map[string]bool{"asr": true}, marked(f.fleet, "a", "asr")); diff != "" {
			t.Errorf("marks (-want +got):\n%s", diff)
		}
		f.register("a")
		synctest.Wait()
		if diff := cmp.Diff(map[string]bool{}, marked(f.fleet, "a", "asr")); diff != "" {
			t.Errorf("marks after a registration (-want +got):\n%s", diff)
		}
	})
}

// TestFollowerFindsANodeThatResumesHeartbeats checks that a node which was silent and continues its heartbeats at another
// instance, which makes no change to push, is in view after the next poll.
func TestFollowerFindsANodeThatResumesHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("a")
		f.run()
		time.Sleep(presence + maxPollInterval)
		synctest.Wait()
		if f.fleet.Node("a") != nil {
			t.Fatal("the silent node is still in view")
		}
		f.advance(2*maxPollInterval, "a")
		synctest.Wait()
		if f.fleet.Node("a") == nil {
			t.Errorf("two polls after its next heartbeat the node is not in view")
		}
	})
}

// TestRunReturnsWhenTheContextEnds checks that Run returns at once in every state and leaks no goroutine.
func TestRunReturnsWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	const forEver = 1 << 20
	for _, c := range []struct {
		name  string
		scene func(*followerHarness)
		after time.Duration
	}{
		{"at once", func(*followerHarness) {}, 0},
		{"between two polls", func(*followerHarness) {}, pollInterval / 2},
		{"after a long life", func(*followerHarness) {}, 5 * time.Minute},
		{"while the stream is broken", func(f *followerHarness) { f.store.failing["Watch"] = forEver }, time.Minute},
		{"while last-seen times cannot be read", func(f *followerHarness) { f.store.failing["Overdue"] = forEver }, time.Minute},
		{"while comparisons fail", func(f *followerHarness) { f.store.failing["Nodes"] = forEver }, time.Minute},
		{"while a silent node's jobs cannot be moved", func(f *followerHarness) {
			f.silent = func(core.NodeID) error { return errAway }
		}, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFollowerHarness(t)
				f.register("a")
				c.scene(f)
				f.run()
				time.Sleep(c.after)
				synctest.Wait()
				select {
				case <-f.done:
					t.Fatal("Run returned before its context ended")
				default:
				}
				ended := time.Now()
				f.stop()
				<-f.done
				if took := time.Since(ended); took != 0 {
					t.Errorf("took %v to end", took)
				}
			})
		})
	}
}

// TestPartialUntilNodesAndMarksAreRead checks that the view is complete once every node and its marks were read.
func TestPartialUntilNodesAndMarksAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		for i := range 1200 {
			f.register(core.NodeID(fmt.Sprintf("node-%d", i)))
		}
		f.mark("node-1100", "asr", time.Minute)
		f.store.failing["Nodes"], f.store.failing["Marked"] = 1, 1
		f.fleet.SetPartial(true)
		f.run()
		synctest.Wait()
		if f.fleet.Len() != 0 || !f.fleet.Partial() {
			t.Fatalf("the store did not answer: %d nodes, partial %v", f.fleet.Len(), f.fleet.Partial())
		}
		time.Sleep(maxPollInterval)
		synctest.Wait()
		if f.fleet.Len() != 1200 || !f.fleet.Partial() {
			t.Fatalf("the marks could not be read: %d nodes, partial %v", f.fleet.Len(), f.fleet.Partial())
		}
		time.Sleep(maxPollInterval)
		synctest.Wait()
		if f.fleet.Partial() {
			t.Error("everything was read, and the view is still partial")
		}
		if diff := cmp.Diff(map[string]bool{"asr": true}, marked(f.fleet, "node-1100", "asr")); diff != "" {
			t.Errorf("marks (-want +got):\n%s", diff)
		}
		if n := f.store.called("Marked"); n > 5 { // three batches, of which the first was asked twice
			t.Errorf("the marks of 1200 nodes took %d calls", n)
		}
	})
}
