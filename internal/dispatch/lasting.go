package dispatch

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// persist asks the store until it answers or the context ends. Every operation may be repeated.
func (d *Dispatcher) persist(ctx context.Context, ask func() error) bool {
	return storeBackoff.Retry(ctx, func() error {
		err := ask()
		if err != nil {
			d.storeFailed("persist", err)
		}
		return err
	})
}

// storeFailed counts and logs that the store did not answer.
func (d *Dispatcher) storeFailed(operation string, err error) {
	d.failed.Store(time.Now().UnixNano())
	d.metrics.StoreErrors.WithLabelValues(operation).Inc()
	d.log.Warn("the store did not answer", "operation", operation, "error", err)
}

// release frees a slot. If the store does not answer at once it is tried again beside the caller: nobody
// waits for a release.
func (d *Dispatcher) release(ref core.LeaseRef, n *fleet.Node, park bool) {
	p := store.ReleaseParams{Lease: ref, Park: park}
	if n != nil {
		p.Handle = n.Handle()
	}
	if err := d.free(d.life, p, n); err != nil {
		d.storeFailed("release", err)
		d.background(func(ctx context.Context) { d.persist(ctx, func() error { return d.free(ctx, p, n) }) })
	}
}

func (d *Dispatcher) free(ctx context.Context, p store.ReleaseParams, n *fleet.Node) error {
	err := d.store.Release(ctx, p)
	if err == nil && n != nil {
		d.fleet.ObserveRelease(n)
		d.FreeSlots(n)
	}
	return err
}
