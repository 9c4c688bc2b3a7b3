package scheduler

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fairqueue"
)

// kindOffer is a slot that is offered to a request that waits on another instance.
const kindOffer bus.Kind = "wait_offer"

// offerSender returns what sends an offer to the instance on which the request waits.
func offerSender(b *bus.Bus) func(context.Context, core.InstanceID, dispatch.WaitOffer) error {
	return func(ctx context.Context, to core.InstanceID, o dispatch.WaitOffer) error {
		err := b.Send(ctx, to, kindOffer, fairqueue.OfferMS*time.Millisecond, o)
		switch {
		case errors.Is(err, bus.ErrAbsent):
			return dispatch.ErrInstanceAbsent
		case errors.Is(err, bus.ErrFull):
			return dispatch.ErrInboxFull
		}
		return err
	}
}

// messageHandlers returns the handlers of the messages of other instances.
func messageHandlers(s *Scheduler) map[bus.Kind]bus.Handler {
	handlers := s.nodeConns.Handlers(s.Jobs)
	maps.Copy(handlers, s.Sessions.Handlers())
	handlers[kindOffer] = bus.Handler{Handle: bus.Decoding(func(_ context.Context, _ *bus.Message, o *dispatch.WaitOffer) error {
		s.Jobs.ReceiveOffer(*o)
		return nil
	})}
	return handlers
}
