package waiting

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// waiter is a request of this instance that waits in a queue for a slot. It does not move: in another queue or class it is another one.
type waiter struct {
	id        string
	tenant    core.TenantID
	pool      core.PoolID // whose queue it is in; empty: that of requests that are not bound to a pool
	class     *waitClass
	direction core.Direction
	weight    int       // of its tenant
	entered   time.Time // when it was put into the queue first

	basis   classBasis    // of its class; guarded by the lock of the table
	changed chan struct{} // has an element if its class may have changed

	since, until time.Time                        // when it began to wait, and when it gives up, on the clock of this instance
	queued       atomic.Pointer[fairqueue.Waiter] // as it was last put into the queue, with times on the clock of the store

	offers    chan core.NodeID // holds the node whose slot it is offered
	confirmed bool             // the queue has it; guarded by the lock of the table
}

// setClock sets the times of the waiter by the clock of the store, which says now. In the queue it is another one then.
func (w *waiter) setClock(now int64, instance core.InstanceID) {
	w.queued.Store(&fairqueue.Waiter{
		ID: w.id, Class: w.class.id, Tenant: string(w.tenant), Instance: string(instance),
		Since: now - time.Since(w.since).Milliseconds(), Deadline: now + time.Until(w.until).Milliseconds(),
	})
}

// params returns the parameters with which the waiter is put into its queue.
func (w *waiter) params(maxWaiting int, repeat bool) fairqueue.EnqueueParams {
	return fairqueue.EnqueueParams{Waiter: *w.queued.Load(), Requirements: w.class.requirements, Weight: w.weight, MaxWaiting: maxWaiting,
		Repeat: repeat}
}

// waiters are the requests of this instance that wait in a queue.
type waiters struct {
	count   atomic.Int64
	entered atomic.Uint64 // counts the requests that were put into a queue

	mu          run.Mutex
	byID        map[string]*waiter
	byPool      map[core.PoolID]int
	byTenant    map[core.TenantID]int
	byDirection map[core.Direction]int
}

func newWaiters() *waiters {
	return &waiters{mu: run.NewMutex("dispatch_waiting"), byID: make(map[string]*waiter), byPool: make(map[core.PoolID]int),
		byTenant: make(map[core.TenantID]int), byDirection: make(map[core.Direction]int)}
}

// waiterIDSeparator is between the job and the number in the id of a waiter. No job id contains it.
const waiterIDSeparator = "/"

// nextID makes the id of a waiter: a job may leave a queue and enter it again before its removal is done.
func (s *waiters) nextID(job core.JobID) string {
	return string(job) + waiterIDSeparator + strconv.FormatUint(s.entered.Add(1), 36)
}

// JobOf returns the job that waits.
func JobOf(w *fairqueue.Waiter) core.JobID {
	job, _, _ := strings.Cut(w.ID, waiterIDSeparator)
	return core.JobID(job)
}

// add adds a waiter, before it is put into the queue: an offer may come at once.
func (s *waiters) add(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[w.id] = w
	s.byPool[w.pool]++
	s.byTenant[w.tenant]++
	s.byDirection[w.direction]++
	s.count.Add(1)
}

// confirm records that the queue has a waiter.
func (s *waiters) confirm(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.confirmed = true
}

// remove removes a waiter. It reports false if it was not there.
func (s *waiters) remove(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[w.id] != w {
		return false
	}
	delete(s.byID, w.id)
	decrement(s.byPool, w.pool)
	decrement(s.byTenant, w.tenant)
	decrement(s.byDirection, w.direction)
	s.count.Add(-1)
	return true
}

func decrement[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}

// offer passes a slot of a node on to a waiter. It reports false if the waiter does not wait any more, and whether an earlier offer has
// lapsed.
func (s *waiters) offer(id string, node core.NodeID) (passed, lapsed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byID[id]
	if w == nil {
		return false, false
	}
	select {
	case <-w.offers:
		lapsed = true
	default:
	}
	w.offers <- node
	return true, lapsed
}

// pools returns the pools in whose queues requests of this instance wait, and how many do.
func (s *waiters) pools() map[core.PoolID]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byPool)
}

// tenants returns how many requests wait, by tenant.
func (s *waiters) tenants() map[core.TenantID]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byTenant)
}

// confirmedIn returns the requests of this instance that the queue of a pool has.
func (s *waiters) confirmedIn(pool core.PoolID) []*waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*waiter
	for _, w := range s.byID {
		if w.pool == pool && w.confirmed {
			list = append(list, w)
		}
	}
	return list
}

// checkClasses notifies the waiters whose classes may have changed, because the fleet has changed.
func (s *waiters) checkClasses(fl *fleet.Fleet) {
	bases := make(map[core.TenantID]classBasis)
	for tenant := range s.tenants() {
		bases[tenant] = newClassBasis(fl, tenant)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.byID {
		if basis, known := bases[w.tenant]; known && basis != w.basis {
			w.basis = basis
			select {
			case w.changed <- struct{}{}:
			default: // it has not looked yet
			}
		}
	}
}

// still returns those of some waiters that have not left.
func (s *waiters) still(list []*waiter) []*waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(list, func(w *waiter) bool { return s.byID[w.id] != w })
}

// has reports whether requests of this instance wait in the queue of a pool.
func (s *waiters) has(pool core.PoolID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byPool[pool] > 0
}

// directions returns how many requests wait, by direction.
func (s *waiters) directions() map[core.Direction]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byDirection)
}
