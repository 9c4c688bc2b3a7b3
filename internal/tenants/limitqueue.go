package tenants

import (
	"container/heap"
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// limitQueues has the requests of this instance that wait until a limit of their tenant admits them. Only the first of a queue asks the
// store, so that many requests cost no more than one.
type limitQueues struct {
	limit int // of all waiters

	mu     run.Mutex
	queues map[limitKey]*limitQueue
	count  int
}

// limitKey names a queue. Requests without audio do not wait for those which the rate of audio forbids.
type limitKey struct {
	tenant core.TenantID
	audio  bool
}

func keyOf(s *core.Spec) limitKey { return limitKey{s.Tenant, s.Utterance.AudioMS > 0} }

// limitQueue is the requests of one queue, the one with the earliest deadline first.
type limitQueue struct {
	waiters placeHeap
	refusal limitRefusal // the last one of a request of this queue
	refused time.Time    // when that was
	askAt   time.Time    // when the first asks again, unless it is woken before
}

// set records a refusal of a request of the queue.
func (q *limitQueue) set(why limitRefusal) {
	q.refusal, q.refused = why, time.Now()
	q.askAt = q.refused.Add(run.Jitter(why.retryAfter(), 0.2))
}

// refusalNow returns the refusal with the time after which a rate admits a request from now on.
func (q *limitQueue) refusalNow() limitRefusal {
	why := q.refusal
	if why.limit.IsRate() {
		e := *why.err
		why.err = e.RetryIn(max(why.retryAfter()-time.Since(q.refused), minRetryAfter))
	}
	return why
}

// minRetryAfter is the lowest hint at when a refused request may be repeated.
const minRetryAfter = 100 * time.Millisecond

// limitRefusal is why a request waits.
type limitRefusal struct {
	err   *wire.Error
	limit store.TenantLimit
}

func (r *limitRefusal) retryAfter() time.Duration {
	return time.Duration(r.err.RetryAfterMS) * time.Millisecond
}

// place is the place of one request in a queue.
type place struct {
	key   limitKey
	until time.Time
	wake  chan struct{} // has an element if the request is the first now, or may be admitted
	index int           // in its queue; negative: it has left
}

func newLimitQueues(limit int) *limitQueues {
	return &limitQueues{limit: limit, mu: run.NewMutex("dispatch_tenants"), queues: make(map[limitKey]*limitQueue)}
}

// ahead returns why a request must not ask the store now; false: it may. It is the turn of others if they come before it in its queue, or
// if they wait there when it arrives.
func (l *limitQueues) ahead(c *Count) (limitRefusal, bool) {
	if c.place == nil && (c.asked || c.until.IsZero()) {
		return limitRefusal{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.queues[keyOf(&c.spec)]
	if queue == nil || c.place != nil && c.place.index == 0 {
		return limitRefusal{}, false
	}
	return queue.refusalNow(), true
}

// join puts a request that was refused into a queue; nil: too many requests wait.
func (l *limitQueues) join(c *Count) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= l.limit {
		return nil
	}
	key := keyOf(&c.spec)
	queue := l.queues[key]
	if queue == nil {
		queue = new(limitQueue)
		queue.set(c.refusal)
		l.queues[key] = queue
	}
	p := &place{key: key, until: c.until, wake: make(chan struct{}, 1)}
	heap.Push(&queue.waiters, p)
	l.count++
	return p
}

// leave takes a request out of its queue. If it was the first, or was admitted, the one that is the first then asks whether it is admitted,
// too.
func (l *limitQueues) leave(p *place, admitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.queues[p.key]
	wasFirst := p.index == 0
	heap.Remove(&queue.waiters, p.index)
	l.count--
	switch {
	case len(queue.waiters) == 0:
		delete(l.queues, p.key)
	case wasFirst || admitted:
		queue.waiters[0].notify()
	}
}

// await waits until a request should be tried: it is the first of its queue and may be admitted. It returns false at a time, when stop is
// closed, or when the context ends.
func (l *limitQueues) await(ctx context.Context, p *place, until time.Time, stop <-chan struct{}) bool {
	_, askAt := l.turn(p)
	ask, over := time.NewTimer(time.Until(askAt)), time.NewTimer(time.Until(until))
	defer ask.Stop()
	defer over.Stop()
	for {
		select {
		case <-p.wake:
			if first, _ := l.turn(p); first {
				return true
			}
			l.wakeFirst(p.key) // another one came before it
		case <-ask.C:
			if first, _ := l.turn(p); first {
				return true
			}
		case <-over.C:
			return false
		case <-stop:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// turn reports whether a request is the first of its queue, and when the first one asks the store.
func (l *limitQueues) turn(p *place) (first bool, askAt time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.index == 0, l.queues[p.key].askAt
}

// refused records why the first request of a queue waits.
func (l *limitQueues) refused(p *place, why limitRefusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queues[p.key].set(why)
}

// wake wakes the first requests of a tenant.
func (l *limitQueues) wake(tenant core.TenantID) {
	l.wakeFirst(limitKey{tenant, false})
	l.wakeFirst(limitKey{tenant, true})
}

// wakeFirst wakes the first request of a queue, if there is one.
func (l *limitQueues) wakeFirst(key limitKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if queue := l.queues[key]; queue != nil {
		queue.waiters[0].notify()
	}
}

func (p *place) notify() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

// placeHeap orders waiters by their deadlines.
type placeHeap []*place

// Len implements heap.Interface.
func (h placeHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h placeHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }

// Swap implements heap.Interface.
func (h placeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *placeHeap) Push(p any) {
	next := p.(*place)
	next.index = len(*h)
	*h = append(*h, next)
}

// Pop implements heap.Interface.
func (h *placeHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	last.index = -1
	return last
}
