package waiting

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// offerCounter is a store that counts offers, and an instance that records those that it is sent.
type offerCounter struct {
	Store
	mu    sync.Mutex
	calls int
	sent  []Offer
}

func (s *offerCounter) Offer(ctx context.Context, pool core.PoolID, n int, classes []string) (fairqueue.OfferResult, error) {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	return s.Store.Offer(ctx, pool, n, classes)
}

func (s *offerCounter) Send(_ context.Context, _ core.InstanceID, _ bus.Kind, _ time.Duration, body any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, body.(Offer))
	return nil
}

// unbound is of requests that are not bound to a pool.
func unbound(int) bool { return false }

// dividedInTwo is a division into the nodes of a pool p and all others.
func dividedInTwo() *core.Pools {
	p := &core.Pools{
		Defined:   []core.PoolDefinition{{ID: "p", RequiredServices: []string{"service-4"}}},
		Overrides: map[core.TenantID]core.PoolID{"t": "p"},
	}
	return p.Prepared()
}

// offerCrowd offers the slots of nodes to requests that wait on another instance, some of which are bound to the pool p.
func offerCrowd(t *testing.T, nodes, classes, perClass int, pools *core.Pools, bound func(i int) bool) (_ *Queue, _ *offerCounter,
	free map[*fleet.Node]int) {
	t.Helper()
	counter := &offerCounter{Store: memstore.New(store.Timing{Presence: time.Hour})}
	q := newCrowdedQueue(t, counter, nodes, 0)
	q.options.Fleet.SetPools(pools)
	q.offers.sends.bus = counter
	q.offers.keep = func() {}
	clock, err := counter.Clock(t.Context(), store.ClockKey{})
	if err != nil {
		t.Fatal(err)
	}
	now := clock.UnixMilli()
	for i := range classes * perClass {
		spec := variedSpec(480 + i%classes) // a direction, and nothing else is required
		pool := core.PoolID("")
		if bound(i) {
			pool, spec.Pool = "p", core.JobPool{ID: "p", Bound: true}
		}
		class, _ := newWaitClass(q.options.Fleet, spec, nil)
		w := fairqueue.Waiter{ID: fmt.Sprint("w", i), Class: class.id, Instance: "other", Since: now,
			Deadline: now + time.Hour.Milliseconds()}
		if _, err := counter.Enqueue(t.Context(), pool,
			fairqueue.EnqueueParams{Waiter: w, Requirements: class.requirements, Weight: 100, Repeat: true}); err != nil {
			t.Fatal(err)
		}
	}
	free = make(map[*fleet.Node]int)
	for i := range nodes {
		free[q.options.Fleet.Node(variedNode(i))] = 1 + i%3
	}
	q.offers.offerAll(t.Context(), free)
	synctest.Wait() // until all were sent
	return q, counter, free
}

// checkOffers checks that no node has more offers than free slots, that no request has two, and that each node can serve its requests.
func checkOffers(t *testing.T, q *Queue, c *offerCounter, free map[*fleet.Node]int) {
	t.Helper()
	byNode, byWaiter := make(map[core.NodeID]int), make(map[string]int)
	for _, o := range c.sent {
		n := q.options.Fleet.Node(o.Node)
		if byNode[o.Node]++; byNode[o.Node] > free[n] {
			t.Errorf("%s has %d offers and %d free slots", o.Node, byNode[o.Node], free[n])
		}
		if byWaiter[o.Waiter.ID]++; byWaiter[o.Waiter.ID] > 1 {
			t.Errorf("%s was offered %d slots", o.Waiter.ID, byWaiter[o.Waiter.ID])
		}
		if class := q.open.classes(o.Pool)[o.Waiter.Class]; class != nil && !q.open.filterOf(class).canServe(n, q.options.Fleet.Now()) {
			t.Errorf("%s was offered a slot of %s, which cannot serve it", o.Waiter.ID, o.Node)
		}
	}
}

// countUsable returns how many of the free slots nodes have for which somebody waits.
func countUsable(q *Queue, free map[*fleet.Node]int, pools ...core.PoolID) (slots int) {
	for n, count := range free {
		for _, pool := range pools {
			if q.open.filters(pool).wants(n, q.options.Fleet.Now()) {
				slots += count
				break
			}
		}
	}
	return slots
}

// TestSlotsOfEqualNodesAreOfferedTogether: many nodes that have free slots at the same moment take few calls, no slot is offered twice, and
// none is left while requests wait for it.
func TestSlotsOfEqualNodesAreOfferedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const nodes, kinds = 160, 8 // by their languages
		q, counter, free := offerCrowd(t, nodes, 16, 100, nil, unbound)
		checkOffers(t, q, counter, free)
		usable := countUsable(q, free, "")
		if len(counter.sent) != usable || usable < nodes {
			t.Errorf("%d slots were offered, want %d", len(counter.sent), usable)
		}
		if limit := usable/fairqueue.MaxOffers + kinds; counter.calls > limit {
			t.Errorf("%d calls for %d slots of %d nodes of %d kinds, want at most %d", counter.calls, usable, nodes, kinds, limit)
		}
	})
}

// TestFewWaitersForManySlots: no request is offered two slots because many are free.
func TestFewWaitersForManySlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, counter, free := offerCrowd(t, 160, 16, 1, nil, unbound)
		checkOffers(t, q, counter, free)
		served := make(map[string]bool)
		for n := range free {
			for f := range q.open.filters("").serving(n, q.options.Fleet.Now()) {
				served[f.class.id] = true
			}
		}
		if len(counter.sent) != len(served) || len(served) < 10 {
			t.Errorf("%d requests were offered a slot, want %d", len(counter.sent), len(served))
		}
	})
}

// TestBoundRequestsShareABatch: requests that are bound to a pool and requests that are not share the slots of a batch.
func TestBoundRequestsShareABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, counter, free := offerCrowd(t, 640, 16, 200, dividedInTwo(), func(i int) bool { return i/16%2 == 1 })
		checkOffers(t, q, counter, free)
		byPool := make(map[core.PoolID]int)
		for _, o := range counter.sent {
			if q.options.Fleet.Division().Assign(q.options.Fleet.Node(o.Node).Declared()).Pool == "p" {
				byPool[o.Pool]++
			}
		}
		if usable := countUsable(q, free, "", "p"); len(counter.sent) != usable {
			t.Errorf("%d slots were offered, want %d", len(counter.sent), usable)
		}
		if byPool[""] < 40 || byPool["p"] < 40 {
			t.Errorf("slots of the pool by the queue of the request: %v; both have an equal chance", byPool)
		}
	})
}

// TestBoundRequestsGetAllSlotsOfABatch: requests that are bound to a pool are offered all slots of its nodes if nobody else waits.
func TestBoundRequestsGetAllSlotsOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, counter, free := offerCrowd(t, 640, 16, 100, dividedInTwo(), func(int) bool { return true })
		checkOffers(t, q, counter, free)
		if usable := countUsable(q, free, "p"); len(counter.sent) != usable || usable == 0 {
			t.Errorf("%d slots were offered, want %d", len(counter.sent), usable)
		}
	})
}

// TestFoundSlotsAreNotCountedTwice: a slot that has become free, and that a probe finds before it was offered, is one slot.
func TestFoundSlotsAreNotCountedTwice(t *testing.T) {
	t.Parallel()
	q := newCrowdedQueue(t, memstore.New(store.Timing{Presence: time.Hour}), 1, 0)
	q.offers.working = true // nothing is offered meanwhile
	n := q.options.Fleet.Node(variedNode(0))
	for i, step := range []struct {
		do   func()
		want int
	}{
		{func() { q.offers.offerOneMore(n) }, 1},
		{func() { q.offers.offerAtLeast(n, 1) }, 1},
		{func() { q.offers.offerAtLeast(n, 3) }, 3},
		{func() { q.offers.offerOneMore(n) }, 4},
	} {
		if step.do(); q.offers.pending[n] != step.want {
			t.Errorf("step %d: %d slots are to be offered, want %d", i, q.offers.pending[n], step.want)
		}
	}
}

// TestNodeIsOfferedNoMoreThanItsSlots: however often a slot of a node was said to be free, no more slots are offered than it has.
func TestNodeIsOfferedNoMoreThanItsSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, counter, free := offerCrowd(t, 8, 16, 100, nil, unbound)
		before := make(map[core.NodeID]int)
		for _, o := range counter.sent {
			before[o.Node]++
		}
		for n := range free {
			free[n] = 1000
		}
		q.offers.offerAll(t.Context(), free)
		synctest.Wait()
		for n := range free {
			sent := -before[n.ID()]
			for _, o := range counter.sent {
				if o.Node == n.ID() {
					sent++
				}
			}
			want := 0
			if q.open.filters("").wants(n, q.options.Fleet.Now()) {
				want = n.Summary().Slots()
			}
			if sent != want {
				t.Errorf("%d slots of %s were offered, want %d", sent, n.ID(), want)
			}
		}
	})
}
