package health

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	maxMarks     = 1024            // reports within their node's rate that wait to be marked; others are dropped
	markers      = 4               // marks that are written at once
	markTimeout  = 2 * time.Second // of everything that the store does for one report
	drainTimeout = time.Second     // in which a stopping instance marks what is queued
	// maxReactions is how many services an instance reacts to in a minute. There are more only if nodes report names at random.
	maxReactions = 60
)

// MarkStore is the part of the store that an UnavailableWorker uses.
type MarkStore interface {
	Mark(ctx context.Context, m store.Mark) error
	Allow(ctx context.Context, p store.AllowParams) (bool, error)
}

// Refresher refreshes what is known about a service. It never waits.
type Refresher interface {
	Refresh(service string)
}

// UnavailableOptions are the dependencies and the limits of an UnavailableWorker.
type UnavailableOptions struct {
	MarkFor  time.Duration // how long a mark lasts
	Debounce time.Duration // within this time there is one reaction to the reports of a service
	Limit    int           // how many reports of a node may mark services in each Window
	Window   time.Duration
	Store    MarkStore
	Fleet    *fleet.Fleet
	Catalog  Refresher
	Events   *journal.Events
	Metrics  *telemetry.Metrics
	Log      *slog.Logger
}

// UnavailableWorker marks services that nodes have reported as unavailable. Each report is counted against the rate of its node in memory
// at once, so that a node that reports without end costs no call to the store and takes no place from others. Those within the rate are
// queued: the store counts them for all instances, and keeps the marks. A mark is never delayed by a debounce; the reaction to it is.
type UnavailableWorker struct {
	opts    UnavailableOptions
	marks   chan report
	stopped atomic.Bool

	ratesMu run.Mutex // guards rates
	rates   *run.KeyLimit[core.NodeID]

	reactionsMu run.Mutex // guards reactions
	reactions   *run.KeyLimit[struct{}]
}

// report is a service that was reported, and when.
type report struct {
	core.UnavailableService
	at time.Time
}

// NewUnavailableWorker makes a worker. Reports are queued until Run handles them.
func NewUnavailableWorker(o UnavailableOptions) *UnavailableWorker {
	return &UnavailableWorker{
		opts: o, marks: make(chan report, maxMarks),
		ratesMu: run.NewMutex("guard_rates"), rates: run.NewKeyLimit[core.NodeID](o.Limit, o.Window),
		reactionsMu: run.NewMutex("guard_reactions"), reactions: run.NewKeyLimit[struct{}](maxReactions, time.Minute),
	}
}

// Enqueue counts a report against the rate of its node, and queues it if it is within the rate and the queue has room. It never waits.
func (w *UnavailableWorker) Enqueue(s core.UnavailableService) {
	w.opts.Metrics.NAByService.WithLabelValues(s.Service).Inc()
	w.opts.Metrics.NAByReason.WithLabelValues(string(s.Reason)).Inc()
	if w.stopped.Load() {
		w.drop(telemetry.NADroppedStopping)
		return
	}
	if !w.isWithinRate(s.Node) {
		w.opts.Metrics.NARateLimited.WithLabelValues(string(s.Node)).Inc()
		return
	}
	select {
	case w.marks <- report{s, time.Now()}:
	default:
		w.drop(telemetry.NADroppedQueue)
	}
}

// isWithinRate counts a report against the rate of its node on this instance.
func (w *UnavailableWorker) isWithinRate(node core.NodeID) bool {
	w.ratesMu.Lock()
	defer w.ratesMu.Unlock()
	return w.rates.Allow(node)
}

// Queued returns how many reports are queued.
func (w *UnavailableWorker) Queued() int { return len(w.marks) }

func (w *UnavailableWorker) drop(cause string) {
	w.opts.Metrics.NADropped.WithLabelValues(cause).Inc()
}

// Run handles reports until the context ends, and then for a short time what is queued. The rest is counted as dropped.
func (w *UnavailableWorker) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range markers {
		wg.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case r := <-w.marks:
					w.mark(context.WithoutCancel(ctx), r)
				}
			}
		})
	}
	wg.Wait()
	w.stopped.Store(true)
	w.drain(context.WithoutCancel(ctx))
}

// drain handles what is queued when the worker stops.
func (w *UnavailableWorker) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	for {
		select {
		case r := <-w.marks:
			if ctx.Err() != nil {
				w.drop(telemetry.NADroppedStopping)
			} else {
				w.mark(ctx, r)
			}
		default:
			return
		}
	}
}

// mark marks a service for all instances, if its node is within its rate on all instances, and reacts to it.
func (w *UnavailableWorker) mark(ctx context.Context, r report) {
	if time.Since(r.at) >= w.opts.MarkFor {
		w.drop(telemetry.NADroppedLate)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	o := &w.opts
	allowed, err := o.Store.Allow(ctx, store.AllowParams{Key: "model_na:" + string(r.Node), Limit: o.Limit, Window: o.Window})
	if err != nil {
		w.storeFailed("rate", r, err)
		return
	}
	if !allowed {
		o.Metrics.NARateLimited.WithLabelValues(string(r.Node)).Inc()
		return
	}
	m := store.Mark{Node: r.Node, Service: r.Service, Version: r.Version, Epoch: r.Epoch, NodeVersion: r.NodeVersion, For: o.MarkFor,
		Reason: r.Reason}
	switch err := o.Store.Mark(ctx, m); {
	case errors.Is(err, store.ErrNoNode):
		w.drop(telemetry.NADroppedGone)
		return
	case err != nil:
		w.storeFailed("mark", r, err)
		return
	}
	o.Metrics.NAMarked.WithLabelValues(string(r.Node)).Inc()
	o.Fleet.Mark(m)
	reaction := "model_na_reaction:" + serviceName(r.Service, r.Version)
	first, err := o.Store.Allow(ctx, store.AllowParams{Key: reaction, Limit: 1, Window: o.Debounce})
	if err != nil {
		w.storeFailed("debounce", r, err)
		return
	}
	if first {
		w.react(r)
	}
}

// storeFailed counts a report that the store did not handle.
func (w *UnavailableWorker) storeFailed(operation string, r report, err error) {
	w.drop(telemetry.NADroppedStore)
	w.opts.Metrics.StoreErrors.WithLabelValues(operation).Inc()
	w.opts.Log.Warn("a service that a node reported as unavailable could not be marked", "operation", operation, "node_id", r.Node, "error",
		err)
}

// react does once in a while, for all reports of a service, what would be too much for each of them.
func (w *UnavailableWorker) react(r report) {
	w.reactionsMu.Lock()
	allowed := w.reactions.Allow(struct{}{})
	w.reactionsMu.Unlock()
	if !allowed {
		w.drop(telemetry.NADroppedReaction)
		return
	}
	w.opts.Catalog.Refresh(r.Service)
	name := wire.Quote(strings.Map(printable, serviceName(r.Service, r.Version)))
	w.opts.Log.Warn("a node reports a service as unavailable; jobs that need it go to other nodes",
		"service", name, "reason", r.Reason, "node_id", r.Node, "marked_for", w.opts.MarkFor)
	w.opts.Events.Record(store.Event{
		Kind: store.EventServiceUnavailable, Node: r.Node, Tenant: r.Tenant, Detail: name + ": " + string(r.Reason),
	})
}

// printable replaces characters that would change how a log or a terminal shows a text.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// serviceName is a service with its version, if there is one.
func serviceName(service, version string) string {
	if version == "" {
		return service
	}
	return service + "@" + version
}
