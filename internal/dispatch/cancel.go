package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// CancelledWait is a request that was cancelled while it waited for a slot.
type CancelledWait struct {
	Job          core.JobID
	Tenant       core.TenantID
	Direction    core.Direction
	Since, Until time.Time // when it began to wait, and when it would have given up
}

// CancelWaiting cancels a request that waits, on whichever instances it does. A tenant cancels only its own requests; nil: any. It returns
// nil if no such request waits.
func (d *Dispatcher) CancelWaiting(ctx context.Context, id core.JobID, tenant *core.TenantID) (*CancelledWait, error) {
	var found *CancelledWait
	if c := d.waitingHere(id); c != nil && (tenant == nil || *tenant == c.Tenant) {
		found = &CancelledWait{id, c.Tenant, c.Direction, c.Wait.Since, c.Wait.Until}
		if err := d.cancelHere(ctx, id); err != nil {
			return nil, err
		}
	}
	elsewhere, err := d.Waiting.Find(ctx, id, tenant)
	if err != nil {
		return nil, err
	}
	for _, w := range elsewhere {
		switch err := d.cfg.Bus.Send(ctx, w.Instance, kindCancelWaiting, cancelTTL, cancelMessage{id}); {
		case errors.Is(err, bus.ErrAbsent): // the request ended with its instance
		case errors.Is(err, bus.ErrFull):
			e := wire.Errorf(wire.RateLimited, "the instance on which the request waits has too many messages to read: try again")
			return nil, e.RetryIn(time.Second)
		case err != nil:
			d.store.RecordError("cancel_waiting", err)
			return nil, store.CallError(ctx)
		default:
			found = &CancelledWait{id, w.Tenant, w.Direction, w.Since, w.Until}
		}
	}
	return found, nil
}

// kindCancelWaiting is the kind of the message that cancels a request which waits on another instance.
const kindCancelWaiting bus.Kind = "wait_cancel"

// cancelTTL is how long the cancellation of a request that waits is of use: the operator who repeats it gets another answer by then.
const cancelTTL = 10 * time.Second

type cancelMessage struct {
	Job core.JobID `json:"job"`
}

// Handlers returns the handlers of the messages of other instances.
func (d *Dispatcher) Handlers() map[bus.Kind]bus.Handler {
	handlers := d.Waiting.Handlers()
	handlers[kindCancelWaiting] = bus.Handler{Async: true, Handle: bus.Decoding(
		func(ctx context.Context, _ *bus.Message, m *cancelMessage) error { return d.cancelHere(ctx, m.Job) })}
	return handlers
}

// cancelHere cancels a request that waits on this instance, or the job that it has become meanwhile.
func (d *Dispatcher) cancelHere(ctx context.Context, id core.JobID) error {
	if c := d.waitingHere(id); c != nil {
		c.cancel(wire.Errorf(wire.Cancelled, "the request was cancelled while it waited for a slot"))
	}
	return d.cancelJobIfAny(ctx, id)
}

// waitingHere returns the request of a job that waits on this instance; nil: none does.
func (d *Dispatcher) waitingHere(id core.JobID) *call {
	waiting, _ := d.cancellable.Load(id)
	c, _ := waiting.(*call)
	return c
}

// cancelPlaced cancels the job of a request that was cancelled while it was placed.
func (d *Dispatcher) cancelPlaced(id core.JobID) {
	d.tasks.Go(func(ctx context.Context) {
		ctx, stop := context.WithTimeout(ctx, d.cfg.JobTimeout)
		defer stop()
		d.store.Retry(ctx, func() error { return d.cancelJobIfAny(ctx, id) })
	})
}

// cancelJobIfAny cancels a job, if there is one.
func (d *Dispatcher) cancelJobIfAny(ctx context.Context, id core.JobID) error {
	_, _, err := d.Cancel(ctx, id)
	var e *wire.Error
	if errors.As(err, &e) && e.Code == wire.NotFound {
		return nil
	}
	return err
}

// beginCancellable lets a request be cancelled from now on, because it has to wait.
func (d *Dispatcher) beginCancellable(c *call) {
	if c.cancel == nil {
		c.ctx, c.cancel = context.WithCancelCause(c.ctx)
		d.cancellable.Store(c.id, c)
	}
}

// endWait ends the wait of a request, if it has waited. A job that it has become is cancelled if the request was.
func (d *Dispatcher) endWait(c *call, placed bool) {
	c.ticket.Leave()
	c.count.Release()
	if c.cancel == nil {
		return
	}
	d.cancellable.CompareAndDelete(c.id, c) // from now on its job is found
	if placed && c.ctx.Err() != nil && c.gaveUp().Code == wire.Cancelled {
		d.cancelPlaced(c.id)
	}
	c.cancel(nil)
}
