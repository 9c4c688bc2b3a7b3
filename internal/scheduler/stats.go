package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/health"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// suspectFor is how long this instance prefers other nodes after it has seen a node fail much more often than they do. The leader of all
// instances decides within the next seconds whether the node is ejected.
const suspectFor = 5 * time.Second

// statistics are the parts that count, compute and read the statistics.
type statistics struct {
	counter   *stats.Counter
	generator *stats.Generator
	leader    *stats.Leader
	reader    *stats.Reader
	series    *stats.NodeSeries
	leads     func(bool)
	rate      *telemetry.Rate
}

// newStats makes the statistics of an instance.
func (s *Scheduler) newStats(c *config.Scheduler, instance core.InstanceID) *statistics {
	interval, kind := c.Stats.IntervalSeconds.Duration(), "memory"
	if s.Store.Shared() {
		kind = "redis"
	}
	st := &statistics{counter: stats.NewCounter(instance, s.Store, interval, s.log), series: stats.NewNodeSeries(s.Fleet),
		rate: s.Metrics.DispatchRate}
	st.generator = &stats.Generator{
		Instance: instance, Stats: s.Store, Fleet: s.Fleet, Catalog: s.guards.catalog, Peers: s.Bus.Presences,
		DeadLetters: s.Bus.DeadLetterCount,
		Interval:    interval, TTL: c.Stats.TTLSeconds.Duration(), Log: s.log, Events: s.events,
	}
	st.reader = stats.NewReader(s.Store, st.generator, kind, s.storeHealth.Reachable, s.log)
	ejector := &health.Ejector{Store: s.Store, Fleet: s.Fleet, Events: s.events, Counted: s.Metrics.Admissions, Log: s.log}
	st.generator.Judge = ejector.Lift
	if c.OutlierEjection.Enabled {
		st.generator.Judge = ejector.Judge
		st.counter.OnSuspect(func(id core.NodeID) {
			if n := s.Fleet.Node(id); n != nil {
				n.SetAside(s.Fleet.Now() + fleet.Instant(suspectFor))
			}
		})
		st.counter.Follow(func(id core.NodeID) *core.Node {
			if n := s.Fleet.Node(id); n != nil {
				return n.Declared()
			}
			return nil
		})
	}
	st.leader = &stats.Leader{Locks: s.Store, Name: "stats", Instance: instance, Log: s.log}
	st.leads = func(leads bool) {
		if !leads {
			s.Metrics.StatsLeader.Set(0)
			return
		}
		s.Metrics.StatsLeader.Set(1)
		s.events.Record(store.Event{Kind: store.EventStatsLeader})
	}
	return st
}

// record makes the load of this instance part of what it publishes, and what it counts part of the series of nodes.
func (s *statistics) record(jobs *dispatch.Dispatcher, m *telemetry.Metrics) {
	s.counter.Record(s.series, func() stats.Load {
		return stats.Load{
			Waiting: jobs.Waiting.Waiting(), WaitingBy: jobs.Waiting.WaitingByDirection(), Dispatched: m.Dispatched(),
			Retries: m.Retries.Sum(), Lag: m.Lags(),
		}
	})
}

// run runs the parts until the context ends.
func (s *statistics) run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { s.counter.Run(ctx) })
	parts.Go(func() {
		s.leader.Run(ctx, func(ctx context.Context, fence int64) {
			s.leads(true)
			defer s.leads(false)
			s.generator.Lead(ctx, fence)
		})
	})
	parts.Go(func() { s.reader.Run(ctx) })
	parts.Go(func() { s.rate.Run(ctx) })
	parts.Go(func() { s.series.Run(ctx) })
	parts.Wait()
}
