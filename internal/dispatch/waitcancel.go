package dispatch

import (
	"context"
	"errors"
	"time"

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
	if x := d.waitingHere(id); x != nil && (tenant == nil || *tenant == x.request.Tenant) {
		found = &CancelledWait{id, x.request.Tenant, x.request.Direction, x.wait.Since, x.wait.Until}
		if err := d.CancelWaitingHere(ctx, id); err != nil {
			return nil, err
		}
	}
	queues, err := d.snapshots.get(ctx)
	if err != nil {
		return nil, store.CallError(ctx)
	}
	v := newWaitingViewer(&WaitingParams{Tenant: tenant}, queues)
	for _, w := range v.listed {
		owner := core.InstanceID(w.waiter.Instance)
		if WaiterJob(w.waiter) != id || owner == d.cfg.Instance {
			continue
		}
		switch err := d.cfg.SendCancel(ctx, owner, id); {
		case errors.Is(err, ErrInstanceAbsent): // the request ended with its instance
		case errors.Is(err, ErrInboxFull):
			e := wire.Errorf(wire.RateLimited, "the instance on which the request waits has too many messages to read: try again")
			return nil, e.RetryIn(time.Second)
		case err != nil:
			d.store.RecordError("cancel_waiting", err)
			return nil, store.CallError(ctx)
		default:
			found = &CancelledWait{
				id, core.TenantID(w.waiter.Tenant), v.classes[w.class].Direction, time.UnixMilli(w.waiter.Since),
				time.UnixMilli(w.waiter.Deadline),
			}
		}
	}
	return found, nil
}

// CancelWaitingHere cancels a request that waits on this instance, or the job that it has become meanwhile.
func (d *Dispatcher) CancelWaitingHere(ctx context.Context, id core.JobID) error {
	if x := d.waitingHere(id); x != nil {
		x.cancel(wire.Errorf(wire.Cancelled, "the request was cancelled while it waited for a slot"))
	}
	return d.cancelJobIfAny(ctx, id)
}

// waitingHere returns the request of a job that waits on this instance; nil: none does.
func (d *Dispatcher) waitingHere(id core.JobID) *waitingRequest {
	x, _ := d.cancellable.Load(id)
	w, _ := x.(*waitingRequest)
	return w
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

// cancellable lets the request be cancelled from now on, because it has to wait.
func (x *waitingRequest) cancellable(id core.JobID) {
	if x.cancel == nil {
		x.ctx, x.cancel = context.WithCancelCause(x.ctx)
		x.d.cancellable.Store(id, x)
	}
}

// notCancellable ends that. A job that it has become is cancelled if the request was.
func (x *waitingRequest) notCancellable(id core.JobID, placed bool) {
	if x.cancel == nil {
		return
	}
	x.d.cancellable.CompareAndDelete(id, x) // from now on its job is found
	if placed && x.ctx.Err() != nil && x.gaveUp().Code == wire.Cancelled {
		x.d.cancelPlaced(id)
	}
	x.cancel(nil)
}

// gaveUp returns why the request does not wait any more: it was cancelled, or its caller has left.
func (x *waitingRequest) gaveUp() *wire.Error {
	var e *wire.Error
	if errors.As(context.Cause(x.ctx), &e) {
		return e
	}
	return store.CallError(x.ctx)
}
