package dispatch

import (
	"context"
	"errors"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// CancelWaiting cancels a request that waits for a slot, on whichever instance it is. A tenant cancels only its own requests; nil: any. It
// returns nil if no such request waits.
func (d *Dispatcher) CancelWaiting(ctx context.Context, id core.JobID, tenant *core.TenantID) (*WaitingOne, error) {
	queues, err := d.snapshots.get(ctx)
	if err != nil {
		return nil, storeError(ctx)
	}
	v := newWaitingViewer(&WaitingParams{Tenant: tenant}, queues)
	i := slices.IndexFunc(v.listed, func(w listedWaiter) bool { return WaiterJob(w.waiter) == id })
	if i < 0 {
		return nil, nil //nolint:nilnil // no such request waits
	}
	found := v.one(&v.listed[i])
	if owner := core.InstanceID(found.Instance); owner != d.cfg.Instance {
		err = d.cfg.SendCancel(ctx, owner, id)
	} else {
		err = d.CancelWaitingHere(ctx, id)
	}
	switch {
	case errors.Is(err, ErrInstanceAbsent): // the request ended with its instance
		return nil, nil //nolint:nilnil // no such request waits any more
	case err != nil && ctx.Err() == nil:
		d.store.recordError("cancel_waiting", err)
		return nil, store.Unavailable()
	case err != nil:
		return nil, storeError(ctx)
	}
	return &found, nil
}

// CancelWaitingHere cancels a request that waits on this instance, or the job that it has become meanwhile.
func (d *Dispatcher) CancelWaitingHere(ctx context.Context, id core.JobID) error {
	d.waiters.cancel(id)
	return d.cancelJobIfAny(ctx, id)
}

// cancelPlaced cancels the job of a request that was cancelled while it was placed.
func (d *Dispatcher) cancelPlaced(id core.JobID) {
	d.tasks.Go(func(ctx context.Context) {
		ctx, stop := context.WithTimeout(ctx, d.cfg.JobTimeout)
		defer stop()
		d.store.retry(ctx, func() error { return d.cancelJobIfAny(ctx, id) })
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

// errCancelled is the refusal of a request that was cancelled while it waited.
func errCancelled() *wire.Error {
	return wire.Errorf(wire.Cancelled, "the request was cancelled while it waited for a slot")
}
