package waiting

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Options are what a Queue is made of.
type Options struct {
	Instance core.InstanceID // this incarnation of this instance
	Store    Store
	Fleet    *fleet.Fleet
	Picker   *pick.Picker
	// Reachable reports whether the store answers and takes writes, as its last calls found. Nil: always.
	Reachable func() bool
	// Bus sends offers to other instances; nil: there is none.
	Bus Sender
	// Shared says that other instances use the same store, whose requests wait in the same queues.
	Shared bool
	// Weight returns the weight of a tenant in the queues; nil: all have the same.
	Weight func(core.TenantID) float64
	// MaxWaiting is how many requests may wait in the queue of a pool, by default 10,000. Tenants that have less than their part of it may
	// exceed it.
	MaxWaiting int
	// ReadWithin limits a read of the open classes, for which several requests may wait; by default a second.
	ReadWithin time.Duration
	Metrics    *telemetry.Waiting
	Errors     *telemetry.StoreErrors
	Log        *slog.Logger
}

// DefaultMaxWaiting is Options.MaxWaiting if it is not set.
const DefaultMaxWaiting = 10_000

// Store is the part of the store that this package uses.
type Store interface {
	store.Waiting
	store.Locks
	// Clock returns the time of the clock of a queue.
	Clock(ctx context.Context, key store.ClockKey) (time.Time, error)
	// Probe reads how full nodes are.
	Probe(ctx context.Context, nodes []core.NodeID, into []store.Occupancy) error
}

// client is the store, with its errors counted and logged.
type client struct {
	Store
	*telemetry.StoreErrors
}

// Queue lets requests wait for a slot.
type Queue struct {
	options   Options
	store     *client
	tasks     *run.Group
	waiters   *waiters
	open      *openClasses
	offers    *offerer
	keeper    *keeper
	snapshots *snapshots
	shares    *shareLog
}

// New makes a queue. It starts no goroutine before a request waits.
func New(o Options) *Queue {
	o.MaxWaiting = cmp.Or(o.MaxWaiting, DefaultMaxWaiting)
	q := &Queue{
		options: o, store: &client{o.Store, o.Errors}, tasks: run.NewGroup(), waiters: newWaiters(), shares: newShareLog(),
	}
	q.open = newOpenClasses(q.store, o.Fleet, o.Picker, q.tasks, cmp.Or(o.ReadWithin, time.Second))
	q.snapshots = &snapshots{store: q.store, fleet: o.Fleet, open: q.open, waiters: q.waiters, tasks: q.tasks,
		mu: run.NewMutex("dispatch_snapshot")}
	q.offers = &offerer{
		instance: o.Instance, store: q.store, fleet: o.Fleet, open: q.open, waiters: q.waiters, tasks: q.tasks, metrics: o.Metrics,
		log: o.Log,
		mu:  run.NewMutex("dispatch_offers"), pending: make(map[*fleet.Node]int), refused: make(map[*fleet.Node]time.Time),
		outstanding: outstandingOffers{mu: run.NewMutex("dispatch_outstanding"), nodes: make(map[offeredNode]settleTimes)},
	}
	q.offers.sends = &sends{tasks: q.tasks, bus: o.Bus, failed: q.offers.handleUnsent, mu: run.NewMutex("dispatch_sends"),
		queues: make(map[core.InstanceID][]queuedOffer)}
	q.keeper = &keeper{
		instance: o.Instance, store: q.store, fleet: o.Fleet, open: q.open, waiters: q.waiters, offers: q.offers, snapshots: q.snapshots,
		shares: q.shares, tasks: q.tasks, metrics: o.Metrics, maxWaiting: o.MaxWaiting,
		running: run.NewMutex("dispatch_tender"), repeats: make(map[core.PoolID]<-chan error), rounds: make(map[core.PoolID]*sweepRound),
	}
	q.open.opened, q.offers.keep = q.keeper.start, q.keeper.start
	return q
}

// Claims returns who waits, as it was at most 20 ms ago; nil: nobody does.
func (q *Queue) Claims(ctx context.Context) *Claims { return q.open.claims(ctx) }

// SlotFreed offers a slot of a node that has become free to the request whose turn it is. It does not block.
func (q *Queue) SlotFreed(n *fleet.Node) {
	// The slot is free already, so a request that enters a queue from now on finds it: the first one of its class surveys the nodes.
	if q.options.Shared || q.mayBeWanted() {
		q.offers.offerOneMore(n)
	}
}

// SlotSeen offers a slot of a node that may have a free one, if a request is known to wait. The node may be nil. It does not block.
func (q *Queue) SlotSeen(n *fleet.Node) {
	if n != nil && q.mayBeWanted() {
		q.offers.offerOneMore(n)
	}
}

// mayBeWanted reports whether a request waits here or, according to the copy, elsewhere.
func (q *Queue) mayBeWanted() bool { return q.waiters.count.Load() > 0 || q.open.any.Load() }

// NodeRefused records that a node has refused a job, although it had a free slot: its slots are not offered for a moment.
func (q *Queue) NodeRefused(n *fleet.Node) { q.offers.nodeRefused(n) }

// Handlers returns the handlers of messages of other instances.
func (q *Queue) Handlers() map[bus.Kind]bus.Handler {
	return map[bus.Kind]bus.Handler{
		kindOffer: {Handle: bus.Decoding(func(_ context.Context, _ *bus.Message, o *Offer) error {
			q.offers.receive(*o)
			return nil
		})},
	}
}

// weight returns the weight of a tenant as the store has it.
func (q *Queue) weight(tenant core.TenantID) int {
	if q.options.Weight == nil {
		return fairqueue.WeightScale
	}
	return int(math.Round(q.options.Weight(tenant) * fairqueue.WeightScale))
}

// reachable reports whether the store answers, as far as is known.
func (q *Queue) reachable() bool { return q.options.Reachable == nil || q.options.Reachable() }

// Close stops everything that runs in the background, and waits for it.
func (q *Queue) Close() { q.tasks.Close() }
