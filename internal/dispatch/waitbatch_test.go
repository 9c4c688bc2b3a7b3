package dispatch

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
	sent  []WaitOffer
}

func (s *offerCounter) Offer(ctx context.Context, pool core.PoolID, n int, classes []string) (fairqueue.OfferResult, error) {
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	return s.Store.Offer(ctx, pool, n, classes)
}

func (s *offerCounter) receive(_ context.Context, _ core.InstanceID, o WaitOffer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, o)
	return nil
}

// unbound is of requests that are not bound to a pool.
func unbound(int) bool { return false }

// dividedInTwo is a division into the nodes of a pool p and all others.
func dividedInTwo() *core.Pools {
	p := &core.Pools{
		Defined: []core.PoolDefinition{{ID: "p", RequiredServices: []string{"service-4"}}}, Overrides: map[core.TenantID]core.PoolID{"t": "p"},
	}
	return p.Prepared()
}

// offerCrowd offers the slots of nodes to requests that wait on another instance, some of which are bound to the pool p.
func offerCrowd(t *testing.T, nodes, classes, perClass int, pools *core.Pools, bound func(i int) bool) (_ *Line, _ *offerCounter, free map[*fleet.Node]int) {
	t.Helper()
	counter := &offerCounter{Store: memstore.New(store.Timing{Presence: time.Hour})}
	l := newCrowdedLine(t, counter, nodes, 0)
	l.fleet.SetPools(pools)
	l.sends.send = counter.receive
	l.tend = func() {}
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
		class, _ := newWaitClass(l.fleet, spec, nil)
		w := fairqueue.Waiter{ID: fmt.Sprint("w", i), Class: class.id, Instance: "other", Since: now, Deadline: now + time.Hour.Milliseconds()}
		if _, err := counter.Enqueue(t.Context(), pool, fairqueue.EnqueueParams{Waiter: w, Requirements: class.requirements, Weight: 100, Repeat: true}); err != nil {
			t.Fatal(err)
		}
	}
	free = make(map[*fleet.Node]int)
	for i := range nodes {
		free[l.fleet.Node(variedNode(i))] = 1 + i%3
	}
	l.offerAll(t.Context(), free)
	synctest.Wait() // until all were sent
	return l, counter, free
}

// checkOffers checks that no node has more offers than free slots, that no request has two, and that each node can serve its requests.
func checkOffers(t *testing.T, l *Line, c *offerCounter, free map[*fleet.Node]int) {
	t.Helper()
	byNode, byWaiter := make(map[core.NodeID]int), make(map[string]int)
	for _, o := range c.sent {
		n := l.fleet.Node(o.Node)
		if byNode[o.Node]++; byNode[o.Node] > free[n] {
			t.Errorf("%s has %d offers and %d free slots", o.Node, byNode[o.Node], free[n])
		}
		if byWaiter[o.Waiter.ID]++; byWaiter[o.Waiter.ID] > 1 {
			t.Errorf("%s was offered %d slots", o.Waiter.ID, byWaiter[o.Waiter.ID])
		}
		if class := l.open.classes(o.Pool)[o.Waiter.Class]; class != nil && !l.open.filterOf(class).canServe(n, l.fleet.Now()) {
			t.Errorf("%s was offered a slot of %s, which cannot serve it", o.Waiter.ID, o.Node)
		}
	}
}

// countUsable returns how many of the free slots nodes have for which somebody waits.
func countUsable(l *Line, free map[*fleet.Node]int, pools ...core.PoolID) (slots int) {
	for n, count := range free {
		for _, pool := range pools {
			if l.open.filters(pool).wants(n, l.fleet.Now()) {
				slots += count
				break
			}
		}
	}
	return slots
}

// TestSlotsOfEqualNodesAreOfferedTogether: many nodes that have free slots at the same moment take few calls, no slot is offered twice, and none is
// left while requests wait for it.
func TestSlotsOfEqualNodesAreOfferedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const nodes, kinds = 160, 8 // by their languages
		l, counter, free := offerCrowd(t, nodes, 16, 100, nil, unbound)
		checkOffers(t, l, counter, free)
		usable := countUsable(l, free, "")
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
		l, counter, free := offerCrowd(t, 160, 16, 1, nil, unbound)
		checkOffers(t, l, counter, free)
		served := make(map[string]bool)
		for n := range free {
			for f := range l.open.filters("").serving(n, l.fleet.Now()) {
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
		l, counter, free := offerCrowd(t, 640, 16, 200, dividedInTwo(), func(i int) bool { return i/16%2 == 1 })
		checkOffers(t, l, counter, free)
		byPool := make(map[core.PoolID]int)
		for _, o := range counter.sent {
			if l.fleet.Division().Assign(l.fleet.Node(o.Node).Declared()).Pool == "p" {
				byPool[o.Pool]++
			}
		}
		if usable := countUsable(l, free, "", "p"); len(counter.sent) != usable {
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
		l, counter, free := offerCrowd(t, 640, 16, 100, dividedInTwo(), func(int) bool { return true })
		checkOffers(t, l, counter, free)
		if usable := countUsable(l, free, "p"); len(counter.sent) != usable || usable == 0 {
			t.Errorf("%d slots were offered, want %d", len(counter.sent), usable)
		}
	})
}

// TestFoundSlotsAreNotCountedTwice: a slot that has become free, and that a probe finds before it was offered, is one slot.
func TestFoundSlotsAreNotCountedTwice(t *testing.T) {
	t.Parallel()
	l := newCrowdedLine(t, memstore.New(store.Timing{Presence: time.Hour}), 1, 0)
	l.working = true // nothing is offered meanwhile
	n := l.fleet.Node(variedNode(0))
	for i, step := range []struct {
		do   func()
		want int
	}{
		{func() { l.freed(n) }, 1},
		{func() { l.found(n, 1) }, 1},
		{func() { l.found(n, 3) }, 3},
		{func() { l.freed(n) }, 4},
	} {
		if step.do(); l.pending[n] != step.want {
			t.Errorf("step %d: %d slots are to be offered, want %d", i, l.pending[n], step.want)
		}
	}
}

// TestNodeIsOfferedNoMoreThanItsSlots: however often a slot of a node was said to be free, no more slots are offered than it has.
func TestNodeIsOfferedNoMoreThanItsSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, counter, free := offerCrowd(t, 8, 16, 100, nil, unbound)
		before := make(map[core.NodeID]int)
		for _, o := range counter.sent {
			before[o.Node]++
		}
		for n := range free {
			free[n] = 1000
		}
		l.offerAll(t.Context(), free)
		synctest.Wait()
		for n := range free {
			sent := -before[n.ID()]
			for _, o := range counter.sent {
				if o.Node == n.ID() {
					sent++
				}
			}
			want := 0
			if l.open.filters("").wants(n, l.fleet.Now()) {
				want = n.Summary().Slots()
			}
			if sent != want {
				t.Errorf("%d slots of %s were offered, want %d", sent, n.ID(), want)
			}
		}
	})
}
