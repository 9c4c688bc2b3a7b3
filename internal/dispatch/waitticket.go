package dispatch

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/wire"
)

// Line lets requests wait for a slot in the queues that all instances share.
type Line struct {
	*tender
	tenants *tenants.Gate // nil: all have the same weight
	entered atomic.Uint64 // counts the requests that were put into a queue
}

// nextID makes the id of a waiter: a job may leave a queue and enter it again before its removal is done.
func (l *Line) nextID(job core.JobID) string {
	return string(job) + waiterIDSeparator + strconv.FormatUint(l.entered.Add(1), 36)
}

// waiterIDSeparator is between the job and the number in the id of a waiter. No job id contains it.
const waiterIDSeparator = "/"

// WaiterJob returns the job that waits.
func WaiterJob(w *fairqueue.Waiter) core.JobID {
	job, _, _ := strings.Cut(w.ID, waiterIDSeparator)
	return core.JobID(job)
}

func newLine(cfg *Config, st *storeClient, fl *fleet.Fleet, pk *pick.Picker, tasks *run.Group, m *telemetry.Metrics,
	log *slog.Logger) *Line {
	o := &offerer{
		instance: cfg.Instance, store: st, fleet: fl, open: newOpenClasses(st, fl, pk, tasks, cmp.Or(cfg.DecideWithin, time.Second)),
		waiters: newWaiters(), tasks: tasks, metrics: m, log: log,
		pending: make(map[*fleet.Node]int), refused: make(map[*fleet.Node]time.Time),
		outstanding: outstandingOffers{nodes: make(map[offeredNode]settleTimes)},
	}
	o.sends = &offerSends{tasks: tasks, send: cfg.SendOffer, failed: o.handleUnsent, queues: make(map[core.InstanceID][]queuedOffer)}
	s := &snapshots{store: st, fleet: fl, open: o.open, waiters: o.waiters, tasks: tasks}
	t := &tender{offerer: o, maxWaiting: cmp.Or(cfg.MaxWaiting, defaultMaxWaiting), shares: newShareLog(), snapshots: s,
		repeats: make(map[core.PoolID]<-chan error), rounds: make(map[core.PoolID]*sweepRound)}
	o.open.opened, o.tend = t.start, t.start
	return &Line{tender: t, tenants: cfg.Tenants}
}

// weight returns the weight of a tenant in the queue.
func (l *Line) weight(tenant core.TenantID) int {
	if l.tenants == nil {
		return fairqueue.WeightScale
	}
	return int(math.Round(l.tenants.Weight(tenant) * fairqueue.WeightScale))
}

// defaultMaxWaiting is Config.MaxWaiting if it is not set.
const defaultMaxWaiting = 10_000

// ticket is the place of one request in a queue.
type ticket struct {
	*waiter
	line *Line
}

// EstimateUnknown is an estimate of a wait that is not known.
const EstimateUnknown = time.Duration(-1)

// entry describes a request that is put into a queue.
type entry struct {
	job          core.JobID
	spec         *core.Spec
	except       []core.NodeID // nodes that must not get the job
	since, until time.Time     // when it began to wait, and when it gives up
	entered      time.Time     // when it was put into a queue first
	accepted     bool          // it is not refused: the job has a record
}

// enter puts a request into the queue. It returns how long the wait will probably take. A refusal says that it will take too long, or
// that too many requests wait.
func (l *Line) enter(ctx context.Context, in *entry) (_ *ticket, estimate time.Duration, _ *wire.Error) {
	basis := newClassBasis(l.fleet, in.spec.Tenant) // first: a change during this is noticed
	class, pool := newWaitClass(l.fleet, in.spec, in.except)
	t := &ticket{line: l, waiter: &waiter{
		id: l.nextID(in.job), tenant: in.spec.Tenant, pool: pool, class: class, direction: in.spec.Direction,
		weight:  l.weight(in.spec.Tenant),
		entered: in.entered, since: in.since, until: in.until, offers: make(chan core.NodeID, 1),
		basis: basis, changed: make(chan struct{}, 1),
	}}
	if err := l.readClock(ctx, t.waiter); err != nil {
		if ctx.Err() == nil {
			l.store.recordError("enqueue", err)
		}
		return nil, 0, store.Unavailable()
	}
	l.waiters.add(t.waiter)
	r, err := l.enqueue(ctx, t.waiter, in.accepted)
	if err != nil {
		if ctx.Err() == nil {
			l.store.recordError("enqueue", err)
		}
		t.leave() // it may have been added
		return nil, 0, store.Unavailable()
	}
	l.metrics.Waiting.CountRequest(r.Verdict)
	if refusal := refusalOf(&r, in.until); refusal != nil {
		l.waiters.remove(t.waiter)
		return nil, 0, refusal
	}
	l.waiters.confirm(t.waiter)
	l.start()
	if r.First {
		l.tasks.Go(func(ctx context.Context) { l.survey(ctx, class) })
	}
	return t, estimateOf(r.EstimateMS), nil
}

// minRetryAfter is the lowest hint at when a refused request may be repeated.
const minRetryAfter = 100 * time.Millisecond

// refusalOf returns why a request may not wait; nil: it may.
func refusalOf(r *fairqueue.EnqueueResult, until time.Time) *wire.Error {
	switch r.Verdict {
	case fairqueue.Expired:
		return errFull()
	case fairqueue.CannotBeMet:
		estimate := time.Duration(r.EstimateMS) * time.Millisecond
		e := wire.Errorf(wire.CannotBeMet, "no slot will be free in time: the wait would be about %s; wait longer, or try again later",
			estimate.Round(10*time.Millisecond))
		return e.RetryIn(max(estimate-time.Until(until), minRetryAfter))
	case fairqueue.QueueFull:
		return wire.Errorf(wire.QueueFull,
			"too many requests wait for a slot, and your tenant has its part of them: try again later").RetryIn(time.Second)
	}
	return nil
}

// await waits for an offer until a time. It returns the node, and false if the time is over, the context ended, the instance drains or the
// class of the request may have changed.
func (t *ticket) await(ctx context.Context, until time.Time, drained <-chan struct{}) (core.NodeID, bool) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case node := <-t.offers:
		return node, true
	case <-timer.C:
	case <-ctx.Done():
	case <-drained:
	case <-t.changed:
	}
	return "", false
}

// isCurrent reports whether the queue and the class in which the request waits are still those of its job.
func (t *ticket) isCurrent(spec *core.Spec, except []core.NodeID) bool {
	class, pool := newWaitClass(t.line.fleet, spec, except)
	return class.id == t.class.id && pool == t.pool
}

// giveBack returns an offer of a node that could not be used. The request keeps its place.
func (t *ticket) giveBack(ctx context.Context, node core.NodeID) {
	t.line.metrics.Waiting.Offers.WithLabelValues(telemetry.OfferReturned).Inc()
	if err := t.line.store.Settle(ctx, t.pool, *t.queued.Load(), fairqueue.Returned); err != nil && ctx.Err() == nil {
		t.line.store.recordError("return_offer", err) // it lapses
	}
	t.line.recheckNode(t.pool, node)
}

// served takes the request out of the queue because it has got a slot. It does not wait for the store.
func (t *ticket) served() {
	if t == nil || !t.line.waiters.remove(t.waiter) {
		return
	}
	t.passUnused()
	t.line.metrics.Waiting.Offers.WithLabelValues(telemetry.OfferUsed).Inc()
	t.observe(telemetry.WaitServed)
	t.dequeue(fairqueue.Served)
}

// leave takes the request out of the queue because it does not wait any more. An offer that it has not used goes to the next request.
func (t *ticket) leave() {
	if t.remove() {
		t.observe(telemetry.WaitUnserved)
	}
}

// remove takes the request out of the queue. It reports false if it was not there.
func (t *ticket) remove() bool {
	if t == nil || !t.line.waiters.remove(t.waiter) {
		return false
	}
	t.passUnused()
	t.dequeue(fairqueue.Left)
	return true
}

// passUnused passes an offer that came too late on to the next request.
func (t *ticket) passUnused() {
	select {
	case node := <-t.offers:
		t.pass(node)
	default:
	}
}

// observe counts how long the request has waited.
func (t *ticket) observe(outcome string) {
	t.line.metrics.Waiting.Waits.WithLabelValues(outcome).Observe(time.Since(t.entered).Seconds())
}

// pass offers a slot that the request does not use to the next one.
func (t *ticket) pass(node core.NodeID) { t.line.offerAgain(node) }

// dequeue takes the request out of the queue, in the background. It is retried until the request would have expired.
func (t *ticket) dequeue(how fairqueue.Settlement) {
	l := t.line
	l.tasks.Go(func(ctx context.Context) {
		l.store.retry(ctx, func() error {
			w := *t.queued.Load()
			now, err := l.store.Clock(ctx, store.ClockKey{Pool: t.pool})
			if err == nil && now.UnixMilli() < w.Deadline+fairqueue.SilenceMS {
				err = l.store.Settle(ctx, t.pool, w, how)
			}
			return err
		})
	})
}
