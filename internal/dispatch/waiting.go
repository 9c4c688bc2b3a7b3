package dispatch

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/lockwait"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// Wait says how long a request waits for a free slot.
type Wait struct {
	Since time.Time // when the request began to wait
	Until time.Time // it is refused then if no node has a free slot
	// Join is when it is refused if no registered node is capable of it: a capable node may be about to register.
	Join time.Time
}

const (
	// recheckInterval is how often a waiting request selects again, because other instances free slots too.
	recheckInterval = time.Second
	// recheckIncapable is recheckInterval while no node is capable.
	recheckIncapable = 200 * time.Millisecond
	// maxWakeups bounds how many waiting requests try for one freed slot, one after the other.
	maxWakeups = 8
	// maxClasses bounds how many classes are searched for the next request for a freed slot.
	maxClasses = 64
)

// DispatchWaiting is Dispatch for a request that waits for a free slot. Of the requests that wait on this instance, the one
// that has waited longest is woken when a slot is freed that it can use. A refusal is counted once, when the wait is over.
func (d *Dispatcher) DispatchWaiting(ctx context.Context, r Request, w Wait) (Placement, error) {
	r.since = w.Since
	d.beginTrace(&r)
	var self *waiter
	var placed core.NodeID
	var waited time.Duration
	defer func() {
		if self != nil {
			d.waiting.leave(self, placed)
		}
	}()
	for {
		began, freed := time.Now(), d.waiting.freed.Load()
		p, e := d.dispatch(ctx, &r)
		if e == nil {
			d.metrics.ObserveDispatch(time.Since(began), false, r.exemplar(false))
			placed, p.Waited = p.Node, waited
			return p, nil
		}
		until := w.waitEnds(e)
		if !e.Code.Retryable() || !time.Now().Before(until) || d.runner.draining.Load() {
			d.metrics.ObserveDispatch(time.Since(began), true, r.exemplar(true))
			d.metrics.Refusals.WithLabelValues(string(e.Code)).Inc()
			d.selector.countRefusal(e, r.refused)
			d.cfg.Observer.RequestRefused(r.Direction, e.Code, time.Since(w.Since))
			return Placement{}, e
		}
		if self == nil {
			self = d.waiting.enter(&r.Spec, w.Since)
			if d.waiting.freed.Load() != freed {
				continue // a slot was freed after the selection, when the request could not be woken yet
			}
		} else {
			d.waiting.wakeNext(self)
		}
		asleep := time.Now()
		stop := d.limits.awaitRoom(e, &r, self.wake)
		awake := self.sleep(ctx, min(backoff.Jitter(recheckAfter(e), 0.2), time.Until(until)))
		if stop(); !awake {
			return Placement{}, storeError(ctx)
		}
		waited += time.Since(asleep)
	}
}

// Waiting returns how many requests wait on this instance for a free slot.
func (d *Dispatcher) Waiting() int { return int(d.waiting.count.Load()) }

// WaitingByDirection returns how many requests wait on this instance for a free slot, by direction.
func (d *Dispatcher) WaitingByDirection() map[core.Direction]int {
	d.waiting.mu.Lock()
	defer d.waiting.mu.Unlock()
	return maps.Clone(d.waiting.byDirection)
}

// NotifyFreeSlots wakes a request that waits for a slot of a node, which may have a free one. The node may be nil.
func (d *Dispatcher) NotifyFreeSlots(n *fleet.Node) {
	if n != nil {
		d.waiting.notifyFree(n)
	}
}

// waitQueue holds the requests that wait for a free slot, in classes that the same nodes can serve.
type waitQueue struct {
	fleet  *fleet.Fleet
	picker *pick.Picker

	count atomic.Int64
	freed atomic.Int64 // counts the slots that were freed

	mu          lockwait.Mutex[lockwait.DispatchWaiting]
	classes     map[string][]*waiter // each ordered by since
	byDirection map[core.Direction]int
}

// waiter is one waiting request.
type waiter struct {
	spec  *core.Spec
	class string
	since time.Time
	wake  chan struct{} // holds one element when a slot may be free

	// Guarded by the queue's lock:
	woken   bool        // and has not selected since
	node    *fleet.Node // whose free slot woke it
	wakeups int         // how many other requests may still be woken for that slot
}

func newWaitQueue(fl *fleet.Fleet, pk *pick.Picker) *waitQueue {
	return &waitQueue{fleet: fl, picker: pk, classes: make(map[string][]*waiter), byDirection: make(map[core.Direction]int)}
}

// notifyFree wakes a request for a slot of a node that was freed.
func (q *waitQueue) notifyFree(n *fleet.Node) {
	q.freed.Add(1) // before count is read: a request reads freed after it has entered the queue
	if q.count.Load() > 0 {
		q.wakeOldest(n, maxWakeups, time.Time{})
	}
}

// enter adds a request.
func (q *waitQueue) enter(spec *core.Spec, since time.Time) *waiter {
	w := &waiter{spec: spec, class: classOf(spec), since: since, wake: make(chan struct{}, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	class := q.classes[w.class]
	at, _ := slices.BinarySearchFunc(class, since, func(other *waiter, t time.Time) int { return other.since.Compare(t) })
	q.classes[w.class] = slices.Insert(class, at, w)
	q.byDirection[spec.Direction]++
	q.count.Add(1)
	return w
}

// leave removes a request that was placed on a node, or refused. If it was woken for a slot of another node, the next request
// is woken for that slot.
func (q *waitQueue) leave(w *waiter, placed core.NodeID) {
	q.remove(w)
	if n, wakeups := q.takeWakeup(w); n != nil && n.ID() != placed && wakeups > 0 {
		q.wakeOldest(n, wakeups-1, w.since)
	}
}

func (q *waitQueue) remove(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	class := slices.DeleteFunc(q.classes[w.class], func(other *waiter) bool { return other == w })
	if len(class) == 0 {
		delete(q.classes, w.class)
	} else {
		q.classes[w.class] = class
	}
	if q.byDirection[w.spec.Direction]--; q.byDirection[w.spec.Direction] == 0 {
		delete(q.byDirection, w.spec.Direction)
	}
	q.count.Add(-1)
}

// wakeNext wakes the next request for the slot for which this one was woken and which it did not get.
func (q *waitQueue) wakeNext(w *waiter) {
	if n, wakeups := q.takeWakeup(w); n != nil && wakeups > 0 {
		q.wakeOldest(n, wakeups-1, w.since)
	}
}

// takeWakeup returns and clears the wakeup of a request: the node, and how many more requests may be woken for its slot.
func (q *waitQueue) takeWakeup(w *waiter) (n *fleet.Node, wakeups int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, wakeups = w.node, w.wakeups
	w.woken, w.node, w.wakeups = false, nil, 0
	return n, wakeups
}

// wakeOldest wakes the request that has waited longest of those that a node could serve, that are not awake and that began to
// wait after a given time.
func (q *waitQueue) wakeOldest(n *fleet.Node, wakeups int, after time.Time) {
	now := q.fleet.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	var next *waiter
	searched := 0
	for _, class := range q.classes {
		if searched++; searched > maxClasses {
			break
		}
		first := slices.IndexFunc(class, func(w *waiter) bool { return !w.woken && w.since.After(after) })
		if first < 0 || next != nil && !class[first].since.Before(next.since) || !q.canServe(n, class[first], now) {
			continue
		}
		next = class[first]
	}
	if next == nil {
		return
	}
	next.woken, next.node, next.wakeups = true, n, wakeups
	select {
	case next.wake <- struct{}{}:
	default:
	}
}

// canServe reports whether a node could take the job of a waiting request if it had a free slot.
func (q *waitQueue) canServe(n *fleet.Node, w *waiter, now fleet.Instant) bool {
	o := &w.spec.Options
	route := q.fleet.Route(w.spec.Direction, o.RequireTTS)
	reason := q.picker.Filter(&pick.Query{
		Requirement: route.Requirement, Options: o, Tenant: w.spec.Tenant, Pools: core.NewPoolRule(route.Division, w.spec), Now: now,
	}, n)
	return reason == core.ReasonNone || reason.Soft()
}

// classOf returns a key that is equal for requests that the same nodes can serve.
func classOf(s *core.Spec) string {
	o := &s.Options
	var b strings.Builder
	for _, part := range []string{string(s.Direction.Src), string(s.Direction.Tgt), string(s.Tenant), o.Region} {
		b.WriteString(part)
		b.WriteByte('|')
	}
	if o.RequireTTS {
		b.WriteByte('t')
	}
	for _, list := range [][]string{o.RequiredServices, o.RequiredModels, o.Features} {
		b.WriteByte('|')
		b.WriteString(strings.Join(list, ","))
	}
	return b.String()
}

// sleep waits until the request is woken or the time is over. It returns false if the context ended first.
func (w *waiter) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-w.wake:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}
