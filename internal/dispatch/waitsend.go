package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

var (
	// ErrInstanceAbsent says that an offer was certainly not sent, because the instance is not present.
	ErrInstanceAbsent = errors.New("the instance of the request is not present")
	// ErrInboxFull says that an offer was certainly not sent, because the instance has too many messages to read.
	ErrInboxFull = errors.New("the inbox of the instance is full")
)

// sendsPerInstance is how many offers are sent to one instance at the same time.
const sendsPerInstance = 4

// offerSends sends offers to other instances. Each instance has a queue of its own, so that one that is slow does not delay the others.
type offerSends struct {
	tasks  *run.Group
	send   func(ctx context.Context, to core.InstanceID, o WaitOffer) error
	failed func(ctx context.Context, o WaitOffer, err error)

	mu     run.Mutex[run.DispatchSends]
	queues map[core.InstanceID][]queuedOffer // has the instances to which offers are being sent
}

// queuedOffer is an offer that is to be sent.
type queuedOffer struct {
	WaitOffer
	until time.Time // when it lapses
}

// add has an offer sent. It does not block.
func (s *offerSends) add(offer WaitOffer) {
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
func (s *offerSends) run(ctx context.Context, to core.InstanceID) {
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
func (s *offerSends) sendOne(ctx context.Context, to core.InstanceID, o *queuedOffer) {
	limited, cancel := context.WithDeadline(ctx, o.until)
	defer cancel()
	err := context.DeadlineExceeded
	if !Expired(limited) {
		err = s.send(limited, to, o.WaitOffer)
	}
	if err != nil && ctx.Err() == nil {
		s.failed(ctx, o.WaitOffer, err)
	}
}

// handleUnsent handles an offer that could not be sent. If the instance certainly does not have it, the slot is offered to the next request
// at once.
func (o *offerer) handleUnsent(ctx context.Context, offer WaitOffer, err error) {
	o.metrics.Waiting.Offers.WithLabelValues(telemetry.OfferLapsed).Inc()
	o.log.Info("a slot could not be offered to another instance", "instance", offer.Waiter.Instance, "node_id", offer.Node, "error", err)
	switch {
	case errors.Is(err, ErrInstanceAbsent):
		// The request is taken out of the queue: it would be the next one again. If the instance is alive after all, it puts it there again
		// with its next beat.
		if err := o.store.Settle(ctx, offer.Pool, offer.Waiter, fairqueue.Left); err != nil {
			o.store.recordError("dequeue", err)
			o.recheckNode(offer.Pool, offer.Node)
			return
		}
		o.offerAgain(offer.Node)
	case errors.Is(err, ErrInboxFull):
		// The offer is not taken back before it lapses: until then it is the turn of others.
		o.offerAgain(offer.Node)
	default: // it may have been sent
		o.recheckNode(offer.Pool, offer.Node)
	}
}
