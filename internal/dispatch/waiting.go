package dispatch

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Wait says how long a request waits for a free slot.
type Wait struct {
	Since time.Time // when the request began to wait
	Until time.Time // it is refused then if no node has a free slot
	// Join is when it is refused if no registered node is capable of it: a capable node may be about to register.
	Join time.Time
	// Announce is called when the request has waited in the queue for announceAfter, with how much longer that will probably take, or
	// EstimateUnknown; nil: it is not.
	Announce func(estimate time.Duration)
}

const (
	// recheckInterval is how often a request that waits for the store is tried again.
	recheckInterval = time.Second
	// recheckIncapable is how often one is for which no node is capable.
	recheckIncapable = 200 * time.Millisecond
	// announceAfter is from when on a wait is announced to those who wait.
	announceAfter = 250 * time.Millisecond
)

// DispatchWaiting is Dispatch for a request that waits for a free slot, in the queue that all instances share. The same request waits once,
// however often it is sent to this instance. A refusal is counted once, when the wait is over.
func (d *Dispatcher) DispatchWaiting(ctx context.Context, r Request, w Wait) (Placement, error) {
	r.since, r.until = w.Since, w.Until
	d.beginTrace(&r)
	x := &waitingRequest{d: d, ctx: ctx, request: &r, wait: w, tried: time.Now()}
	p, e := d.dispatch(ctx, &r, x.place)
	took := time.Since(x.tried)
	d.metrics.ObserveDispatch(took, e != nil, r.exemplar(e != nil))
	if e != nil && e.Reasons[string(core.ReasonFull)] > 0 {
		e = d.selector.explainFull(&r.Spec, e)
	}
	if e != nil {
		d.countRefusal(&r, e, time.Since(w.Since))
		return Placement{}, e
	}
	p.Waited = x.waited
	return p, nil
}

// waitingRequest is a request that is placed, and waits until it can be.
type waitingRequest struct {
	d       *Dispatcher
	ctx     context.Context         // of the caller
	cancel  context.CancelCauseFunc // ends ctx; nil: the request does not wait yet
	request *Request
	wait    Wait

	ticket    *ticket
	entered   time.Time     // when it was put into a queue first
	estimate  time.Duration // of the wait in the queue
	announced bool          // the caller was told that it waits
	tried     time.Time     // when the last try began
	waited    time.Duration // between tries
}

// place places the request as soon as it can, and returns the refusal when its time is over.
func (x *waitingRequest) place(id core.JobID, fingerprint string, r *Request) (p Placement, e *wire.Error) {
	defer func() {
		x.ticket.leave()
		r.uncount()
		x.notCancellable(id, e == nil)
	}()
	r.reserved = func() {
		x.ticket.served()
		x.ticket = nil
	}
	p, e = x.first(id, fingerprint)
	r.slotBy = x.wait.Until
	for e != nil {
		switch {
		case !e.Code.Retryable() || e.Code == wire.CannotBeMet || e.Code == wire.QueueFull, !time.Now().Before(x.waitEnds(e)),
			x.d.isLeaving(r):
			return Placement{}, e
		case x.ctx.Err() != nil:
			return Placement{}, x.gaveUp()
		}
		x.cancellable(id)
		switch e.Code {
		case wire.AllCandidatesFullOrFailed:
			p, e = x.awaitSlot(id, fingerprint, e)
		case wire.RateLimited:
			x.leaveQueue()
			p, e = x.awaitRoom(id, fingerprint, e)
		default:
			x.leaveQueue() // what it waits for is no slot
			r.uncount()
			p, e = x.recheck(id, fingerprint, e)
		}
	}
	return p, nil
}

// errFull is the refusal of a request that was not tried, because others wait for the same slots.
func errFull() *wire.Error {
	e := wire.Errorf(wire.AllCandidatesFullOrFailed, "every node that could take the job is full, and other requests wait for them")
	e.Reasons = map[string]int{string(core.ReasonFull): 1}
	return e.RetryIn(time.Second)
}

// first tries to place the request, unless others wait for the same slots, or for the limits of the same tenant: then it is their turn.
func (x *waitingRequest) first(id core.JobID, fingerprint string) (Placement, *wire.Error) {
	if x.d.inFlight.get(id) != nil {
		return x.try(id, fingerprint, "")
	}
	if why, others := x.d.limits.rooms.refusal(roomKeyOf(x.request)); others {
		x.request.limit = why.limit
		return x.d.refuse(x.d.decide.Context(), id, fingerprint, why.err) // the job may have a record
	}
	if class, pool := newWaitClass(x.d.fleet, &x.request.Spec, nil); x.d.open.isOpen(x.ctx, pool, class.id) {
		return x.d.refuse(x.d.decide.Context(), id, fingerprint, errFull())
	}
	return x.try(id, fingerprint, "")
}

// try tries to place the request, on the node of which it was offered a slot, if any.
func (x *waitingRequest) try(id core.JobID, fingerprint string, offered core.NodeID) (Placement, *wire.Error) {
	x.tried, x.request.offered = time.Now(), offered
	return x.d.place(id, fingerprint, x.request)
}

// awaitSlot waits in the queue for a slot and tries to place the request there. It returns the earlier refusal when the time is over.
func (x *waitingRequest) awaitSlot(id core.JobID, fingerprint string, refusal *wire.Error) (Placement, *wire.Error) {
	if x.ticket == nil {
		if e := x.d.limits.hold(x.d.decide.Context(), x.request); e != nil {
			return Placement{}, e
		}
		if x.entered.IsZero() {
			x.entered = time.Now()
		}
		t, estimate, e := x.d.enter(x.ctx,
			&entry{job: id, spec: &x.request.Spec, since: x.wait.Since, until: x.wait.Until, entered: x.entered})
		if e != nil {
			return Placement{}, e
		}
		x.ticket, x.estimate = t, estimate
	}
	asleep := time.Now()
	node, offered := x.await()
	x.waited += time.Since(asleep)
	if !offered {
		if time.Now().Before(x.wait.Until) && !x.ticket.isCurrent(&x.request.Spec, nil) {
			x.ticket.remove() // the next try puts it into the queue and the class of its job
			x.ticket = nil
		}
		if !x.d.store.reachable() {
			refusal = store.Unavailable() // nobody knows whether there is a free slot
		}
		return Placement{}, refusal
	}
	p, e := x.try(id, fingerprint, node)
	switch {
	case e == nil || x.ticket == nil: // it had the slot
	case e.Code == wire.AllCandidatesFullOrFailed:
		x.ticket.giveBack(x.ctx, node)
	default:
		x.ticket.pass(node)
	}
	return p, e
}

// await waits for an offer until the time is over, and announces a wait that takes long.
func (x *waitingRequest) await() (core.NodeID, bool) {
	if first := time.Now().Add(announceAfter); !x.announced && x.wait.Announce != nil && first.Before(x.wait.Until) {
		if node, offered := x.ticket.await(x.ctx, first, x.stopped()); offered || time.Now().Before(first) {
			return node, offered
		}
		left := x.estimate
		if left != EstimateUnknown {
			left = max(left-announceAfter, 0)
		}
		x.announced = true
		x.wait.Announce(left)
	}
	return x.ticket.await(x.ctx, x.wait.Until, x.stopped())
}

// stopped returns a channel that is closed when this instance takes no job of the request any more.
func (x *waitingRequest) stopped() <-chan struct{} {
	if x.request.Utterance.Turn == 0 {
		return x.d.left
	}
	return x.d.drained
}

// leaveQueue takes the request out of the queue, if it is there.
func (x *waitingRequest) leaveQueue() {
	x.ticket.leave()
	x.ticket = nil
}

// recheck tries again after a while.
func (x *waitingRequest) recheck(id core.JobID, fingerprint string, e *wire.Error) (Placement, *wire.Error) {
	asleep := time.Now()
	timer := time.NewTimer(min(run.Jitter(recheckAfter(e), 0.2), time.Until(x.waitEnds(e))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.stopped():
	case <-x.ctx.Done():
		return Placement{}, x.gaveUp()
	}
	x.waited += time.Since(asleep)
	return x.try(id, fingerprint, "")
}

// waitEnds returns until when a request waits that was refused: it is refused for good then. One that a rate of its tenant forbids for
// longer than it may wait is refused at once, so that its caller knows when to come again.
func (x *waitingRequest) waitEnds(e *wire.Error) time.Time {
	switch {
	case e.Code == wire.NoCapableNode && x.wait.Join.Before(x.wait.Until):
		return x.wait.Join
	case e.Code == wire.RateLimited && x.request.limit.IsRate() && time.Now().Add(recheckAfter(e)).After(x.wait.Until):
		return time.Time{}
	}
	return x.wait.Until
}

// recheckAfter returns after how long a waiting request tries again, unless it is woken before.
func recheckAfter(e *wire.Error) time.Duration {
	switch e.Code {
	case wire.NoCapableNode:
		return recheckIncapable
	case wire.RateLimited:
		return time.Duration(e.RetryAfterMS) * time.Millisecond
	}
	return recheckInterval
}

// Waiting returns how many requests wait on this instance for a free slot.
func (l *Line) Waiting() int { return int(l.waiters.count.Load()) }

// WaitingByDirection returns how many requests wait on this instance for a free slot, by direction.
func (l *Line) WaitingByDirection() map[core.Direction]int { return l.waiters.directions() }

// CountWaiting returns who waits on this instance for a free slot, and what the tenants have got in the last minute.
func (l *Line) CountWaiting() telemetry.WaitingCounts {
	c := telemetry.WaitingCounts{Pools: make(map[string]int), Tenants: make(map[string]int), Shares: make(map[string]telemetry.TenantShare)}
	for pool, n := range l.waiters.pools() {
		c.Pools[string(pool)] = n
	}
	for tenant, n := range l.waiters.tenants() {
		c.Tenants[string(tenant)] = n
	}
	for tenant, s := range l.shares.recent(time.Now()) {
		c.Shares[string(tenant)] = telemetry.TenantShare{Granted: float64(s.Granted), Entitled: s.Entitled}
	}
	return c
}

// NotifyFreeSlots offers a slot of a node, which may have a free one, to a request that waits. The node may be nil.
func (l *Line) NotifyFreeSlots(n *fleet.Node) {
	if n != nil && (l.open.any.Load() || l.waiters.count.Load() > 0) {
		l.freed(n)
	}
}
