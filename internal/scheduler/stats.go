package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/events"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/guard"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// suspectFor is how long this instance prefers other nodes after it has seen a node fail much more often than they do. The leader of all
// instances decides within the next seconds whether the node is ejected.
const suspectFor = 5 * time.Second

// stats are the parts that count, compute and read the statistics.
type stats struct {
	counter   *guard.Counter
	generator *guard.Generator
	leader    *guard.Leader
	reader    *guard.Reader
	series    *guard.NodeSeries
	leads     func(bool)
}

func newStats(
	c *config.Stats, ejection config.OutlierEjection, instance core.InstanceID, st store.Store, fl *fleet.Fleet, b *bus.Bus, shared bool, m *telemetry.Metrics, recorder *events.Recorder, log *slog.Logger,
) *stats {
	interval, kind := c.IntervalSeconds.Duration(), "memory"
	if shared {
		kind = "redis"
	}
	s := &stats{counter: guard.NewCounter(instance, st, interval, log), series: guard.NewNodeSeries(fl)}
	s.generator = &guard.Generator{
		Instance: instance, Stats: st, Fleet: fl, Peers: b.Peers, Interval: interval, TTL: c.TTLSeconds.Duration(), Log: log,
	}
	s.reader = guard.NewReader(st, s.generator, kind, log)
	ejector := &guard.Ejector{Store: st, Fleet: fl, Events: recorder, Counted: m.Admissions, Log: log}
	s.generator.Judge = ejector.Lift
	if ejection.Enabled {
		s.generator.Judge = ejector.Judge
		s.counter.OnSuspect(func(id core.NodeID) {
			if n := fl.Node(id); n != nil {
				n.SetAside(fl.Now() + fleet.Instant(suspectFor))
			}
		})
	}
	s.leader = &guard.Leader{Locks: st, Name: "stats", Instance: instance, Log: log}
	s.leads = func(leads bool) {
		if !leads {
			m.StatsLeader.Set(0)
			return
		}
		m.StatsLeader.Set(1)
		recorder.Record(store.Event{Kind: store.EventStatsLeader})
	}
	return s
}

// record makes the load of this instance part of what it publishes, and what it counts part of the series of nodes.
func (s *stats) record(jobs *dispatch.Dispatcher, m *telemetry.Metrics) {
	s.counter.Record(s.series, func() guard.Load { return guard.Load{Waiting: jobs.Waiting(), Dispatched: m.Dispatched()} })
}

// run runs the parts until the context ends.
func (s *stats) run(ctx context.Context) {
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
	parts.Go(func() { s.series.Run(ctx) })
	parts.Wait()
}
