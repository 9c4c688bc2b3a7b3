package dispatch_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/waiting"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// fillNodes adds nodes of one slot each, which is taken by an instance that is not there. The follower has then applied what it read before
// the slots were taken.
func (h *harness) fillNodes(n int, change ...func(*core.Change)) []core.LeaseRef {
	h.t.Helper()
	leases := make([]core.LeaseRef, n)
	for i := range leases {
		id := fmt.Sprintf("node-%04d", i)
		h.addNode(id, 1, change...)
		node := h.fleet.Node(core.NodeID(id))
		leases[i] = core.LeaseRef{Node: node.ID(), Job: core.JobID(fmt.Sprint("j", i)), Attempt: 1, Token: "i-dead.1"}
		r, err := h.mem.Reserve(h.t.Context(),
			store.ReserveParams{Lease: leases[i], Handle: node.Handle(), Epoch: node.Epoch(), Revision: node.Declared().Revision})
		if err != nil || r.Verdict != store.OK {
			h.t.Fatal(r, err)
		}
	}
	synctest.Wait()
	return leases
}

// releaseSilently releases a slot, and no instance learns of it.
func (h *harness) releaseSilently(lease core.LeaseRef) {
	h.t.Helper()
	if err := h.mem.Release(h.t.Context(), store.ReleaseParams{Lease: lease}); err != nil {
		h.t.Fatal(err)
	}
}

// TestSweepOfALargeFleet: a slot that was freed without a word is found in the time that is promised after an instance was killed,
// whichever of many nodes it is of: at the latest at the end of the next round of the sweep.
func TestSweepOfALargeFleet(t *testing.T) {
	t.Parallel()
	for _, instances := range []int{1, 4} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				const nodes = 1000
				leases := h.fillNodes(nodes)
				group := make(map[core.InstanceID]*dispatch.Dispatcher)
				for i := range instances {
					id := core.InstanceID(fmt.Sprint("i-", i))
					group[id] = h.secondInstance(h.store, h.fleet, func(c *dispatch.Config) {
						c.Instance = id
						c.Bus = offerBus(func(_ context.Context, to core.InstanceID, o waiting.Offer) error {
							receiveOffer(group[to], o)
							return nil
						})
					})
					defer group[id].Close()
				}
				ctx, cancel := context.WithCancel(h.t.Context())
				placed := make(chan time.Time)
				wait := func(id core.InstanceID, name string) {
					w := waitOn(ctx, group[id], name, 20*time.Second)
					go func() {
						<-w.done
						if w.placement.Node != "" {
							_ = group[id].Reports.Ack(ctx, reportOf(w.placement)) // else it is retried, and takes the slot of another
						}
						placed <- w.endedAt
					}()
				}
				for id := range group { // so that each of them tends the queue
					wait(id, "of-"+string(id))
				}
				for i, began := 0, time.Now(); time.Since(began) < 9*time.Second; i++ {
					wait(core.InstanceID(fmt.Sprint("i-", i%instances)), fmt.Sprint("w", i))
					time.Sleep(250 * time.Millisecond)
					freed := time.Now()
					h.releaseSilently(leases[i*397%nodes])
					if took := (<-placed).Sub(freed); took > 1500*time.Millisecond {
						t.Errorf("a slot was free for %v while a request waited", took)
					}
				}
				cancel()
				for range group {
					<-placed
				}
			})
		})
	}
}

// unsweptStore is a store that no instance may sweep.
type unsweptStore struct{ store.Store }

func (unsweptStore) Lock(context.Context, store.LockParams) (store.Lock, error) {
	return store.Lock{}, nil
}

func (s unsweptStore) Beat(ctx context.Context, pool core.PoolID, id core.InstanceID) (fairqueue.BeatResult, error) {
	r, err := s.Store.Beat(ctx, pool, id)
	r.Freed = false
	return r, err
}

// TestNodeOfALostOfferIsProbed: the instance that has made an offer that was lost finds the slot that is still free, without a sweep of all
// nodes.
func TestNodeOfALostOfferIsProbed(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		var waits atomic.Pointer[dispatch.Dispatcher]
		var sent atomic.Int64
		offers := h.secondInstance(unsweptStore{h.store}, h.fleet, func(c *dispatch.Config) {
			c.Instance = "i-offers"
			c.Bus = offerBus(func(_ context.Context, _ core.InstanceID, o waiting.Offer) error {
				if sent.Add(1) > 2 {
					receiveOffer(waits.Load(), o)
				}
				return nil
			})
		})
		defer offers.Close()
		waits.Store(h.secondInstance(unsweptStore{h.store}, h.fleet))
		defer waits.Load().Close()
		busy := h.dispatchAcknowledged(offers, spec())
		w := waitOn(h.t.Context(), waits.Load(), "w", 20*time.Second)
		h.finish(offers, busy)
		time.Sleep(1200 * time.Millisecond)
		if !w.hasEnded() || w.placement.Node != "node-a" || sent.Load() != 3 {
			t.Errorf("placed %v after %d offers, of which two were lost", w.hasEnded(), sent.Load())
		}
	})
}

// TestNodeOfAReturnedOfferIsProbed: a slot that was taken for a moment, so that its offer was returned, is offered again without a sweep of
// all nodes.
func TestNodeOfAReturnedOfferIsProbed(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		leases := h.fillNodes(1)
		d := h.secondInstance(unsweptStore{h.store}, h.fleet)
		defer d.Close()
		w := waitOn(h.t.Context(), d, "w", 20*time.Second)
		d.Waiting.SlotSeen(h.fleet.Node("node-0000")) // it is not free
		synctest.Wait()
		h.releaseSilently(leases[0])
		time.Sleep(200 * time.Millisecond)
		if !w.hasEnded() || w.placement.Node != "node-0000" {
			t.Errorf("placed %v: %+v", w.hasEnded(), w.placement)
		}
	})
}

// TestSweepOffersNoSlotTwice: a slot whose offer is on its way to a request is not offered to the next one, which would take it.
func TestSweepOffersNoSlotTwice(t *testing.T) {
	t.Parallel()
	for phase := time.Duration(0); phase < 200*time.Millisecond; phase += 10 * time.Millisecond {
		runTest(t, func(h *harness) {
			h.addNode("node-a", 1)
			var waits atomic.Pointer[dispatch.Dispatcher]
			offers := h.secondInstance(h.store, h.fleet, func(c *dispatch.Config) {
				c.Instance = "i-offers"
				c.Bus = offerBus(func(_ context.Context, _ core.InstanceID, o waiting.Offer) error {
					if waiting.JobOf(&o.Waiter) == core.JobIDFor("", "first") {
						time.Sleep(25 * time.Millisecond)
					}
					receiveOffer(waits.Load(), o)
					return nil
				})
			})
			defer offers.Close()
			waits.Store(h.secondInstance(h.store, h.fleet))
			defer waits.Load().Close()
			busy := h.dispatchAcknowledged(offers, spec())
			first := waitOn(h.t.Context(), waits.Load(), "first", 10*time.Second)
			second := waitOn(h.t.Context(), waits.Load(), "second", 20*time.Second)
			time.Sleep(time.Second + phase)
			h.finish(offers, busy)
			time.Sleep(200 * time.Millisecond)
			if !first.hasEnded() || second.hasEnded() {
				t.Errorf("phase %v: placed first %v, second %v", phase, first.hasEnded(), second.hasEnded())
			}
		})
	}
}
