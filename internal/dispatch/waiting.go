package dispatch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/wire"
)

// Wait is how a request waits for a node with room.
type Wait struct {
	Since time.Time // when what is asked for began to wait
	Until time.Time // when it is refused if no node has room by then
	// Join is when it is refused if no node that is registered could ever serve it: one may be just joining.
	Join time.Time
}

const (
	// Slots that are freed by other instances are found by looking again this often.
	lookAgain    = time.Second
	lookAgainNew = 200 * time.Millisecond // while no node could serve it
	// maxHandovers bounds how many waiting requests try for one freed slot, one after the other.
	maxHandovers = 8
	// maxClasses bounds how many classes are asked who is next for a freed slot.
	maxClasses = 64
)

// DispatchWaiting is Dispatch for a caller that waits for a node with room. Of the requests that wait here, the one that has
// waited longest is woken when a slot is freed that it can use. A refusal is counted once, when the wait is over.
func (d *Dispatcher) DispatchWaiting(ctx context.Context, r Request, w Wait) (Placement, error) {
	r.since = w.Since
	var self *waiter
	var got core.NodeID
	defer func() { d.stopWaiting(self, got) }()
	for {
		began, freed := time.Now(), d.waiters.freed.Load()
		p, e := d.dispatch(ctx, &r)
		if e == nil {
			d.metrics.ObserveDispatch(time.Since(began), false)
			got = p.Node
			return p, nil
		}
		until := w.Until
		if e.Code == wire.NoCapableNode && w.Join.Before(until) {
			until = w.Join
		}
		if !e.Code.Traits().Retryable || !time.Now().Before(until) || d.draining.Load() {
			d.metrics.ObserveDispatch(time.Since(began), true)
			d.metrics.Refusals.WithLabelValues(string(e.Code)).Inc()
			d.countWaited(e)
			return Placement{}, e
		}
		if self == nil {
			self = d.waiters.enter(&r, w.Since)
			if d.waiters.freed.Load() != freed {
				continue // a slot was freed since it looked, when it could not be woken yet
			}
		} else {
			d.handOver(self)
		}
		wait := lookAgain
		if e.Code == wire.NoCapableNode {
			wait = lookAgainNew
		}
		if !self.sleep(ctx, min(backoff.Jitter(wait, 0.2), time.Until(until))) {
			return Placement{}, gone(ctx)
		}
	}
}

// countWaited counts a refusal whose tries were not counted.
func (d *Dispatcher) countWaited(e *wire.Error) {
	if e.Code != wire.NoCapableNode && e.Code != wire.AllCandidatesFullOrFailed {
		return
	}
	objections := make(map[core.Reason]int, len(e.Reasons))
	for reason, n := range e.Reasons {
		objections[core.Reason(reason)] = n
	}
	telling := objections
	if e.Code != wire.NoCapableNode {
		telling = capableOnly(objections)
	}
	d.countRefusal(e.Code, objections, telling)
}

// Waiting is how many requests wait here for a node with room.
func (d *Dispatcher) Waiting() int { return int(d.waiters.count.Load()) }

// Room says that a node may have room: it wakes a request that waits for one.
func (d *Dispatcher) FreeSlots(n *fleet.Node) {
	if n == nil {
		return
	}
	d.waiters.freed.Add(1) // before the look at who waits: a request looks at it after it has begun to wait
	if d.waiters.count.Load() > 0 {
		d.wake(n, maxHandovers, time.Time{})
	}
}

// stopWaiting ends the wait of a request, which may have got a node. If another node with room has just woken it, that one
// is for the next.
func (d *Dispatcher) stopWaiting(w *waiter, got core.NodeID) {
	if w == nil {
		return
	}
	d.waiters.leave(w)
	if n, left := d.waiters.rest(w); n != nil && n.ID() != got && left > 0 {
		d.wake(n, left-1, w.since)
	}
}

// handOver wakes the next request for the slot that woke this one in vain.
func (d *Dispatcher) handOver(w *waiter) {
	n, left := d.waiters.rest(w)
	if n != nil && left > 0 {
		d.wake(n, left-1, w.since)
	}
}

// wake wakes the request that has waited longest of those that a node could serve and that came after a moment.
func (d *Dispatcher) wake(n *fleet.Node, handovers int, after time.Time) {
	now := d.fleet.Now()
	d.waiters.wake(n, handovers, after, func(w *waiter) bool {
		pool := d.fleet.Pool(w.spec.Direction, w.spec.Options.RequireTTS)
		reason := d.picker.Objection(&pick.Query{Requirement: &pool.Requirement, Options: &w.spec.Options, Tenant: w.spec.Tenant, Now: now}, n)
		return reason == core.ReasonNone || reason.Soft()
	})
}

// waiters are the requests that wait, in classes that the same nodes can serve.
type waiters struct {
	count   atomic.Int64
	freed   atomic.Int64 // counts the slots that were freed
	mu      sync.Mutex
	classes map[string][]*waiter // each by how long they have waited
}

// waiter is one of them.
type waiter struct {
	spec  *core.Spec
	class string
	since time.Time
	wake  chan struct{} // holds one when there may be room

	woken     bool        // and has not tried yet; guarded by the lock of all
	room      *fleet.Node // that may have room
	handovers int         // how many more may try for it
}

func (w *waiters) init() { w.classes = make(map[string][]*waiter) }

// classOf tells apart what different nodes may be able to serve.
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

func (w *waiters) enter(r *Request, since time.Time) *waiter {
	one := &waiter{spec: &r.Spec, class: classOf(&r.Spec), since: since, wake: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.classes[one.class]
	at, _ := slices.BinarySearchFunc(all, since, func(other *waiter, t time.Time) int { return other.since.Compare(t) })
	w.classes[one.class] = slices.Insert(all, at, one)
	w.count.Add(1)
	return one
}

func (w *waiters) leave(one *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.DeleteFunc(w.classes[one.class], func(other *waiter) bool { return other == one })
	if len(all) == 0 {
		delete(w.classes, one.class)
	} else {
		w.classes[one.class] = all
	}
	w.count.Add(-1)
}

// wake wakes the one that has waited longest.
func (w *waiters) wake(n *fleet.Node, handovers int, after time.Time, could func(*waiter) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var next *waiter
	asked := 0
	for _, all := range w.classes {
		if asked++; asked > maxClasses {
			break
		}
		first := slices.IndexFunc(all, func(one *waiter) bool { return !one.woken && one.since.After(after) })
		if first < 0 || next != nil && !all[first].since.Before(next.since) || !could(all[first]) {
			continue
		}
		next = all[first]
	}
	if next == nil {
		return
	}
	next.woken, next.room, next.handovers = true, n, handovers
	select {
	case next.wake <- struct{}{}:
	default:
	}
}

// rest takes what one was woken for, which it did not get.
func (w *waiters) rest(one *waiter) (n *fleet.Node, handovers int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, handovers = one.room, one.handovers
	one.woken, one.room, one.handovers = false, nil, 0
	return n, handovers
}

// sleep waits until it is woken or the time is over. It reports false when the context ended first.
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
