package waiting

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// sendsPerInstance is how many offers are sent to one instance at the same time.
const sendsPerInstance = 4

// Sender sends messages to other instances. The errors bus.ErrAbsent and bus.ErrFull say that the message was certainly not sent; with any
// other error it may have been.
type Sender interface {
	Send(ctx context.Context, to core.InstanceID, kind bus.Kind, ttl time.Duration, body any) error
}

// kindOffer is the kind of the message that offers a slot.
const kindOffer bus.Kind = "wait_offer"

// sends sends offers to other instances. Each instance has a list of its own, so that one that is slow does not delay the others.
type sends struct {
	tasks  *run.Group
	bus    Sender // nil: there is no other instance
	failed func(ctx context.Context, o Offer, err error)

	mu     run.Mutex
	queues map[core.InstanceID][]queuedOffer // has the instances to which offers are being sent
}

// queuedOffer is an offer that is to be sent.
type queuedOffer struct {
	Offer
	until time.Time // when the offer lapses
}

// add sends an offer in the background.
func (s *sends) add(offer Offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := core.InstanceID(offer.Waiter.Instance)
	queue, sending := s.queues[to]
	s.queues[to] = append(queue, queuedOffer{offer, time.Now().Add(fairqueue.OfferMS * time.Millisecond)})
	if !sending && !s.tasks.Go(func(ctx context.Context) { s.run(ctx, to) }) {
		delete(s.queues, to)
	}
}

// run sends the offers to an instance until there are none.
func (s *sends) run(ctx context.Context, to core.InstanceID) {
	for {
		s.mu.Lock()
		batch := s.queues[to]
		if len(batch) == 0 {
			delete(s.queues, to)
			s.mu.Unlock()
			return
		}
		s.queues[to] = nil
		s.mu.Unlock()
		run.ForEach(sendsPerInstance, batch, func(o queuedOffer) { s.sendOne(ctx, to, &o) })
	}
}

// sendOne sends an offer, unless it has lapsed meanwhile.
func (s *sends) sendOne(ctx context.Context, to core.InstanceID, o *queuedOffer) {
	limited, cancel := context.WithDeadline(ctx, o.until)
	defer cancel()
	err := context.DeadlineExceeded
	if !run.Expired(limited) {
		err = s.bus.Send(limited, to, kindOffer, fairqueue.OfferMS*time.Millisecond, o.Offer)
	}
	if err != nil && ctx.Err() == nil {
		s.failed(ctx, o.Offer, err)
	}
}

// handleUnsent handles an offer that could not be sent. If the instance certainly does not have it, the slot is offered to the next request
// at once.
func (o *offerer) handleUnsent(ctx context.Context, offer Offer, err error) {
	o.metrics.Offers.WithLabelValues(telemetry.OfferLapsed).Inc()
	o.log.Info("a slot could not be offered to another instance", "instance", offer.Waiter.Instance, "node_id", offer.Node, "error", err)
	switch {
	case errors.Is(err, bus.ErrAbsent):
		// The request is taken out of the queue: it would be the next one again. If the instance is alive after all, it puts it there again
		// with its next heartbeat.
		if err := o.store.Settle(ctx, offer.Pool, offer.Waiter, fairqueue.Left); err != nil {
			o.store.RecordError("dequeue", err)
			o.recheckNode(offer.Pool, offer.Node)
			return
		}
		o.offerAgain(offer.Node)
	case errors.Is(err, bus.ErrFull):
		// The offer is not taken back before it lapses: until then it is the turn of others.
		o.offerAgain(offer.Node)
	default: // it may have been sent
		o.recheckNode(offer.Pool, offer.Node)
	}
}
