package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/waiting"
	"github.com/lingua-scheduler/lingua/wire"
)

// CancelWaiting cancels a request that waits, on whichever instances it does. A tenant cancels only its own requests; nil: any. It returns
// nil if no such request waits.
func (d *Dispatcher) CancelWaiting(ctx context.Context, id core.JobID, tenant *core.TenantID) (*waiting.Found, error) {
	var found *waiting.Found
	if c := d.cancels.find(id); c != nil && (tenant == nil || *tenant == c.Tenant) {
		found = &waiting.Found{Job: id, Tenant: c.Tenant, Direction: c.Direction, Since: c.Wait.Since, Until: c.Wait.Until}
		if err := d.cancels.cancel(ctx, id); err != nil {
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
			found = &w
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
		func(ctx context.Context, _ *bus.Message, m *cancelMessage) error { return d.cancels.cancel(ctx, m.Job) })}
	return handlers
}

// cancellations has the requests of this instance that wait, so that they can be cancelled.
type cancellations struct {
	runner *runner
	calls  sync.Map // by job: each is a *call
}

// begin lets a request be cancelled from now on, because it has to wait.
func (w *cancellations) begin(c *call) {
	if c.cancel == nil {
		c.ctx, c.cancel = context.WithCancelCause(c.ctx)
		w.calls.Store(c.id, c)
	}
}

// end ends that. A job that the request has become is cancelled if the request was.
func (w *cancellations) end(c *call, placed bool) {
	if c.cancel == nil {
		return
	}
	w.calls.CompareAndDelete(c.id, c) // from now on its job is found
	if placed && c.ctx.Err() != nil && c.gaveUp().Code == wire.Cancelled {
		w.runner.tasks.Go(func(ctx context.Context) {
			ctx, stop := context.WithTimeout(ctx, w.runner.cfg.JobTimeout)
			defer stop()
			w.runner.store.Retry(ctx, func() error { return w.cancelJob(ctx, c.id) })
		})
	}
	c.cancel(nil)
}

// find returns the request of a job that waits here; nil: none does.
func (w *cancellations) find(id core.JobID) *call {
	found, _ := w.calls.Load(id)
	c, _ := found.(*call)
	return c
}

// cancel cancels a request that waits here, or the job that it has become meanwhile.
func (w *cancellations) cancel(ctx context.Context, id core.JobID) error {
	if c := w.find(id); c != nil {
		c.cancel(wire.Errorf(wire.Cancelled, "the request was cancelled while it waited for a slot"))
	}
	return w.cancelJob(ctx, id)
}

// cancelJob cancels a job, if there is one.
func (w *cancellations) cancelJob(ctx context.Context, id core.JobID) error {
	_, _, err := w.runner.endJob(ctx, id, core.EventCancel, core.ReasonCancelled)
	var e *wire.Error
	if errors.As(err, &e) && e.Code == wire.NotFound {
		return nil
	}
	return err
}
