package scheduler

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// The messages of instances about requests that wait on another one.
const (
	kindOffer         bus.Kind = "wait_offer"  // a slot is offered to a request
	kindCancelWaiting bus.Kind = "wait_cancel" // a request is cancelled
)

// cancelTTL is how long the cancellation of a request that waits is of use: the operator who repeats it gets another answer by then.
const cancelTTL = 10 * time.Second

type cancelMessage struct {
	Job core.JobID `json:"job"`
}

// cancelSender returns what has another instance cancel a request that waits there.
func cancelSender(b *bus.Bus) func(context.Context, core.InstanceID, core.JobID) error {
	return func(ctx context.Context, to core.InstanceID, id core.JobID) error {
		return unsent(b.Send(ctx, to, kindCancelWaiting, cancelTTL, cancelMessage{id}))
	}
}

// offerSender returns what sends an offer to the instance on which the request waits.
func offerSender(b *bus.Bus) func(context.Context, core.InstanceID, dispatch.WaitOffer) error {
	return func(ctx context.Context, to core.InstanceID, o dispatch.WaitOffer) error {
		return unsent(b.Send(ctx, to, kindOffer, fairqueue.OfferMS*time.Millisecond, o))
	}
}

// unsent is the error of a message that was certainly not sent as dispatch knows it.
func unsent(err error) error {
	switch {
	case errors.Is(err, bus.ErrAbsent):
		return dispatch.ErrInstanceAbsent
	case errors.Is(err, bus.ErrFull):
		return dispatch.ErrInboxFull
	}
	return err
}

// messageHandlers returns the handlers of the messages of other instances.
func messageHandlers(s *Scheduler) map[bus.Kind]bus.Handler {
	handlers := s.nodeConns.Handlers(s.Jobs)
	maps.Copy(handlers, s.Sessions.Handlers())
	handlers[kindOffer] = bus.Handler{Handle: bus.Decoding(func(_ context.Context, _ *bus.Message, o *dispatch.WaitOffer) error {
		s.Jobs.ReceiveOffer(*o)
		return nil
	})}
	cancelled := bus.Decoding(func(ctx context.Context, _ *bus.Message, m *cancelMessage) error {
		return s.Jobs.CancelWaitingHere(ctx, m.Job)
	})
	handlers[kindCancelWaiting] = bus.Handler{Async: true, Handle: cancelled}
	return handlers
}
