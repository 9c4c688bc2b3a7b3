// Package dispatch runs jobs: it reserves a slot, records the holder, delivers the job, takes the node's ACK and result, and
// moves the job to another node when an attempt fails, until the job has ended exactly once.
//
// Leases and records are kept strictly apart. Leases account for slots; the record decides outcomes, by compare-and-set on
// the holder. Everything in memory (in-flight jobs and their timers) is only the fast path: what is lost with the process is
// found again through the lease sets of the nodes.
//
// The parts, each in a file of its own:
//
//   - Dispatcher: the requests of clients (dispatch, wait, cancel, query) and the lifecycle of the package;
//   - selector: chooses a node and reserves a slot on it, with prober for batched reads of how full nodes are;
//   - inFlightTable: the jobs of this instance and their timers;
//   - runner: starts, resumes and times jobs; a jobRun takes one job through its attempts and deliveries;
//   - lostNodes: nodes whose connection is lost, from which jobs move while it may come back;
//   - Reports: messages from nodes about their jobs (ACK, result, failure);
//   - Reconciler: jobs whose lease, node or instance was lost;
//   - slots: releases and revokes leases.
//
// Requests that wait for a slot are in package waiting, and the limits of tenants in package tenants.
//
// It imports pick, fleet, store and core. Delivery to nodes is behind Transport and sessions are behind Outcomes, both
// declared here.
package dispatch

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/internal/waiting"
)

// Config configures a Dispatcher.
type Config struct {
	Instance core.InstanceID // this incarnation of this instance

	DecideWithin time.Duration // a request is recorded or refused within this time
	ACKTimeout   time.Duration // a node acknowledges a delivery within this time
	// DeliverWithin limits the time from a reservation to its delivery: later the lease may have been given up. 0: no limit.
	DeliverWithin  time.Duration
	AttemptTimeout time.Duration // an attempt has a result within this time
	JobTimeout     time.Duration // a job ends within this time
	MaxRetry       int           // how many attempts may follow the first
	AudioGrace     time.Duration // how long a job waits for audio that was lost
	SpreadWindow   time.Duration // jobs of a session avoid the node of the last one for this long; 0: they do not
	// HasAudio reports whether this instance has the audio of a job. An instance that does not leaves the job to the one that
	// does. Nil: the audio is always available.
	HasAudio func(job *core.Job) bool
	// MissedACKs calls a function for each job that was sent to a node over a connection to this instance and that the node has not
	// acknowledged in time over the connection, once; nil: there are no connections.
	MissedACKs func(func(MissedACK))
	// Events records what happens to the fleet; nil: nothing does.
	Events *journal.Events
	// StoreReachable reports whether the store answers and takes writes, as its last calls found. Nil: always.
	StoreReachable func() bool
	// Fence returns the time until which this instance may grant slots. Nil: no limit, because there is no other instance.
	Fence func() time.Time
	// Observer observes requests and jobs; nil: there is none.
	Observer Observer
	// Tenants admits the jobs of tenants that have limits, and has the weights of tenants that wait; nil: none has any.
	Tenants *tenants.Gate
	// Tracer makes the traces of jobs; nil: there are none.
	Tracer *tracing.Tracer
	// MaxWaiting is how many requests may wait for a slot in the queue of a pool; tenants that have less than their part of it may exceed
	// it.
	MaxWaiting int
	// Bus sends messages to other instances; nil: there is none.
	Bus waiting.Sender
	// Shared says that other instances use the same store, so that one of them may write a record again that the store has lost.
	Shared bool
}

// Store is the part of the store that this package uses.
type Store interface {
	store.NodeReader
	store.Ledger
	store.LeaseReader
	store.Jobs
	store.Values
	store.Waiting
	store.Clocks
	store.Locks
}

// Outcomes receives the outcomes of the jobs of sessions.
type Outcomes interface {
	// JobEnded appends the outcome of a job to its session's outbox, on whichever instance the session is. It is called
	// before the job's slot is released, so that the outcome can be repeated as long as the slot is taken. It may be called
	// more than once, and by several instances. received is when the node's result arrived at this instance; zero: it did not end by one.
	JobEnded(ctx context.Context, job *core.Job, received time.Time) error
	// AudioWanted announces that a job waits for its audio, so that the instance that has it resumes the job. Nothing
	// depends on its arrival.
	AudioWanted(ctx context.Context, job *core.Job)
	// NotifyEnded notifies another instance that a job which it dispatched has ended. Nothing depends on its arrival.
	NotifyEnded(ctx context.Context, at core.InstanceID, job core.JobID)
}

// Dispatcher accepts requests and runs their jobs. Make one with New; stop it with Drain and Close.
type Dispatcher struct {
	Reports    *Reports       // messages from nodes about their jobs
	Reconciler *Reconciler    // jobs whose lease, node or instance was lost
	Waiting    *waiting.Queue // requests that wait for a slot

	cfg      *Config
	store    *storeClient
	fleet    *fleet.Fleet
	metrics  *telemetry.Metrics
	tasks    *run.Group
	decide   *run.Limit // for decisions about requests
	tokens   *tokenSource
	selector *selector
	spread   *spreader
	slots    *slots
	inFlight *inFlightTable
	runner   *runner
	limits   *tenants.Jobs

	calls     *callGroup
	uncertain sync.Map // jobs whose record may have been written although the request was refused
	cancels   cancellations
	leaving   atomic.Bool   // only requests of sessions are accepted
	left      chan struct{} // closed by Leave: only requests of sessions wait for a slot
	leave     sync.Once
	drained   chan struct{} // closed when no slots are granted any more
	drain     sync.Once
	probes    atomic.Int32
}

// New makes a dispatcher. It starts no goroutine. Outcomes may be nil where there are no sessions.
func New(cfg Config, st Store, fl *fleet.Fleet, pk *pick.Picker, tr Transport, o Outcomes, m *telemetry.Metrics,
	log *slog.Logger) *Dispatcher {
	if cfg.HasAudio == nil {
		cfg.HasAudio = func(*core.Job) bool { return true }
	}
	if cfg.StoreReachable == nil {
		cfg.StoreReachable = func() bool { return true }
	}
	if cfg.Observer == nil {
		cfg.Observer = noObserver{}
	}
	d := &Dispatcher{cfg: &cfg, fleet: fl, metrics: m, calls: newCallGroup(), inFlight: newInFlightTable(), left: make(chan struct{}),
		drained: make(chan struct{})}
	d.tasks = run.NewGroup() // jobs outlive the requests that made them
	d.store = &storeClient{Store: st, StoreErrors: telemetry.NewStoreErrors(m, log), reachable: cfg.StoreReachable}
	d.decide = run.NewLimit(d.tasks.Context(), cfg.DecideWithin, cfg.Fence)
	d.tokens = &tokenSource{instance: cfg.Instance}
	d.Waiting = waiting.New(waitingOptions(d.cfg, d.store, fl, pk, m, log))
	d.slots = &slots{store: d.store, fleet: fl, transport: tr, waiting: d.Waiting, tasks: d.tasks}
	d.spread = &spreader{window: cfg.SpreadWindow, store: d.store}
	d.selector = newSelector(d.store, fl, pk, d.slots, d.decide, m, log)
	d.selector.observer, d.selector.waiting = cfg.Observer, d.Waiting
	d.limits = tenants.NewJobs(tenants.JobsOptions{
		Gate: cfg.Tenants, Records: d.store, Tasks: d.tasks, Errors: d.store.StoreErrors, NextName: d.tokens.next,
		MaxWaiting: cmp.Or(cfg.MaxWaiting, waiting.DefaultMaxWaiting),
	})
	d.runner = &runner{
		cfg: d.cfg, limits: d.limits, store: d.store, fleet: fl, selector: d.selector, spread: d.spread, slots: d.slots, waiting: d.Waiting,
		inFlight: d.inFlight, tokens: d.tokens,
		transport: tr, outcomes: o, metrics: m, log: log, tasks: d.tasks, decide: d.decide,
		deliver: run.NewLimit(d.tasks.Context(), cfg.ACKTimeout, nil), lost: newLostNodes(),
	}
	d.cancels.runner = d.runner
	d.Reports = newReports(d.runner)
	d.Reconciler = newReconciler(d.runner)
	return d
}

// waitingOptions returns what the queue of requests that wait is made of.
func waitingOptions(cfg *Config, st *storeClient, fl *fleet.Fleet, pk *pick.Picker, m *telemetry.Metrics,
	log *slog.Logger) waiting.Options {
	o := waiting.Options{
		Instance: cfg.Instance, Store: st, Fleet: fl, Picker: pk, Reachable: cfg.StoreReachable, Bus: cfg.Bus, Shared: cfg.Shared,
		MaxWaiting: cfg.MaxWaiting, ReadWithin: cfg.DecideWithin, Metrics: &m.Waiting, Errors: st.StoreErrors, Log: log,
	}
	if cfg.Tenants != nil {
		o.Weight = cfg.Tenants.Weight
	}
	return o
}

// InFlight returns the number of in-flight jobs of this instance.
func (d *Dispatcher) InFlight() int { return d.inFlight.len() }

// InFlightByTenant counts the in-flight jobs of this instance by tenant.
func (d *Dispatcher) InFlightByTenant() map[core.TenantID]int {
	counts := make(map[core.TenantID]int)
	d.inFlight.each(func(f *inFlightJob) { counts[f.record().Tenant]++ })
	return counts
}

// RenewTenants restores the counts of jobs and of waiting requests that the store has lost, from time to time, until the context ends.
func (d *Dispatcher) RenewTenants(ctx context.Context) {
	d.limits.Keep(ctx, func(yield func(tenants.InFlightJob) bool) {
		goOn := true
		d.inFlight.each(func(f *inFlightJob) { goOn = goOn && yield(tenants.InFlightJob{Job: f.record(), Deadline: f.deadline}) })
	})
}

// InFlightByDirection counts the in-flight jobs of this instance by direction.
func (d *Dispatcher) InFlightByDirection() map[core.Direction]int {
	return d.inFlight.countByDirection()
}

// LeavesJobs reports whether jobs are left to other instances: in-flight jobs, and retries that were handed off.
func (d *Dispatcher) LeavesJobs() bool { return d.runner.handedOff.Load() || d.inFlight.len() > 0 }

// Leave refuses new requests, except utterances of sessions that are still connected to this instance.
func (d *Dispatcher) Leave() {
	d.leaving.Store(true)
	d.leave.Do(func() { close(d.left) })
}

// WatchSilent sets nodes aside that say nothing about jobs, until the context ends: those that were sent over a connection to this instance
// and that they do not acknowledge, and those of this instance that they have acknowledged.
func (d *Dispatcher) WatchSilent(ctx context.Context) { d.runner.watchSilent(ctx) }

// Drain stops granting slots and waits until every in-flight job has ended or the context ends. It returns the number of
// jobs that are left.
func (d *Dispatcher) Drain(ctx context.Context) int {
	d.stopGranting()
	for {
		empty := d.inFlight.whenEmpty()
		if d.inFlight.len() == 0 {
			return 0
		}
		select {
		case <-ctx.Done():
			return d.inFlight.len()
		case <-empty:
		}
	}
}

// stopGranting stops granting slots, and ends the waits for them.
func (d *Dispatcher) stopGranting() {
	d.runner.draining.Store(true)
	d.leave.Do(func() { close(d.left) })
	d.drain.Do(func() { close(d.drained) })
}

// Close stops every timer and waits for the background work. Jobs that have not ended stay as the store has them: another
// instance finds them through the lease sets.
func (d *Dispatcher) Close() {
	d.stopGranting()
	d.tasks.Refuse()
	d.inFlight.stopTimers()
	d.tasks.Close()
	d.Waiting.Close()
}
