package drill

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/wire"
)

var leaderRounds = flag.Int("leader-rounds", 1, "how often TestStatsLeaderKilled kills the instance that computes the statistics, and how often it stops it")

// leaderLimit is in how much time another instance computes the statistics after the one that did has died.
const leaderLimit = 10 * time.Second

// leaderTimeout is how long the test waits for another instance. With one round the machine may be busy with other drills.
func leaderTimeout() time.Duration {
	if *leaderRounds == 1 {
		return 3 * leaderLimit
	}
	return leaderLimit
}

// TestStatsLeaderKilled kills and stops the instance that computes the statistics for all: another one does within leaderLimit, never two at
// a time, and what an instance that was stopped still publishes replaces nothing newer. In full:
//
//	go test -count=1 -v -run TestStatsLeaderKilled ./test/drill -leader-rounds 10
func TestStatsLeaderKilled(t *testing.T) {
	t.Parallel()
	c := startTestCluster(t, buildOnce(t), *drillTopology, rand.New(rand.NewPCG(1, 0)), []byte(commonSettings))
	w := &statsWatcher{t: t, newest: make(map[string]wire.Stats), leaders: make(map[int64]string), computed: make(map[int64]map[int64]bool)}
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	for _, i := range c.Instances {
		watching.Go(func() { w.watch(ctx, i) })
	}

	leader, fence := w.waitForLeader(c, 0)
	const interval, more = 5 * time.Second, 2
	before := w.count(fence)
	c.Must(clustertest.EventuallyEvery(t.Context(), 20*time.Millisecond, more*interval+leaderTimeout(), func() error {
		if n := w.count(fence) - before; n < more {
			return fmt.Errorf("%d of %d further snapshots were computed", n, more)
		}
		return nil
	}))
	// The first of these snapshots may have been late, and so nearer to the next.
	if took := w.span(fence, more+1); took < (more-1)*interval || w.latest() != fence {
		t.Errorf("without a fault %d snapshots were computed in %v, and the fence went from %d to %d; want one in %v, and the same fence", more+1, took, fence, w.latest(), interval)
	}
	for range *leaderRounds {
		began := time.Now()
		leader.Kill()
		next, successor := w.waitForLeader(c, fence)
		t.Logf("%s was killed: %s computed the statistics after %v", leader.Name, next.Name, time.Since(began).Round(time.Millisecond))
		c.Must(leader.Start(t.Context()))

		leader = next
		began = time.Now()
		c.Must(leader.Process.Stop(t.Context()))
		next, fence = w.waitForLeader(c, successor)
		t.Logf("%s was stopped: %s computed the statistics after %v", leader.Name, next.Name, time.Since(began).Round(time.Millisecond))
		c.Must(leader.Process.Continue())
		run.Sleep(t.Context(), 3*time.Second) // for what it had begun to publish
		leader = next
	}
	stop()
	watching.Wait()
	t.Logf("%d snapshots of %d leaders were read %d times", w.snapshots, len(w.leaders), w.reads)
}

// statsWatcher reads the statistics of all instances again and again, and checks that they are never older than before.
type statsWatcher struct {
	t *testing.T

	mu        sync.Mutex
	newest    map[string]wire.Stats    // by the instance that answered
	leaders   map[int64]string         // which instance computed them, by fence
	computed  map[int64]map[int64]bool // the times of the snapshots, by fence
	snapshots int
	reads     int
}

// watch reads the statistics of an instance until the context ends. An instance that is down or was just started has none.
func (w *statsWatcher) watch(ctx context.Context, i *clustertest.Instance) {
	for run.Sleep(ctx, 50*time.Millisecond) {
		body, err := i.Get(ctx, "/api/v1/stats")
		if err != nil {
			continue
		}
		var s wire.Stats
		if err := json.Unmarshal(body, &s); err != nil {
			w.t.Errorf("the statistics of %s: %v", i.Name, err)
		}
		w.check(i.Name, s)
	}
}

// check compares statistics with those that the same instance had before. Without a fence an instance computed them for itself.
func (w *statsWatcher) check(instance string, s wire.Stats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	if s.Fence == 0 {
		return
	}
	if last := w.newest[instance]; s.Fence < last.Fence || s.Fence == last.Fence && s.GeneratedMS < last.GeneratedMS {
		w.t.Errorf("%s showed the snapshot %d of the fence %d after %d of the fence %d", instance, s.GeneratedMS, s.Fence, last.GeneratedMS, last.Fence)
	}
	w.newest[instance] = s
	if by := w.leaders[s.Fence]; by != "" && by != s.GeneratedBy {
		w.t.Errorf("%s and %s computed the statistics with the same fence, %d", by, s.GeneratedBy, s.Fence)
	}
	w.leaders[s.Fence] = s.GeneratedBy
	if w.computed[s.Fence] == nil {
		w.computed[s.Fence] = make(map[int64]bool)
	}
	if !w.computed[s.Fence][s.GeneratedMS] {
		w.computed[s.Fence][s.GeneratedMS] = true
		w.snapshots++
	}
}

// latest returns the highest fence.
func (w *statsWatcher) latest() (fence int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for f := range w.leaders {
		fence = max(fence, f)
	}
	return fence
}

// count returns how many snapshots were computed with a fence.
func (w *statsWatcher) count(fence int64) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.computed[fence])
}

// span returns the time between the first and the last of the last snapshots that were computed with a fence.
func (w *statsWatcher) span(fence int64, snapshots int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	times := slices.Sorted(maps.Keys(w.computed[fence]))
	return time.Duration(times[len(times)-1]-times[max(0, len(times)-snapshots)]) * time.Millisecond
}

// waitForLeader waits until an instance shows statistics of a later fence, and returns the instance that computed them.
func (w *statsWatcher) waitForLeader(c *testCluster, after int64) (leader *clustertest.Instance, fence int64) {
	c.Must(clustertest.EventuallyEvery(w.t.Context(), 20*time.Millisecond, leaderTimeout(), func() error {
		if fence = w.latest(); fence <= after {
			return fmt.Errorf("no instance computes the statistics: the fence is still %d", fence)
		}
		return nil
	}))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range c.Instances {
		if strings.HasPrefix(w.leaders[fence], i.Name+"-") {
			return i, fence
		}
	}
	c.TB.Fatalf("the statistics were computed by %q, which is none of the instances", w.leaders[fence])
	return nil, 0
}
