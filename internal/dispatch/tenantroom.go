package dispatch

import (
	"container/heap"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// roomLines has the requests of this instance that wait until a limit of their tenant admits them. Only the first of a line asks the store,
// so that many requests cost no more than one.
type roomLines struct {
	limit int // of all waiters

	mu    run.Mutex
	lines map[roomKey]*roomLine
	count int
}

// roomKey names a line. Requests without audio do not wait for those which the rate of audio forbids.
type roomKey struct {
	tenant core.TenantID
	audio  bool
}

func roomKeyOf(r *Request) roomKey { return roomKey{r.Tenant, r.Utterance.AudioMS > 0} }

// roomLine is the requests of one line, the one with the earliest deadline first.
type roomLine struct {
	waiters roomHeap
	refusal tenantRefusal // the last one of a request of this line
	refused time.Time     // when that was
	askAt   time.Time     // when the first asks again, unless it is woken before
}

// set records a refusal of a request of the line.
func (l *roomLine) set(why tenantRefusal) {
	l.refusal, l.refused = why, time.Now()
	l.askAt = l.refused.Add(run.Jitter(recheckAfter(why.err), 0.2))
}

// refusalNow returns the refusal with the time after which a rate admits a request from now on.
func (l *roomLine) refusalNow() tenantRefusal {
	why := l.refusal
	if why.limit.IsRate() {
		e := *why.err
		why.err = e.RetryIn(max(recheckAfter(why.err)-time.Since(l.refused), minRetryAfter))
	}
	return why
}

// tenantRefusal is why a request waits.
type tenantRefusal struct {
	err   *wire.Error
	limit store.TenantLimit
}

// roomWaiter is one request in a line.
type roomWaiter struct {
	key   roomKey
	until time.Time
	wake  chan struct{} // it is the first now, or there may be room
	index int           // in its line; negative: it has left
}

func newRoomLines(limit int) *roomLines {
	return &roomLines{limit: limit, mu: run.NewMutex("dispatch_tenants"), lines: make(map[roomKey]*roomLine)}
}

// refusal returns why others wait in a line; false: nobody does.
func (l *roomLines) refusal(key roomKey) (tenantRefusal, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := l.lines[key]; line != nil {
		return line.refusalNow(), true
	}
	return tenantRefusal{}, false
}

// join puts a request into a line, which waits until a time at the latest; nil: too many requests wait.
func (l *roomLines) join(key roomKey, until time.Time, why tenantRefusal) *roomWaiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= l.limit {
		return nil
	}
	line := l.lines[key]
	if line == nil {
		line = new(roomLine)
		line.set(why)
		l.lines[key] = line
	}
	w := &roomWaiter{key: key, until: until, wake: make(chan struct{}, 1)}
	heap.Push(&line.waiters, w)
	l.count++
	return w
}

// leave takes a request out of its line, unless it has left. If it was the first, or was admitted, the one that is the first then asks
// whether there is room for it, too.
func (l *roomLines) leave(w *roomWaiter, admitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.index < 0 {
		return
	}
	line := l.lines[w.key]
	wasFirst := w.index == 0
	heap.Remove(&line.waiters, w.index)
	l.count--
	switch {
	case len(line.waiters) == 0:
		delete(l.lines, w.key)
	case wasFirst || admitted:
		line.waiters[0].notify()
	}
}

// turn reports whether it is for this request to ask the store, and when the first of its line asks.
func (l *roomLines) turn(w *roomWaiter) (first bool, askAt time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.index == 0, l.lines[w.key].askAt
}

// refused records why the first request of a line waits. It reports false if the request has left the line.
func (l *roomLines) refused(w *roomWaiter, why tenantRefusal) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.index < 0 {
		return false
	}
	l.lines[w.key].set(why)
	return true
}

// wake wakes the first requests of a tenant.
func (l *roomLines) wake(tenant core.TenantID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, audio := range []bool{false, true} {
		l.wakeFirstLocked(roomKey{tenant, audio})
	}
}

// wakeFirst wakes the first request of a line, if there is one.
func (l *roomLines) wakeFirst(key roomKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeFirstLocked(key)
}

func (l *roomLines) wakeFirstLocked(key roomKey) {
	if line := l.lines[key]; line != nil {
		line.waiters[0].notify()
	}
}

func (w *roomWaiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
}

// roomHeap orders waiters by their deadlines.
type roomHeap []*roomWaiter

// Len implements heap.Interface.
func (h roomHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h roomHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }

// Swap implements heap.Interface.
func (h roomHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *roomHeap) Push(w any) {
	waiter := w.(*roomWaiter)
	waiter.index = len(*h)
	*h = append(*h, waiter)
}

// Pop implements heap.Interface.
func (h *roomHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	last.index = -1
	return last
}
