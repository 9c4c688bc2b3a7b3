package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// nodeIDs returns the reported nodes in order.
func nodeIDs(reports []silentReport) []core.NodeID {
	ids := []core.NodeID{}
	for _, r := range reports {
		ids = append(ids, r.Node)
	}
	return ids
}

func TestSilentNodeIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("quiet")
		f.register("loud")
		f.run()
		f.advance(presence-1, "loud")
		synctest.Wait()
		if got := f.reported(); len(got) > 0 || f.fleet.Node("quiet") == nil {
			t.Fatalf("reported %v before the presence time was over", got)
		}
		f.advance(maxPollInterval+1, "loud")
		synctest.Wait()
		if diff := cmp.Diff([]core.NodeID{"quiet"}, nodeIDs(f.reported())); diff != "" {
			t.Fatalf("reported (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]core.NodeID{"loud"}, inView(f.fleet)); diff != "" {
			t.Errorf("in view (-want +got):\n%s", diff)
		}
		f.advance(2*time.Minute, "loud")
		if diff := cmp.Diff([]core.NodeID{"quiet"}, nodeIDs(f.reported())); diff != "" {
			t.Errorf("reported after two minutes (-want +got):\n%s", diff)
		}
	})
}

// TestSilentNodeIsReportedAgainIfTheCallbackFails checks that a node is reported at every poll until the callback has
// handled its jobs.
func TestSilentNodeIsReportedAgainIfTheCallbackFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		failures := map[core.NodeID]int{"a": 3, "b": 0}
		f.silent = func(id core.NodeID) error {
			if failures[id]--; failures[id] >= 0 {
				return errAway
			}
			return nil
		}
		f.register("a")
		f.register("b")
		f.run()
		time.Sleep(presence + 5*maxPollInterval)
		synctest.Wait()
		count := make(map[core.NodeID]int)
		var times []time.Duration
		for _, r := range f.reported() {
			count[r.Node]++
			if r.Node == "a" {
				times = append(times, r.At)
			}
		}
		if diff := cmp.Diff(map[core.NodeID]int{"a": 4, "b": 1}, count); diff != "" {
			t.Fatalf("reports (-want +got):\n%s", diff)
		}
		for i := 1; i < len(times); i++ {
			if gap := times[i] - times[i-1]; gap < pollInterval-pollInterval/10 || gap > maxPollInterval {
				t.Errorf("asked again after %v, want about %v", gap, pollInterval)
			}
		}
		time.Sleep(time.Minute)
		if got := len(f.reported()); got != 5 {
			t.Errorf("%d reports after a minute, want still 5", got)
		}
	})
}

// TestSilentNodeInViewIsPolledSoon checks that the next poll is soon if a node is silent and still in view: an earlier answer of the store may
// have been on its way for longer than the last one, so that the view takes the heartbeat for more recent.
func TestSilentNodeInViewIsPolledSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.fleet.Update(f.register("quiet").NodeStatus)
		time.Sleep(presence)
		f.fleet.Update(f.register("loud").NodeStatus)
		f.fleet.RecordSeen("quiet", presence-100*time.Millisecond)
		follower := &Follower{Fleet: f.fleet, Nodes: f.store, Marks: f.store}
		for _, c := range []struct {
			next time.Duration
			view []core.NodeID
		}{{pollInterval, []core.NodeID{"loud", "quiet"}}, {idlePollInterval, []core.NodeID{"loud"}}} {
			next, err := follower.readOverdue(t.Context())
			if err != nil || next != c.next {
				t.Errorf("the next poll is after %v, %v; want %v", next, err, c.next)
			}
			if diff := cmp.Diff(c.view, inView(f.fleet)); diff != "" {
				t.Errorf("in view (-want +got):\n%s", diff)
			}
			time.Sleep(pollInterval)
		}
	})
}

// TestNoNodeIsSilentBecauseOfAnOutage checks that nodes are not reported before they had time for a heartbeat after the store was
// unavailable: none could be recorded meanwhile.
func TestNoNodeIsSilentBecauseOfAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("returns")
		f.register("lost")
		f.run()
		time.Sleep(pollInterval)
		synctest.Wait()
		f.store.mu.Lock()
		f.store.failing["Overdue"] = 40
		f.store.mu.Unlock()
		time.Sleep(2 * presence)
		f.store.mu.Lock()
		f.store.failing["Overdue"] = 0
		f.store.mu.Unlock()
		time.Sleep(presence - maxPollInterval)
		synctest.Wait()
		if got := f.reported(); len(got) > 0 {
			t.Fatalf("reported %v before the presence time was over since the outage", got)
		}
		f.heartbeat("returns")
		time.Sleep(3 * maxPollInterval)
		synctest.Wait()
		if diff := cmp.Diff([]core.NodeID{"lost"}, nodeIDs(f.reported())); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
	})
}

func TestSilentNodeIsReportedAgainAfterItReturned(t *testing.T) {
	t.Parallel()
	for name, comeBack := range map[string]func(*followerHarness){
		"by heartbeat":    func(f *followerHarness) { f.heartbeat("a") },
		"by registration": func(f *followerHarness) { f.register("a") },
		"after it was forgotten": func(f *followerHarness) {
			f.remove("a")
			f.register("a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFollowerHarness(t)
				f.register("a")
				f.run()
				for life := range 3 {
					time.Sleep(presence + maxPollInterval)
					synctest.Wait()
					if got := len(f.reported()); got != life+1 {
						t.Fatalf("%d reports in life %d, want %d", got, life+1, life+1)
					}
					time.Sleep(time.Minute)
					comeBack(f)
				}
				if got := len(f.reported()); got != 3 {
					t.Errorf("%d reports, want 3", got)
				}
			})
		})
	}
}

// TestRemovedNodeIsNotReported checks that a node which the store has removed is not reported: it has no jobs.
func TestRemovedNodeIsNotReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("a")
		f.run()
		time.Sleep(presence / 2)
		f.remove("a")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := f.reported(); len(got) > 0 {
			t.Errorf("reported %v", got)
		}
	})
}

// TestNodeSilentBeforeStartIsReported checks that nodes which were silent before the follower started are reported: their
// jobs may not have been handled.
func TestNodeSilentBeforeStartIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollowerHarness(t)
		f.register("a")
		time.Sleep(time.Hour)
		f.run()
		time.Sleep(maxPollInterval)
		synctest.Wait()
		if diff := cmp.Diff([]core.NodeID{"a"}, nodeIDs(f.reported())); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		if f.fleet.Len() != 0 {
			t.Error("a silent node came into view")
		}
	})
}

// TestRemovedNodesLeaveTheQueue checks that the queue does not grow if nodes register under new ids forever.
func TestRemovedNodesLeaveTheQueue(t *testing.T) {
	t.Parallel()
	follower := &Follower{Fleet: New(presence)}
	follower.recordLastSeen([]store.LastSeen{{Node: "a", Age: presence}, {Node: "b", Age: presence}})
	follower.recordLastSeen([]store.LastSeen{{Node: "b", Age: presence}})
	if diff := cmp.Diff(map[core.NodeID]bool{"b": true}, follower.silent.reported); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}
