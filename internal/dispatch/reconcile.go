package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Kinds of leases that do not fit what their node says.
const (
	kindOrphan  = "orphan"  // the node does not have the job
	kindOverdue = "overdue" // the attempt is past its deadline
	kindStray   = "stray"   // the node has a job that nobody gave it, or not any more
	kindRebound = "rebound" // the node registered again and still has the job
)

// Orphaned moves on the jobs of leases whose node does not have them any more. It does so beside the
// caller: whoever sent a heartbeat does not wait for it.
func (d *Dispatcher) MoveOrphans(leases []core.Lease) {
	d.each(leases, kindOrphan, cause{reason: core.ReasonNodeLost, freed: true})
}

// Overdue moves on the jobs of leases that are past their attempt's deadline.
func (d *Dispatcher) MoveOverdue(leases []core.Lease) {
	d.each(leases, kindOverdue, cause{reason: core.ReasonAttemptTimeout})
}

func (d *Dispatcher) each(leases []core.Lease, kind string, c cause) {
	for _, l := range leases {
		d.metrics.Orphans.WithLabelValues(kind).Inc()
		d.background(func(ctx context.Context) {
			if _, err := d.moveOn(ctx, l, c); err != nil {
				d.storeFailed(kind, err) // the next heartbeat brings it up again
			}
		})
	}
}

// Lost moves on every job of a node that is gone, and says how many it moved. It returns when all are decided or an error
// came between.
func (d *Dispatcher) MoveJobsOfNode(ctx context.Context, node core.NodeID) (moved int, err error) {
	leases, err := d.store.Orphans(ctx, node)
	if err != nil {
		return 0, err
	}
	for _, l := range leases {
		d.metrics.Orphans.WithLabelValues(kindOrphan).Inc()
		// Its slot is not freed: the node may be heard again any moment, and grantable, with the job still in its hands.
		did, err := d.moveOn(ctx, l, cause{reason: core.ReasonNodeLost})
		if err != nil {
			return moved, err
		}
		if did {
			moved++
		}
	}
	return moved, nil
}

// moveOn gives the job of a lease to another node, if the job is still the lease's. A lease that its job
// has left is released: it was kept only in case the node still had the job. It reports whether it moved the job.
func (d *Dispatcher) moveOn(ctx context.Context, l core.Lease, c cause) (moved bool, err error) {
	job, err := d.store.Get(ctx, l.Job)
	if err != nil && !errors.Is(err, store.ErrNoJob) {
		return false, err
	}
	if err != nil || job.State.Terminal() || !current(job, &l) {
		if l.Young {
			return false, nil // its record is still to come, or its dispatcher is about to give it back
		}
		if err == nil && job.State.Terminal() {
			if err := d.tell(ctx, job); err != nil { // whoever decided it may have died before it could
				return false, err
			}
		}
		// A parked one goes; one that its node may yet turn up with stays until the node lets go of it.
		return false, d.store.Revoke(ctx, l.LeaseRef)
	}
	c.freed = c.freed && !l.Young // it may be on its way to the node

	j := d.resume(job)
	switch {
	case job.State != core.StateRetrying:
		if !j.giveUp(ctx, c) {
			return false, nil
		}
	case awaitsSound(job) || d.cfg.HasAudio(job):
		j.owner = d.token()
		if !j.takeOver(ctx, j.owner, retryLease) {
			if c.freed {
				// Its owner is alive and looks for a node. This one does not have the job, so it may be the one that is found.
				d.release(l.LeaseRef, d.fleet.Node(l.Node), true)
			}
			return false, nil
		}
		c.reason = job.Reason
		if awaitsSound(job) {
			j.end(ctx, c, core.ReasonAudioLost) // nobody has brought it
			return true, nil
		}
		if !j.f.seek(j.job) {
			return false, nil
		}
	default:
		if !j.apply(ctx, store.ApplyParams{
			Event: core.EventTakeover, Holder: j.waiting(), Owner: soundOwner, RetryFor: d.cfg.AudioGrace, Suspends: true,
		}) {
			return false, nil
		}
		d.awaitSound(ctx, j.job)
		return true, nil
	}
	d.background(func(ctx context.Context) { j.proceed(ctx, c) })
	return true, nil
}

// takeOver makes a retry somebody's whose owner's time is over, and reports whether it was.
func (j *journey) takeOver(ctx context.Context, owner core.Token, lasts time.Duration) bool {
	return j.apply(ctx, store.ApplyParams{Event: core.EventTakeover, Holder: j.waiting(), Owner: owner, RetryFor: lasts})
}

// current reports whether a lease is that of its job's current attempt. One that was adopted from a node's
// list carries no token.
func current(job *core.Job, l *core.Lease) bool {
	return job.Node == l.Node && job.Attempt == l.Attempt && (l.Token == "" || job.Token == l.Token)
}

// Strays judges jobs that a node lists although nobody gave them to it, as far as the ledger knows. What
// the records do not know either is stopped, unless the store is too young to know.
func (d *Dispatcher) ResolveStrays(ctx context.Context, leases []core.Lease, young bool) []store.ActiveJob {
	var stop []store.ActiveJob
	for _, l := range leases {
		job, err := d.store.Get(ctx, l.Job)
		switch {
		case err == nil && !job.State.Terminal() && current(job, &l):
			continue // the ledger forgot it, the record did not
		case errors.Is(err, store.ErrNoJob) && young:
			continue
		case err != nil && !errors.Is(err, store.ErrNoJob):
			d.storeFailed(kindStray, err)
			continue
		}
		d.metrics.Orphans.WithLabelValues(kindStray).Inc()
		if err == nil && job.State == core.StateDone && current(job, &l) {
			// The node has finished: its list was written before it learned that its result had arrived.
			d.release(l.LeaseRef, d.fleet.Node(l.Node), false)
			continue
		}
		if err := d.store.Revoke(ctx, l.LeaseRef); err != nil {
			d.storeFailed(kindStray, err)
			continue
		}
		stop = append(stop, store.ActiveJob{Job: l.Job, Attempt: l.Attempt})
	}
	return stop
}

// Rebind moves the jobs a node kept over a new registration to its new life, and returns those the node
// should stop because they are not its own any more.
func (d *Dispatcher) RebindJobs(ctx context.Context, epoch core.Epoch, leases []core.Lease) ([]store.ActiveJob, error) {
	var stop []store.ActiveJob
	for _, l := range leases {
		applied, err := d.store.Apply(ctx, store.ApplyParams{
			Job: l.Job, Event: core.EventRebind,
			Holder: core.Holder{Attempt: l.Attempt, Node: l.Node},
			To:     core.Holder{Attempt: l.Attempt, Node: l.Node, Epoch: epoch},
		})
		if err != nil {
			d.storeFailed("rebind", err)
			return nil, gone(ctx)
		}
		if applied.Outcome.Stands() && applied.Job.Token == l.Token {
			d.metrics.Orphans.WithLabelValues(kindRebound).Inc()
			if f := d.flights.get(l.Job); f != nil {
				f.rebound(applied.Job)
			}
			continue
		}
		if err := d.store.Revoke(ctx, l.LeaseRef); err != nil {
			d.storeFailed("rebind", err)
			return nil, gone(ctx)
		}
		stop = append(stop, store.ActiveJob{Job: l.Job, Attempt: l.Attempt})
	}
	return stop, nil
}
