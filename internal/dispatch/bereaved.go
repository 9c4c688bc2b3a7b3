package dispatch

import (
	"context"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pause"
)

// kindBereaved is a lease whose dispatcher is gone.
const kindBereaved = "bereaved"

// Bereaved takes on the jobs of an instance that is gone: every node's lease set is looked through for what that instance
// has reserved. A job whose node has confirmed it is watched from here; any other is moved on as its own dispatcher would
// have done.
func (d *Dispatcher) Bereaved(ctx context.Context, gone core.InstanceID) error {
	nodes, err := d.store.Nodes(ctx)
	if err != nil {
		return err
	}
	prefix := string(gone) + "."
	for _, n := range nodes {
		leases, err := d.store.Orphans(ctx, n.Node.ID)
		if err != nil {
			return err
		}
		for _, l := range leases {
			if !strings.HasPrefix(string(l.Token), prefix) {
				continue
			}
			d.metrics.Orphans.WithLabelValues(kindBereaved).Inc()
			if err := d.adopt(ctx, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// adopt takes on one job of an instance that is gone.
func (d *Dispatcher) adopt(ctx context.Context, l core.Lease) error {
	job, err := d.store.Get(ctx, l.Job)
	if err == nil && current(job, &l) && job.State == core.StateDispatched {
		// Its dispatcher had its time to hear the confirmation: whether there is one is looked at now.
		f := d.resume(job).f
		f.wait(job.Token, phaseACK, time.Now(), d.dueFunc(f))
		d.metrics.Takeovers.WithLabelValues("job").Inc()
		return nil
	}
	l.Young = false // whoever reserved it will not come back to it
	if err == nil && job.State == core.StateRetrying {
		// It is its owner's until its time is over, whether or not that owner lives.
		d.background(func(ctx context.Context) {
			if pause.For(ctx, retryLease) {
				if err := d.moveOn(ctx, l, cause{reason: job.Reason}); err != nil {
					d.storeFailed(kindBereaved, err) // a heartbeat of its node brings it up again
				}
			}
		})
		return nil
	}
	return d.moveOn(ctx, l, cause{reason: core.ReasonNodeLost})
}
