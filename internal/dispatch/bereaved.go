package dispatch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/parallel"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// kindBereaved is a lease whose dispatcher is gone.
const kindBereaved = "bereaved"

// Bereaved takes on the jobs of an instance that is gone: every node's lease set is looked through for what that instance
// has reserved. A job whose node has confirmed it is watched from here; any other is moved on as its own dispatcher would
// have done.
func (d *Dispatcher) TakeOverJobs(ctx context.Context, gone core.InstanceID) error {
	seen, err := d.store.LastSeen(ctx)
	if err != nil {
		return err
	}
	ids := make([]core.NodeID, len(seen))
	for i := range seen {
		ids[i] = seen[i].Node
	}
	for some := range slices.Chunk(ids, takeoverBatch) {
		leases, err := d.store.Orphans(ctx, some...)
		if err != nil {
			return err
		}
		var failed atomic.Pointer[error]
		parallel.ForEach(takeoverAtOnce, leases, func(l core.Lease) {
			if failed.Load() != nil {
				return
			}
			if err := d.adopt(ctx, l, gone); err != nil {
				failed.Store(&err)
			}
		})
		if err := failed.Load(); err != nil {
			return *err
		}
	}
	return nil
}

const (
	takeoverBatch  = 512 // nodes whose leases are read together
	takeoverAtOnce = 8   // leases that are looked at at the same time
)

// of reports whether a token was made by an instance.
func of(t core.Token, who core.InstanceID) bool { return strings.HasPrefix(string(t), string(who)+".") }

// adopt takes on the job of a lease, if the instance that is gone was looking after it.
func (d *Dispatcher) adopt(ctx context.Context, l core.Lease, gone core.InstanceID) error {
	job, err := d.store.Get(ctx, l.Job)
	if err != nil && !errors.Is(err, store.ErrNoJob) {
		return err
	}
	retrying := err == nil && job.State == core.StateRetrying
	if !of(l.Token, gone) && (!retrying || !of(job.Owner, gone)) {
		return nil
	}
	d.metrics.Orphans.WithLabelValues(kindBereaved).Inc()
	switch {
	case retrying:
		d.background(func(ctx context.Context) { d.outlast(ctx, l, job) })
		return nil
	case err == nil && current(job, &l) && job.State == core.StateDispatched:
		// Its dispatcher had its time to hear the confirmation: whether there is one is looked at now.
		f := d.resume(job).f
		f.wait(job.Token, phaseACK, time.Now(), d.dueFunc(f))
		d.metrics.Takeovers.WithLabelValues("job").Inc()
		return nil
	}
	l.Young = false // whoever reserved it will not come back to it
	_, err = d.moveOn(ctx, l, cause{reason: core.ReasonNodeLost})
	return err
}

// outlast waits until a retry is nobody's any more, whether or not its owner lives, and then goes on with it.
func (d *Dispatcher) outlast(ctx context.Context, l core.Lease, job *core.Job) {
	l.Young = false
	for wait := job.Retry.Sub(job.Updated); ; wait = retryLease {
		if !backoff.SleepJitter(ctx, wait+retryLease/10, 0.1) {
			return
		}
		now, err := d.store.Get(ctx, job.ID)
		switch {
		case errors.Is(err, store.ErrNoJob), err == nil && (now.State != core.StateRetrying || now.Owner != job.Owner):
			return // somebody has taken it on
		case err == nil:
			_, err = d.moveOn(ctx, l, cause{reason: job.Reason})
		}
		if err != nil {
			d.storeFailed(kindBereaved, err)
		}
	}
}
