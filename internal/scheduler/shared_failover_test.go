package scheduler_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/redistest"
)

var failovers = flag.Int("failovers", 1, "how often TestFailover kills a primary of each topology")

// replicated is a Redis of several servers of which one may die.
type replicated interface {
	URL() string
	WaitHealthy(time.Duration)
}

// TestFailover kills primaries under load. Each time the service comes back by itself; no node is given more than it
// has room for; every job that was accepted ends. What the new primary has not heard of before the old one died is
// counted.
func TestFailover(t *testing.T) {
	t.Run("sentinel", func(t *testing.T) {
		s := redistest.StartSentinel(t)
		failover(t, s, func(int) *redistest.Server { return s.KillPrimary() })
	})
	t.Run("cluster", func(t *testing.T) {
		c := redistest.StartCluster(t)
		failover(t, c, func(i int) *redistest.Server { return c.KillPrimary(i % 3) })
	})
}

// brisk is a configuration in which a failover takes about as long, compared with everything else, as it does with the
// default.
func brisk() config.Config {
	cfg := config.Default()
	c := &cfg.Scheduler
	c.Nodes.HeartbeatIntervalMS, c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 500, 8000, 8000
	c.Dispatch.ACKTimeoutMS, c.Dispatch.AttemptTimeoutMS, c.Dispatch.JobTimeoutMS = 1500, 10_000, 25_000
	c.TaskBinding.ReservedTTLSeconds, c.TaskBinding.LeaseSeconds = 2, 3600
	c.Observability.PathWarnMS = 60_000
	return cfg
}

func failover(t *testing.T, redis replicated, kill func(i int) *redistest.Server) {
	cfg := brisk()
	w := share(t, redis.URL(), cfg, nil)
	nodes := startNodes(t, w, sharedNodes, sharedSlots, func() time.Duration { return 50*time.Millisecond + rand.N(150*time.Millisecond) })
	load := startLoad(t, w)
	load.sent(100)
	longest := time.Duration(0)
	for i := range *failovers {
		load.mark()
		killed := kill(i)
		away := load.outage()
		longest = max(longest, away)
		t.Logf("failover %d: service was back after %v", i+1, away)
		redis.WaitHealthy(patience)
		killed.Restart()
		redis.WaitHealthy(patience)
		load.sent(100)
	}
	c := &cfg.Scheduler
	v := load.settle(c.Dispatch.JobTimeoutMS.Duration() + 2*c.Nodes.PresenceTTLMS.Duration() + 5*time.Second)
	t.Logf("failovers %d, longest outage %v, accepted %d: %v, oversold %d; refused on the way %v, noticed as forgotten %v, reconciled %v",
		*failovers, longest, len(load.accepted), v, nodes.oversold(t), load.refused,
		w.counted(t, "lingua_store_lost_total", "kind"), w.counted(t, "lingua_reconciled_leases_total", "kind"))
	if len(v.forgotten) > 0 {
		t.Logf("forgotten:%s", load.explain(nodes, v.forgotten))
	}
}
