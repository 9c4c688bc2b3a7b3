package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/waiting"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
)

// offerNetwork sends offers between instances. Those to an instance fail as the test says.
type offerNetwork struct {
	mu        sync.Mutex
	instances map[core.InstanceID]*dispatch.Dispatcher
	fails     map[core.InstanceID]func(ctx context.Context) error // nil: they arrive
}

func (n *offerNetwork) fail(id core.InstanceID, fn func(ctx context.Context) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fails[id] = fn
}

func (n *offerNetwork) send(ctx context.Context, to core.InstanceID, o waiting.Offer) error {
	n.mu.Lock()
	d, fail := n.instances[to], n.fails[to]
	n.mu.Unlock()
	if fail != nil {
		return fail(ctx)
	}
	receiveOffer(d, o)
	return nil
}

// join adds an instance that sends offers through the network.
func (n *offerNetwork) join(h *harness, id core.InstanceID) *dispatch.Dispatcher {
	d := h.secondInstance(unsweptStore{h.store}, h.fleet, func(c *dispatch.Config) { c.Instance, c.Bus = id, offerBus(n.send) })
	n.instances[id] = d
	return d
}

// runNetwork runs a test with three instances: one that offers the slots of a node, all of which are taken, and two others.
func runNetwork(t *testing.T, slots int, fn func(h *harness, n *offerNetwork, busy []dispatch.Placement)) {
	t.Helper()
	runTest(t, func(h *harness) {
		n := &offerNetwork{instances: make(map[core.InstanceID]*dispatch.Dispatcher),
			fails: make(map[core.InstanceID]func(context.Context) error)}
		for _, id := range []core.InstanceID{"i-offers", "i-x", "i-y"} {
			defer n.join(h, id).Close()
		}
		h.addNode("node-a", slots)
		var busy []dispatch.Placement
		for i := range slots {
			busy = append(busy, h.dispatchAcknowledged(n.instances["i-offers"], spec(withRequestID(string(rune('a'+i))))))
		}
		fn(h, n, busy)
	})
}

// TestSlowInstanceDelaysNoOffers: an instance to which offers cannot be sent for a while does not delay those to another one.
func TestSlowInstanceDelaysNoOffers(t *testing.T) {
	t.Parallel()
	runNetwork(t, 3, func(h *harness, n *offerNetwork, busy []dispatch.Placement) {
		n.fail("i-x", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		slow := waitOn(h.t.Context(), n.instances["i-x"], "slow", 10*time.Second) // it is first, by its deadline
		first, second := waitOn(h.t.Context(), n.instances["i-y"], "first", 20*time.Second),
			waitOn(h.t.Context(), n.instances["i-y"], "second", 30*time.Second)
		for i, want := range []*waitingRequest{slow, first, second} {
			h.finish(n.instances["i-offers"], busy[i])
			synctest.Wait()
			if want.hasEnded() != (want != slow) {
				t.Errorf("after %d slots became free: request %d is placed: %v", i+1, i, want.hasEnded())
			}
		}
		n.fail("i-x", nil)
		time.Sleep(time.Second)
		if !slow.hasEnded() || slow.placement.Node != "node-a" {
			t.Error("the request of the slow instance was not offered the slot again")
		}
	})
}

// TestUnsentOfferGoesToTheNext: a slot whose offer was certainly not sent is offered to the next request at once, and the first one does
// not lose its place.
func TestUnsentOfferGoesToTheNext(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{bus.ErrAbsent, bus.ErrFull} {
		t.Run(reason.Error(), func(t *testing.T) {
			t.Parallel()
			runNetwork(t, 1, func(h *harness, n *offerNetwork, busy []dispatch.Placement) {
				n.fail("i-x", func(context.Context) error { return reason })
				first := waitOn(h.t.Context(), n.instances["i-x"], "first", 10*time.Second)
				next := waitOn(h.t.Context(), n.instances["i-y"], "next", 20*time.Second)
				last := waitOn(h.t.Context(), n.instances["i-y"], "last", 30*time.Second)
				h.finish(n.instances["i-offers"], busy[0])
				synctest.Wait()
				if first.hasEnded() || !next.hasEnded() || next.placement.Node != "node-a" {
					t.Fatalf("placed: first %v, next %v", first.hasEnded(), next.hasEnded())
				}
				if err := n.instances["i-y"].Reports.Ack(h.t.Context(), reportOf(next.placement)); err != nil {
					t.Fatal(err)
				}
				n.fail("i-x", nil)
				time.Sleep(time.Second) // the queue has it again
				h.finish(n.instances["i-y"], next.placement)
				synctest.Wait()
				if !first.hasEnded() || first.placement.Node != "node-a" || last.hasEnded() {
					t.Errorf("the instance can be reached again. Placed: first %v, last %v", first.hasEnded(), last.hasEnded())
				}
			})
		})
	}
}
