package stats

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Store is the part of the store that this package uses.
type Store interface {
	store.Values
	store.Locks
	health.Admitter
	Shared() bool
}

// Options are what the statistics of an instance are made from.
type Options struct {
	Instance core.InstanceID
	Interval time.Duration // between two snapshots, and between two publications of what this instance has counted
	TTL      time.Duration // of a snapshot, after which it is gone
	Presence time.Duration // how long a node counts as alive after a heartbeat
	// EjectOutliers withholds the slots of nodes that fail much more often than others.
	EjectOutliers bool

	Store          Store
	StoreReachable func() bool
	Fleet          *fleet.Fleet
	Bus            *bus.Bus
	Catalog        *health.Catalog // has the names and versions of services
	Load           func() Load     // of this instance
	Events         *journal.Events
	Metrics        *telemetry.Metrics
	Log            *slog.Logger
}

// Stats has the parts that count, compute and read the statistics.
type Stats struct {
	Counter *Counter
	Series  *NodeSeries
	Table   *NodeTable
	Jobs    *JobRing
	Reader  *Reader

	generator *Generator
	leader    *Leader
	metrics   *telemetry.Metrics
	events    *journal.Events
}

// suspectFor is how long this instance prefers other nodes after it has seen a node fail much more often than they do. The leader of all
// instances decides within the next seconds whether the node is ejected.
const suspectFor = 5 * time.Second

// New makes the statistics of an instance.
func New(o Options) *Stats {
	s := &Stats{
		Counter: NewCounter(o.Instance, o.Store, o.Interval, o.Log),
		Series:  NewNodeSeries(o.Fleet),
		Jobs:    NewJobRing(),
		leader:  &Leader{Locks: o.Store, Name: "stats", Instance: o.Instance, Log: o.Log},
		metrics: o.Metrics,
		events:  o.Events,
	}
	s.Table = NewNodeTable(o.Fleet, s.Series, o.Presence)
	s.Counter.series = s.Series
	s.Counter.load = o.Load
	s.generator = &Generator{
		Instance: o.Instance, Stats: o.Store, Fleet: o.Fleet, Catalog: o.Catalog, Interval: o.Interval, TTL: o.TTL,
		Peers: o.Bus.Presences, DeadLetters: o.Bus.DeadLetterCount, Log: o.Log, Events: o.Events,
	}
	kind := "memory"
	if o.Store.Shared() {
		kind = "redis"
	}
	s.Reader = NewReader(o.Store, s.generator, kind, o.StoreReachable, o.Log)
	ejector := &health.Ejector{Store: o.Store, Fleet: o.Fleet, Events: o.Events, Counted: o.Metrics.Admissions, Log: o.Log}
	s.generator.Judge = ejector.Lift
	if o.EjectOutliers {
		s.generator.Judge = ejector.Judge
		s.Counter.suspect = func(id core.NodeID) {
			if n := o.Fleet.Node(id); n != nil {
				n.SetAside(o.Fleet.Now() + fleet.Instant(suspectFor))
			}
		}
		s.Counter.node = func(id core.NodeID) *core.Node {
			if n := o.Fleet.Node(id); n != nil {
				return n.Declared()
			}
			return nil
		}
	}
	return s
}

// Observer passes what becomes of requests and jobs on to what counts and remembers them. It is a dispatch.Observer.
type Observer struct {
	*Counter
	jobs *JobRing
}

// Observer returns the observer of this instance.
func (s *Stats) Observer() Observer { return Observer{s.Counter, s.Jobs} }

// NodeSelected remembers how a node was chosen.
func (o Observer) NodeSelected(d core.Decision) { o.jobs.AddDecision(&d) }

// JobEnded remembers a job that has ended, and counts it unless it is a test job.
func (o Observer) JobEnded(job *core.Job) {
	o.jobs.AddJob(job)
	if !job.TestJob {
		o.Counter.JobEnded(job)
	}
}

// Run runs the parts until the context ends.
func (s *Stats) Run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { s.Counter.Run(ctx) })
	parts.Go(func() { s.leader.Run(ctx, s.lead) })
	parts.Go(func() { s.Reader.Run(ctx) })
	parts.Go(func() { s.Series.Run(ctx) })
	parts.Wait()
}

// lead publishes the statistics of all instances while this one leads.
func (s *Stats) lead(ctx context.Context, fence int64) {
	s.metrics.StatsLeader.Set(1)
	defer s.metrics.StatsLeader.Set(0)
	s.events.Record(store.Event{Kind: store.EventStatsLeader})
	s.generator.Lead(ctx, fence)
}
