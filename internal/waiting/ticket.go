package waiting

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Entry describes a request that may wait for a slot.
type Entry struct {
	Job          core.JobID
	Spec         *core.Spec
	Since, Until time.Time // when it began to wait, and when it gives up
	// Accepted says that the job has a record, so that it is not refused. It waits with an earlier deadline, which is renewed: by the
	// deadline of the job itself it would be served after all requests of its tenant that may wait for less time, and then have no time
	// left.
	Accepted bool
	// Except returns the nodes that must not get the job, as long as there are few classes; nil: there are none.
	Except func() []core.NodeID
	// Stop is closed when the request does not wait any more; nil: it never is.
	Stop <-chan struct{}
}

const (
	// acceptedDeadline is the deadline with which an accepted job waits. It gets another one before that is over.
	acceptedDeadline = 2 * time.Second
	// acceptedRecheck is how often it is checked which nodes may get an accepted job.
	acceptedRecheck = 500 * time.Millisecond
	// maxClassesExcluding is how many classes may be open for a job to open one that excludes nodes. When many nodes fail at once, each of
	// their jobs would have a class of its own; then the job returns offers that it cannot use.
	maxClassesExcluding = 64
)

// Ticket is one request that waits for slots. Every offer that it gets has exactly one fate: the request uses it (Served), the queue takes
// it back (the next Await), or it goes to the next request (Leave). A nil Ticket is that of a request that has not waited.
type Ticket struct {
	queue   *Queue
	entry   Entry
	waiter  *waiter     // the place in a queue; nil: none
	entered time.Time   // when the request was put into a queue first
	offered core.NodeID // whose slot the request was offered last and has not used; empty: none
	changed bool        // the class of the job may be another one since it entered

	estimate time.Duration
}

// EstimateUnknown is an estimate of a wait that is not known.
const EstimateUnknown = time.Duration(-1)

// Ticket returns the ticket of a request. It enters a queue with the first Await.
func (q *Queue) Ticket(e Entry) *Ticket {
	return &Ticket{queue: q, entry: e, estimate: EstimateUnknown}
}

// Waits reports whether the request has a place in a queue.
func (t *Ticket) Waits() bool { return t != nil && t.waiter != nil }

// Estimate returns how long the wait in the queue would probably take when it began, or EstimateUnknown.
func (t *Ticket) Estimate() time.Duration { return t.estimate }

// Await waits for an offer, at most until a time, and returns the node. An earlier offer that was not used is taken back. Without an offer
// the node is empty: the time is over, the context has ended, the request stops, or the nodes that may get the job have changed; then
// another try makes sense, and another Await. A refusal says that the wait would take too long, that too many requests wait, or that nobody
// knows whether a slot is free.
func (t *Ticket) Await(ctx context.Context, until time.Time) (core.NodeID, *wire.Error) {
	t.takeBack(ctx)
	if e := t.enter(ctx); e != nil {
		return "", e
	}
	if t.entry.Accepted {
		until = earlier(until, time.Now().Add(acceptedRecheck))
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case t.offered = <-t.waiter.offers:
		return t.offered, nil
	case <-timer.C:
	case <-ctx.Done():
	case <-t.entry.Stop:
	case <-t.waiter.changed:
		t.changed = true
	}
	if !t.queue.reachable() {
		return "", store.Unavailable()
	}
	return "", nil
}

// enter puts the request into the queue and the class of its job, unless it is there.
func (t *Ticket) enter(ctx context.Context) *wire.Error {
	if t.waiter != nil && !t.changed && !t.entry.Accepted {
		return nil
	}
	t.changed = false
	var except []core.NodeID
	if t.entry.Except != nil && t.queue.open.count() < maxClassesExcluding {
		except = t.entry.Except()
	}
	basis := newClassBasis(t.queue.options.Fleet, t.entry.Spec.Tenant) // first: a change during this is noticed
	class, pool := newWaitClass(t.queue.options.Fleet, t.entry.Spec, except)
	old := t.waiter
	if old != nil && (class.id != old.class.id || pool != old.pool) {
		t.remove()
		old = nil
	}
	until := t.entry.Until
	if t.entry.Accepted {
		until = earlier(until, time.Now().Add(acceptedDeadline))
	}
	if old != nil && (!t.entry.Accepted || time.Until(old.until) > acceptedRecheck || !until.After(old.until)) {
		return nil
	}
	if t.entered.IsZero() {
		t.entered = time.Now()
	}
	next := &waiter{
		id: t.queue.waiters.nextID(t.entry.Job), tenant: t.entry.Spec.Tenant, pool: pool, class: class, direction: t.entry.Spec.Direction,
		weight: t.queue.weight(t.entry.Spec.Tenant), entered: t.entered, since: t.began(), until: until,
		offers: make(chan core.NodeID, 1), basis: basis, changed: make(chan struct{}, 1),
	}
	if e := t.enqueue(ctx, next); e != nil {
		return e
	}
	t.remove() // after it was put into the queue again: the class stays open
	t.waiter = next
	return nil
}

// began returns when the request began to wait: an accepted job, when it entered a queue, if that was earlier than the entry says.
func (t *Ticket) began() time.Time {
	if t.entry.Accepted && (t.entry.Since.IsZero() || t.entered.Before(t.entry.Since)) {
		return t.entered
	}
	return t.entry.Since
}

// enqueue puts a waiter into its queue.
func (t *Ticket) enqueue(ctx context.Context, w *waiter) *wire.Error {
	q := t.queue
	if err := q.keeper.readClock(ctx, w); err != nil {
		return t.storeFailed(ctx, err)
	}
	q.waiters.add(w)
	r, err := q.keeper.enqueue(ctx, w, t.entry.Accepted)
	if err != nil {
		e := t.storeFailed(ctx, err)
		if q.leave(w) { // it may have been added
			q.observe(w, telemetry.WaitUnserved)
		}
		return e
	}
	q.options.Metrics.CountRequest(r.Verdict)
	if refusal := refusalOf(&r, w.until); refusal != nil {
		q.waiters.remove(w)
		return refusal
	}
	q.waiters.confirm(w)
	q.keeper.start()
	t.estimate = estimateOf(r.EstimateMS)
	if r.First {
		q.tasks.Go(func(ctx context.Context) { q.keeper.survey(ctx, w.class) })
	}
	return nil
}

// storeFailed returns the error of a request that could not be put into a queue.
func (t *Ticket) storeFailed(ctx context.Context, err error) *wire.Error {
	if ctx.Err() == nil {
		t.queue.store.RecordError("enqueue", err)
	}
	return store.Unavailable()
}

// takeBack returns an offer that could not be used to the queue. The request keeps its place.
func (t *Ticket) takeBack(ctx context.Context) {
	if t.offered == "" {
		return
	}
	node, w := t.offered, t.waiter
	t.offered = ""
	t.queue.options.Metrics.Offers.WithLabelValues(telemetry.OfferReturned).Inc()
	if err := t.queue.store.Settle(ctx, w.pool, *w.queued.Load(), fairqueue.Returned); err != nil && ctx.Err() == nil {
		t.queue.store.RecordError("return_offer", err) // it lapses
	}
	t.queue.offers.recheckNode(w.pool, node)
}

// Served takes the request out of the queue because it has a slot. It does not wait for the store.
func (t *Ticket) Served() {
	if t == nil || t.waiter == nil {
		return
	}
	q, w := t.queue, t.waiter
	t.waiter, t.offered = nil, ""
	t.beginAgain()
	if !q.waiters.remove(w) {
		return
	}
	q.passUnused(w)
	q.options.Metrics.Offers.WithLabelValues(telemetry.OfferUsed).Inc()
	q.observe(w, telemetry.WaitServed)
	q.dequeue(w, fairqueue.Served)
}

// Leave takes the request out of the queue because it does not wait for a slot any more. An offer that it has not used goes to the next
// request. It may enter again.
func (t *Ticket) Leave() {
	if t == nil || t.waiter == nil {
		return
	}
	w := t.waiter
	if t.offered != "" {
		t.queue.offers.offerAgain(t.offered)
	}
	if t.remove() {
		t.queue.observe(w, telemetry.WaitUnserved)
	}
	t.beginAgain()
}

// beginAgain makes the next wait of an accepted job another one. A request has one wait, however often it enters a queue.
func (t *Ticket) beginAgain() {
	if t.entry.Accepted {
		t.entered = time.Time{}
	}
}

// remove takes the request out of its place, if it has one. It reports false if it had none.
func (t *Ticket) remove() bool {
	w := t.waiter
	t.waiter, t.offered = nil, ""
	return w != nil && t.queue.leave(w)
}

// leave takes a waiter out of its queue. It reports false if it was not there.
func (q *Queue) leave(w *waiter) bool {
	if !q.waiters.remove(w) {
		return false
	}
	q.passUnused(w)
	q.dequeue(w, fairqueue.Left)
	return true
}

// passUnused passes an offer that came too late on to the next request.
func (q *Queue) passUnused(w *waiter) {
	select {
	case node := <-w.offers:
		q.offers.offerAgain(node)
	default:
	}
}

// observe counts how long a request has waited.
func (q *Queue) observe(w *waiter, outcome string) {
	q.options.Metrics.Waits.WithLabelValues(outcome).Observe(time.Since(w.entered).Seconds())
}

// dequeue takes a waiter out of its queue, in the background. It is retried until the waiter would have expired.
func (q *Queue) dequeue(w *waiter, how fairqueue.Settlement) {
	q.tasks.Go(func(ctx context.Context) {
		q.store.Retry(ctx, func() error {
			queued := *w.queued.Load()
			now, err := q.store.Clock(ctx, store.ClockKey{Pool: w.pool})
			if err == nil && now.UnixMilli() < queued.Deadline+fairqueue.SilenceMS {
				err = q.store.Settle(ctx, w.pool, queued, how)
			}
			return err
		})
	})
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
