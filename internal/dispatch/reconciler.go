package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Kinds of leases that the reconciler handles, metric labels.
const (
	kindOrphan   = telemetry.LeaseOrphan
	kindOverdue  = telemetry.LeaseOverdue
	kindStray    = telemetry.LeaseStray
	kindRebound  = telemetry.LeaseRebound
	kindTakeover = telemetry.LeaseTakeover
)

// Reconciler moves or ends jobs whose lease, node or instance was lost, and tells nodes which of their jobs to stop. Every
// step is idempotent and may be made by several instances.
type Reconciler struct {
	runner *runner
	store  *storeClient
}

func newReconciler(r *runner) *Reconciler { return &Reconciler{runner: r, store: r.store} }

// MoveOrphans moves the jobs of leases whose node no longer has them, in the background: a heartbeat does not wait for it.
func (c *Reconciler) MoveOrphans(leases []core.Lease) {
	c.moveInBackground(leases, kindOrphan, attemptFailure{reason: core.ReasonNodeLost, freeSlot: true})
}

// MoveOverdue moves the jobs of leases that are past the deadline of their attempt, in the background.
func (c *Reconciler) MoveOverdue(leases []core.Lease) {
	c.moveInBackground(leases, kindOverdue, attemptFailure{reason: core.ReasonAttemptTimeout})
}

func (c *Reconciler) moveInBackground(leases []core.Lease, kind string, f attemptFailure) {
	for _, l := range leases {
		c.count(kind)
		c.runner.tasks.Go(func(ctx context.Context) {
			if _, err := c.moveJob(ctx, l, f); err != nil {
				c.store.RecordError(kind, err) // the next heartbeat returns the lease again
			}
		})
	}
}

func (c *Reconciler) count(kind string) { c.runner.metrics.Orphans.WithLabelValues(kind).Inc() }

// MoveJobsOfNode moves every job of a lost node and returns how many it moved. It returns when all are decided or an error
// occurs.
func (c *Reconciler) MoveJobsOfNode(ctx context.Context, node core.NodeID) (moved int, err error) {
	leases, err := c.store.Orphans(ctx, node)
	if err != nil {
		return 0, err
	}
	for _, l := range leases {
		c.count(kindOrphan)
		// Its slot is not freed: the node may come back at any time, grantable, and still have the job.
		didMove, err := c.moveJob(ctx, l, attemptFailure{reason: core.ReasonNodeLost})
		if err != nil {
			return moved, err
		}
		if didMove {
			moved++
		}
	}
	return moved, nil
}

// moveJob gives the job of a lease to another node, if the lease is still the job's current one. Otherwise it revokes the
// lease, which was kept only in case the node still had the job. It reports whether it moved the job.
func (c *Reconciler) moveJob(ctx context.Context, l core.Lease, f attemptFailure) (moved bool, err error) {
	r := c.runner
	job, err := c.store.Get(ctx, l.Job)
	if err != nil && !errors.Is(err, store.ErrNoJob) {
		return false, err
	}
	if err != nil || job.State.Terminal() || !isCurrent(job, &l) {
		if l.Young {
			return false, nil // its record is about to be written, or its dispatcher is about to release it
		}
		if err == nil && job.State.Terminal() {
			if err := r.reportOutcome(ctx, job, time.Time{}); err != nil { // the instance that decided it may have died before it could
				return false, err
			}
		}
		// A parked lease is removed; the lease of a node that may still have the job stays until the node stops listing it.
		return false, c.store.Revoke(ctx, l.LeaseRef)
	}
	f.freeSlot = f.freeSlot && !l.Young // it may be on its way to the node

	j := r.resume(job)
	switch {
	case job.State != core.StateRetrying:
		if !j.endAttempt(ctx, f) {
			return false, nil
		}
	case waitsForAudio(job) || r.cfg.HasAudio(job):
		j.owner = r.tokens.next()
		if !j.takeOverRetry(ctx, j.owner, retryLease) {
			if f.freeSlot {
				// Its owner is alive and selects a node. This node does not have the job, so it may be selected.
				r.slots.release(l.LeaseRef, r.fleet.Node(l.Node), true)
			}
			return false, nil
		}
		freeSlot := f.freeSlot
		f = lastFailure(job)
		f.freeSlot = freeSlot
		if waitsForAudio(job) {
			j.failJob(ctx, f, core.ReasonAudioLost) // the audio did not come
			return true, nil
		}
		if !j.entry.beginSelection(j.job) {
			return false, nil
		}
	default:
		if !j.apply(ctx, store.ApplyParams{
			Event: core.EventTakeover, Holder: j.retryHolder(), Owner: audioOwner, RetryFor: r.cfg.AudioGrace, Suspends: true,
		}) {
			return false, nil
		}
		r.waitForAudio(ctx, j.job)
		return true, nil
	}
	r.tasks.Go(func(ctx context.Context) { j.continueElsewhere(ctx, f) })
	return true, nil
}

// isCurrent reports whether a lease is that of its job's current attempt. A lease that was adopted from a node's list has no
// token.
func isCurrent(job *core.Job, l *core.Lease) bool {
	return job.Node == l.Node && job.Attempt == l.Attempt && (l.Token == "" || job.Token == l.Token)
}

// ResolveStrays decides about jobs that a node lists without a lease, and returns those that the node should stop: jobs whose
// record does not name the node, and jobs without a record, unless the store is too young to have one. A job whose record names the node
// in an earlier epoch is moved to the current one.
func (c *Reconciler) ResolveStrays(ctx context.Context, epoch core.Epoch, leases []core.Lease, young bool) []store.ActiveJob {
	var stop []store.ActiveJob
	for _, l := range leases {
		job, err := c.store.Get(ctx, l.Job)
		switch {
		case err == nil && !job.State.Terminal() && isCurrent(job, &l):
			// The ledger lost the lease, the record is there.
			if job.Epoch != epoch {
				c.rebind(ctx, epoch, &l)
			}
			continue
		case errors.Is(err, store.ErrNoJob) && young:
			continue
		case err != nil && !errors.Is(err, store.ErrNoJob):
			c.store.RecordError(kindStray, err)
			continue
		}
		c.count(kindStray)
		if err == nil && job.State == core.StateDone && isCurrent(job, &l) {
			// The node has finished: its list was written before it received the acknowledgement of its result.
			c.runner.slots.release(l.LeaseRef, c.runner.fleet.Node(l.Node), false)
			continue
		}
		if err := c.store.Revoke(ctx, l.LeaseRef); err != nil {
			c.store.RecordError(kindStray, err)
			continue
		}
		stop = append(stop, store.ActiveJob{Job: l.Job, Attempt: l.Attempt})
	}
	return stop
}

// rebind moves a job that a node lists without a lease to the node's current epoch. If it fails, the next heartbeat lists it again.
func (c *Reconciler) rebind(ctx context.Context, epoch core.Epoch, l *core.Lease) {
	applied, err := c.store.Apply(ctx, rebindParams(epoch, l))
	switch {
	case err != nil:
		c.store.RecordError("rebind", err)
	case applied.Outcome.Stands():
		c.count(kindRebound)
		if f := c.runner.inFlight.get(l.Job); f != nil {
			f.setRebound(applied.Job)
		}
	}
}

// rebindParams is the step by which a job moves to the current epoch of its node.
func rebindParams(epoch core.Epoch, l *core.Lease) store.ApplyParams {
	return store.ApplyParams{
		Job: l.Job, Event: core.EventRebind,
		Holder: core.Holder{Attempt: l.Attempt, Node: l.Node},
		To:     core.Holder{Attempt: l.Attempt, Node: l.Node, Epoch: epoch},
	}
}

// RestoreRecords writes the records of all in-flight jobs again that the store has lost, in the background: the store was emptied.
func (c *Reconciler) RestoreRecords() {
	c.runner.tasks.Go(func(ctx context.Context) {
		var jobs []core.JobID
		c.runner.inFlight.each(func(f *inFlightJob) { jobs = append(jobs, f.id) })
		run.ForEach(takeoverWorkers, jobs, func(id core.JobID) {
			c.store.Retry(ctx, func() error {
				_, err := c.store.Get(ctx, id)
				if errors.Is(err, store.ErrNoJob) {
					c.runner.restoreRecord(ctx, id)
					return nil
				}
				return err
			})
		})
	})
}

// RebindJobs moves the jobs that a node kept over a new registration to its new epoch, and returns those that the node should
// stop because it no longer holds them.
func (c *Reconciler) RebindJobs(ctx context.Context, epoch core.Epoch, leases []core.Lease) ([]store.ActiveJob, error) {
	var stop []store.ActiveJob
	for _, l := range leases {
		applied, err := c.store.Apply(ctx, rebindParams(epoch, &l))
		if err != nil {
			c.store.RecordError("rebind", err)
			return nil, store.CallError(ctx)
		}
		if applied.Outcome.Stands() && applied.Job.Token == l.Token {
			c.count(kindRebound)
			if f := c.runner.inFlight.get(l.Job); f != nil {
				f.setRebound(applied.Job)
			}
			continue
		}
		if err := c.store.Revoke(ctx, l.LeaseRef); err != nil {
			c.store.RecordError("rebind", err)
			return nil, store.CallError(ctx)
		}
		stop = append(stop, store.ActiveJob{Job: l.Job, Attempt: l.Attempt})
	}
	return stop, nil
}

const (
	takeoverBatch   = 512 // nodes whose leases are read together
	takeoverWorkers = 8   // leases that are handled concurrently
)

// TakeOverJobs takes over the jobs of a dead instance, which it finds in the lease sets of all nodes. A job that its node has
// acknowledged is followed by this instance from now on; any other is moved, as its own dispatcher would have done.
func (c *Reconciler) TakeOverJobs(ctx context.Context, dead core.InstanceID) error {
	all, err := c.store.Overdue(ctx, 0)
	if err != nil {
		return err
	}
	ids := make([]core.NodeID, len(all.Nodes))
	for i := range all.Nodes {
		ids[i] = all.Nodes[i].Node
	}
	for batch := range slices.Chunk(ids, takeoverBatch) {
		leases, err := c.store.Orphans(ctx, batch...)
		if err != nil {
			return err
		}
		var failed atomic.Pointer[error]
		run.ForEach(takeoverWorkers, leases, func(l core.Lease) {
			if failed.Load() != nil {
				return
			}
			if err := c.takeOverJob(ctx, l, dead); err != nil {
				failed.Store(&err)
			}
		})
		if err := failed.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// takeOverJob takes over the job of a lease, if the dead instance ran it.
func (c *Reconciler) takeOverJob(ctx context.Context, l core.Lease, dead core.InstanceID) error {
	job, err := c.store.Get(ctx, l.Job)
	if err != nil && !errors.Is(err, store.ErrNoJob) {
		return err
	}
	retrying := err == nil && job.State == core.StateRetrying
	if !issuedBy(l.Token, dead) && (!retrying || !issuedBy(job.Owner, dead)) {
		return nil
	}
	c.count(kindTakeover)
	switch {
	case retrying:
		c.runner.tasks.Go(func(ctx context.Context) { c.moveWhenRetryExpires(ctx, l, job) })
		return nil
	case err == nil && isCurrent(job, &l) && job.State == core.StateDispatched:
		// The ACK timeout of its dispatcher has passed: whether there is an ACK is checked now.
		f := c.runner.resume(job).entry
		f.arm(job.Token, phaseACK, time.Now(), c.runner.timerFunc(f))
		c.runner.metrics.Takeovers.WithLabelValues(telemetry.TakeoverJob).Inc()
		return nil
	}
	l.Young = false // the instance that reserved it is gone
	_, err = c.moveJob(ctx, l, attemptFailure{reason: core.ReasonNodeLost})
	return err
}

// moveWhenRetryExpires waits until a retry has expired, whether or not its owner is alive, and then moves the job.
func (c *Reconciler) moveWhenRetryExpires(ctx context.Context, l core.Lease, job *core.Job) {
	l.Young = false
	for wait := job.Retry.Sub(job.Updated); ; wait = retryLease {
		if !run.SleepJitter(ctx, wait+retryLease/10, 0.1) {
			return
		}
		current, err := c.store.Get(ctx, job.ID)
		switch {
		case errors.Is(err, store.ErrNoJob), err == nil && (current.State != core.StateRetrying || current.Owner != job.Owner):
			return // another instance has taken it over
		case err == nil:
			_, err = c.moveJob(ctx, l, attemptFailure{reason: job.Reason})
		}
		if err != nil {
			c.store.RecordError(kindTakeover, err)
		}
	}
}
