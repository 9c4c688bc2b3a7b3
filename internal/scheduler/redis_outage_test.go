package scheduler_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

var failovers = flag.Int("failovers", 1, "how often TestFailover kills a primary of each topology")

// replicatedRedis is a Redis of several servers of which one may die.
type replicatedRedis interface {
	URL() string
	WaitHealthy(time.Duration)
}

// TestFailover kills primaries under load. Each time the service comes back by itself; no node gets more jobs than it
// has slots; every job that was accepted ends. What was not replicated to the new primary is
// counted.
func TestFailover(t *testing.T) {
	t.Parallel()
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinel(t)
		testFailover(t, s, func(int) *redistest.Server { return s.KillPrimary() })
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		testFailover(t, c, func(i int) *redistest.Server { return c.KillPrimary(i % 3) })
	})
}

func testFailover(t *testing.T, redis replicatedRedis, kill func(i int) *redistest.Server) {
	cfg := fastConfig()
	instances := startCluster(t, redis.URL(), cfg, nil)
	nodes := startNodes(t, instances, sharedNodes, sharedSlots, func() time.Duration { return 50*time.Millisecond + rand.N(150*time.Millisecond) })
	load := startLoad(t, instances)
	load.waitForAccepted(100)
	longest := time.Duration(0)
	for i := range *failovers {
		load.markFault()
		killed := kill(i)
		outage := load.waitForService()
		longest = max(longest, outage)
		t.Logf("failover %d: service was back after %v", i+1, outage)
		redis.WaitHealthy(waitLimit)
		killed.Restart()
		redis.WaitHealthy(waitLimit)
		load.waitForAccepted(100)
	}
	c := &cfg.Scheduler
	v := load.waitForEnd(c.Dispatch.JobTimeoutMS.Duration() + 2*c.Nodes.PresenceTTLMS.Duration() + 30*time.Second)
	t.Logf("failovers %d, longest outage %v, accepted %d: %v, deliveries without a free slot %d; refused meanwhile %v, noticed as lost %v, reconciled %v",
		*failovers, longest, len(load.accepted), v, nodes.refusedDeliveries(t), load.refused,
		instances.sumMetric(t, "lingua_store_lost_total", "kind"), instances.sumMetric(t, "lingua_reconciled_leases_total", "kind"))
	if len(v.lost) > 0 {
		t.Logf("lost:%s", load.explain(nodes, v.lost))
	}
}

// TestNewStoreIncarnation empties Redis under load. The fleet is complete again as soon as the nodes have registered again,
// their jobs take their slots again, and jobs that are accepted from then on end. The outcomes of jobs of the incarnation
// before are counted: nothing is promised about them.
func TestNewStoreIncarnation(t *testing.T) {
	t.Parallel()
	cfg := fastConfig()
	c := &cfg.Scheduler
	c.Nodes.HeartbeatIntervalMS, c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 300, 3000, 3000
	c.Dispatch.AttemptTimeoutMS, c.Dispatch.JobTimeoutMS = 4000, 6000
	redis := redistest.Start(t)
	instances := startCluster(t, redis.URL(), cfg, nil)
	nodes := startNodes(t, instances, sharedNodes, sharedSlots, func() time.Duration {
		if rand.N(4) == 0 {
			return 2 * time.Second
		}
		return 50*time.Millisecond + rand.N(250*time.Millisecond)
	})
	load := startLoad(t, instances)
	load.waitForAccepted(100)

	stall := detectStalls(t)
	load.markFault()
	do(t, redis, "FLUSHALL")
	flushed := time.Now()
	held := nodes.heldJobs()
	complete := waitUntil(t, "every node to be registered again and seen by both", waitLimit, func() bool {
		return nodes.allRegistered(2) && instances.allSee(nodes.ids()...)
	})
	back := load.waitForService()
	adopted := countAdopted(t, instances, held, flushed.Add(4*c.Nodes.HeartbeatIntervalMS.Duration()))
	waitUntil(t, "the held jobs to end", 3*waitLimit, func() bool { return countOutcomes(held)[""] == 0 })
	load.waitForAccepted(200)
	v := load.waitForEnd(c.Dispatch.JobTimeoutMS.Duration() + 2*c.Nodes.PresenceTTLMS.Duration() + 30*time.Second)

	before, during := 0, 0
	for _, id := range v.lost {
		switch s := load.accepted[id]; {
		case s.ended.Before(flushed):
			before++
		case s.began.Before(flushed):
			during++
		default:
			t.Errorf("%s was accepted in the new incarnation and is lost:%s", id, nodes.historyOf(id))
		}
	}
	t.Logf("the fleet was complete again after %v, at a heartbeat interval of %v; dispatches were accepted after %v; the nodes held %d jobs, of %d that they still held four heartbeats later %d had leases; outcomes: %v",
		complete.Round(time.Millisecond), c.Nodes.HeartbeatIntervalMS.Duration(), back, len(held), adopted.held, adopted.leased, countOutcomes(held))
	t.Logf("accepted %d: %v, of the lost ones %d accepted before Redis was emptied and %d meanwhile; deliveries without a free slot %d; refused meanwhile %v, noticed as lost %v, reconciled %v",
		len(load.accepted), v, before, during, nodes.refusedDeliveries(t), load.refused,
		instances.sumMetric(t, "lingua_store_lost_total", "kind"), instances.sumMetric(t, "lingua_reconciled_leases_total", "kind"))
	if stalled := stall.TakeLongest(); adopted.leased < adopted.held && stalled < c.Nodes.HeartbeatIntervalMS.Duration() {
		t.Errorf("%d jobs that nodes list do not take a slot", adopted.held-adopted.leased)
	}
}

// adoption is how many jobs of the earlier incarnation the nodes held at a time, and how many of these had leases.
type adoption struct{ held, leased int }

// countAdopted waits until a time and counts the jobs on which their nodes still work, and those of them that have a lease. One without a lease
// whose node is told to stop does not count.
func countAdopted(t *testing.T, instances cluster, held []heldJob, at time.Time) adoption {
	t.Helper()
	waitUntil(t, "the given time", waitLimit, func() bool { return time.Now().After(at) })
	var a adoption
	var missing []heldJob
	for _, h := range held {
		var leases []core.Lease
		retryWhileDown(t, func() (err error) {
			leases, err = instances.anyInstance().Store.Orphans(t.Context(), core.NodeID(h.node.ID))
			return err
		})
		isOf := func(l core.Lease) bool { return string(l.Job) == h.JobID && l.Attempt == h.AttemptID }
		switch {
		case slices.ContainsFunc(leases, isOf):
			a.held++
			a.leased++
		case h.working(): // it did so, too, when the leases were read
			missing = append(missing, h)
		}
	}
	for _, h := range missing {
		waitUntil(t, "the outcome of a job without a lease", waitLimit, func() bool { return h.outcome() != "" })
		if h.outcome() == accepted {
			a.held++
		}
	}
	return a
}

var stopFor = flag.Duration("stop-for", 2*time.Second, "how long TestRedisStopped halts Redis while the held jobs are not overdue")

// TestRedisStopped halts Redis under load, for longer than leases and presence last, or for longer than anything does. When it
// continues no node gets more jobs than it has slots, and results of the meantime are accepted unless they are too late.
func TestRedisStopped(t *testing.T) {
	t.Parallel()
	t.Run("for longer than leases last", stoppedForLongerThanLeases)
	t.Run("for longer than jobs last", stoppedForLongerThanJobs)
}

// startStoppable starts two instances on a Redis, with a load of which some jobs take as long as given.
func startStoppable(t *testing.T, cfg config.Config, long *atomic.Int64) (redis *redistest.Server, nodes nodeFleet, load *httpLoad) {
	t.Helper()
	redis = redistest.Start(t)
	instances := startCluster(t, redis.URL(), cfg, nil)
	nodes = startNodes(t, instances, sharedNodes, sharedSlots, func() time.Duration {
		if rand.N(20) == 0 {
			return time.Duration(long.Load()) + rand.N(500*time.Millisecond)
		}
		return 50*time.Millisecond + rand.N(150*time.Millisecond)
	})
	load = startLoad(t, instances)
	load.waitForAccepted(100)
	return redis, nodes, load
}

func stoppedForLongerThanLeases(t *testing.T) {
	t.Parallel()
	cfg := shortConfig()
	c := &cfg.Scheduler
	c.Dispatch.AttemptTimeoutMS = config.Millis((*stopFor + 10*time.Second).Milliseconds()) // no job is too late, also on a busy machine
	c.Dispatch.JobTimeoutMS = c.Dispatch.AttemptTimeoutMS + 1000
	var long atomic.Int64
	long.Store(int64(*stopFor))
	redis, nodes, load := startStoppable(t, cfg, &long)
	stall := detectStalls(t)
	h := haltRedis(t, redis, load, nodes, *stopFor)
	lost := h.lostJobs(t, load.cluster)
	t.Logf("halted for %v (presence %v, attempt %v): %d jobs held, lost %d; service was back after %v, promised are 2s",
		*stopFor, c.Nodes.PresenceTTLMS.Duration(), c.Dispatch.AttemptTimeoutMS.Duration(), len(h.held), len(lost), h.backAfter)
	stalled := stall.TakeLongest()
	for _, job := range lost {
		if stalled > c.Nodes.PresenceTTLMS.Duration()/2 {
			t.Logf("this process was stalled for %v: %s", stalled.Round(time.Millisecond), job)
		} else {
			t.Error(job)
		}
	}
	endStopped(t, nodes, load, 2*c.Dispatch.JobTimeoutMS.Duration())
}

func stoppedForLongerThanJobs(t *testing.T) {
	t.Parallel()
	cfg := shortConfig()
	c := &cfg.Scheduler
	c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 2000, 2000
	c.Dispatch.AttemptTimeoutMS, c.Dispatch.JobTimeoutMS = 2000, 2500
	record := c.Dispatch.JobTimeoutMS.Duration() + 2*c.Nodes.PresenceTTLMS.Duration()
	halt := record + time.Second
	var long atomic.Int64
	long.Store(int64(halt))
	redis, nodes, load := startStoppable(t, cfg, &long)
	time.AfterFunc(halt/2, func() { long.Store(0) }) // no job of the time after the halt takes longer than a job may
	h := haltRedis(t, redis, load, nodes, halt)
	t.Logf("halted for %v (job %v, its record %v): %d jobs held, past their deadline, with outcomes: %v; service was back after %v",
		halt, c.Dispatch.JobTimeoutMS.Duration(), record, len(h.held), countOutcomes(h.held), h.backAfter)
	endStopped(t, nodes, load, halt+30*time.Second)
}

// endStopped ends the load, and checks that every job which was accepted after Redis continued has ended and that no node got too many.
func endStopped(t *testing.T, nodes nodeFleet, load *httpLoad, limit time.Duration) {
	t.Helper()
	load.waitForAccepted(100)
	v := load.waitForEnd(limit)
	t.Logf("accepted %d: %v; refused meanwhile %v, reconciled %v, fenced %v", len(load.accepted), v, load.refused,
		load.cluster.sumMetric(t, "lingua_reconciled_leases_total", "kind"), load.cluster.sumMetric(t, "lingua_fenced_total", "cause"))
	if len(v.lost) > 0 {
		t.Logf("lost, because their records expired while Redis was halted:%s", load.explain(nodes, v.lost))
	}
	for _, id := range v.lost {
		if load.accepted[id].began.After(load.faultAt) {
			t.Errorf("%s was accepted after Redis continued, and is lost", id)
		}
	}
	if n := nodes.refusedDeliveries(t); n > 0 {
		t.Errorf("%d jobs were delivered to nodes without a free slot", n)
	}
}

// shortConfig is a configuration in which leases and presence expire while Redis is halted.
func shortConfig() config.Config {
	cfg := config.Default()
	c := &cfg.Scheduler
	c.Nodes.HeartbeatIntervalMS, c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 300, 1500, 1500
	c.Dispatch.ACKTimeoutMS, c.TaskBinding.ReservedTTLSeconds = 1500, 2
	c.TaskBinding.LeaseSeconds = 3600
	c.Observability.PathWarnMS = 60_000
	return cfg
}

// redisHalt is a time in which Redis was halted.
type redisHalt struct {
	began     time.Time
	duration  time.Duration
	backAfter time.Duration // until the service was back, from its end
	held      []heldJob     // the jobs that the nodes held when it began
}

// haltRedis halts Redis for a while and returns when the jobs that were held have ended on their nodes.
func haltRedis(t *testing.T, redis *redistest.Server, l *httpLoad, nodes nodeFleet, d time.Duration) *redisHalt {
	t.Helper()
	h := &redisHalt{began: time.Now(), duration: d}
	redis.Stop()
	h.held = nodes.heldJobs()
	run.Sleep(t.Context(), d)
	l.markFault()
	redis.Continue()
	h.backAfter = l.waitForService()
	waitUntil(t, "the held jobs to end", 3*waitLimit, func() bool { return countOutcomes(h.held)[wire.Code("")] == 0 })
	return h
}

// lostJobs describes each job whose result was not accepted, except those that had left the node by the record
// before.
func (h *redisHalt) lostJobs(t *testing.T, instances cluster) []string {
	t.Helper()
	var lost []string
	for _, held := range h.held {
		if held.outcome() == accepted {
			continue
		}
		var job wire.Job
		retryWhileDown(t, func() error { return instances.anyInstance().peer.Get(t.Context(), "/v1/jobs/"+held.JobID, &job) })
		over := false
		for _, a := range job.Attempts {
			over = over || a.AttemptID == held.AttemptID && a.EndedMS > 0 && a.EndedMS <= h.began.UnixMilli()
		}
		if !over {
			lost = append(lost, held.String()+" when Redis was halted for "+h.duration.String()+"; the record: "+job.State+" "+formatAttempts(&job))
		}
	}
	return lost
}
