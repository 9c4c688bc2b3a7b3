package scheduler_test

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestDrainSurvivesLossOfTheStore: a node that was drained before Redis was emptied gets no job when it has registered again, through
// whichever instance. One that was resumed, or that was removed and came back, gets jobs.
func TestDrainSurvivesLossOfTheStore(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	cfg := fastConfig()
	cfg.Scheduler.Nodes.HeartbeatIntervalMS = 300
	instances := startCluster(t, redis.URL(), cfg, nil)
	nodes := startNodes(t, instances, 4, sharedSlots, func() time.Duration { return 20 * time.Millisecond })
	const drained, resumed, removed = 0, 1, 2
	drain := func(at, n int, drained bool) {
		t.Helper()
		retryWhileDown(t, func() error {
			_, err := instances[at].Nodes.Drain(t.Context(), core.NodeID(nodes[n].ID), drained)
			return err
		})
	}
	for n := range removed + 1 {
		drain(0, n, true)
	}
	drain(1, resumed, false)
	retryWhileDown(t, func() error {
		_, err := instances[1].Nodes.Remove(t.Context(), core.NodeID(nodes[removed].ID))
		return err
	})
	// An instance that has not read of a drain cannot remember it.
	waitUntil(t, "every instance to know what is drained", waitLimit, func() bool {
		for _, in := range instances {
			for i, n := range nodes {
				if in.Nodes.RemembersDrain(core.NodeID(n.ID)) != (i == drained) {
					return false
				}
			}
		}
		return true
	})
	seen := func() bool {
		for _, in := range instances {
			for i, n := range nodes {
				if seen := in.Fleet.Node(core.NodeID(n.ID)); seen == nil || seen.Declared().Drained != (i == drained) {
					return false
				}
			}
		}
		return true
	}
	waitUntil(t, "the removed node to be back, and every instance to see it", waitLimit, seen)
	load := startLoad(t, instances)
	for i := range 2 { // the second time, Redis loses what was put back
		load.waitForAccepted(100)
		load.markFault()
		do(t, redis, "FLUSHALL")
		waitUntil(t, "every node to have registered again", waitLimit, func() bool { return nodes.allRegistered(i + 2) })
		waitUntil(t, "every instance to see the nodes as before", waitLimit, seen)
		load.waitForService()
	}
	load.waitForAccepted(100)
	load.end()
	for i, n := range nodes {
		if worked := n.Stats().Accepted > 0; worked == (i == drained) {
			t.Errorf("%s: it got jobs: %v", n.ID, worked)
		}
	}
}
