package waiting

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Offer offers a slot of a node to a request that waits on an instance.
type Offer struct {
	Pool   core.PoolID      `json:"pool,omitempty"`
	Waiter fairqueue.Waiter `json:"waiter"`
	Node   core.NodeID      `json:"node"`
}

// offerer offers slots that have become free to the requests that wait for them, on whichever instance they are.
type offerer struct {
	instance core.InstanceID
	store    *client
	fleet    *fleet.Fleet
	open     *openClasses
	waiters  *waiters
	tasks    *run.Group
	metrics  *telemetry.Waiting
	log      *slog.Logger
	sends    *sends
	keep     func() // starts the keeper

	outstanding outstandingOffers

	mu      run.Mutex
	pending map[*fleet.Node]int       // slots that may be free
	refused map[*fleet.Node]time.Time // nodes that have refused a job a moment ago, and when
	working bool
}

// refusedFor is for how long the slots of a node are not offered that has refused a job: it would refuse the next one, too, and each would
// make a record. A sweep finds them later.
const refusedFor = 150 * time.Millisecond

// nodeRefused records that a node has refused a job, although it had a free slot.
func (o *offerer) nodeRefused(n *fleet.Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.refused, func(_ *fleet.Node, at time.Time) bool { return time.Since(at) >= refusedFor })
	o.refused[n] = time.Now()
}

// hasRefused reports whether a node has refused a job a moment ago.
func (o *offerer) hasRefused(n *fleet.Node) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.refused[n]) < refusedFor
}

// offerOneMore offers a slot of a node that has become free. It does not block.
func (o *offerer) offerOneMore(n *fleet.Node) { o.addPending(n, 1, 0) }

// offerAtLeast offers the free slots of a node. Those that have become free before may be among them. It does not block.
func (o *offerer) offerAtLeast(n *fleet.Node, slots int) { o.addPending(n, 0, slots) }

// addPending adds to the slots of a node that are to be offered, and then makes them at least atLeast.
func (o *offerer) addPending(n *fleet.Node, more, atLeast int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[n] = max(o.pending[n]+more, atLeast)
	if !o.working {
		o.working = o.tasks.Go(o.work)
	}
}

// work offers slots until there are none. Slots that become free during a call to the store are offered together.
func (o *offerer) work(ctx context.Context) {
	for {
		o.mu.Lock()
		batch := o.pending
		if len(batch) == 0 || ctx.Err() != nil {
			o.working = false
			o.mu.Unlock()
			return
		}
		o.pending = make(map[*fleet.Node]int)
		o.mu.Unlock()
		o.offerAll(ctx, batch)
	}
}

// boundPool returns the pool of a node, if jobs may be bound to it.
func (o *offerer) boundPool(n *fleet.Node) (core.PoolID, bool) {
	division := o.fleet.Division()
	if !division.Enabled() {
		return "", false
	}
	pool := division.Assign(n.Declared()).Pool
	if pool == "" {
		return "", false
	}
	for _, bound := range division.Overrides {
		if bound == pool {
			return pool, true
		}
	}
	return pool, o.waiters.has(pool) || o.open.classes(pool) != nil
}

// recheck probes a node after a time, if a request waits in the queue of the pool then: a slot that was offered may still be free.
func (o *offerer) recheck(pool core.PoolID, n *fleet.Node, after time.Duration) {
	o.outstanding.add(pool, n, time.Now().Add(after))
	o.keep()
}

// recheckNode probes a node soon, because a slot that was offered was not used.
func (o *offerer) recheckNode(pool core.PoolID, node core.NodeID) {
	if n := o.fleet.Node(node); n != nil {
		o.recheck(pool, n, 0)
	}
}

// deliver sends an offer to the instance of the waiter. If there is no way to send it, the offer lapses.
func (o *offerer) deliver(offer Offer) {
	switch {
	case core.InstanceID(offer.Waiter.Instance) == o.instance:
		o.receive(offer)
	case o.sends.bus != nil:
		o.sends.add(offer)
	}
}

// receive passes an offer to the request that waits here. If it does not wait any more, the slot is offered to the next.
func (o *offerer) receive(offer Offer) {
	passed, lapsed := o.waiters.offer(offer.Waiter.ID, offer.Node)
	if lapsed {
		o.metrics.Offers.WithLabelValues(telemetry.OfferLapsed).Inc()
	}
	if passed {
		o.metrics.Offers.WithLabelValues(telemetry.OfferReceived).Inc()
		return
	}
	o.metrics.Offers.WithLabelValues(telemetry.OfferUnwanted).Inc()
	o.tasks.Go(func(ctx context.Context) {
		if err := o.store.Settle(ctx, offer.Pool, offer.Waiter, fairqueue.Left); err != nil {
			o.store.RecordError("dequeue", err)
		}
		o.offerAgain(offer.Node)
	})
}

// offerAgain offers a slot of a node that was not used to the next request.
func (o *offerer) offerAgain(node core.NodeID) {
	if n := o.fleet.Node(node); n != nil {
		o.offerOneMore(n)
	}
}
