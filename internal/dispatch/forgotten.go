package dispatch

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Kinds of what a store can forget when it loses its last moments.
const (
	forgotRecord = "record"
	forgotLease  = "lease"
)

// restore writes the record of a job that this instance is seeing through, and that the store does not know: a
// failover has forgotten it. It reports whether a record stands now. What happened in earlier attempts is lost.
func (d *Dispatcher) restore(ctx context.Context, id core.JobID) bool {
	f := d.flights.get(id)
	if f == nil {
		return false
	}
	left := time.Until(f.deadline)
	if left <= 0 {
		return false // it was not forgotten, its time is over
	}
	job := f.snapshot()
	d.metrics.StoreLost.WithLabelValues(forgotRecord).Inc()
	d.log.Warn("the store has forgotten a job in flight; its record is written again", "job_id", id, "node_id", job.Node, "attempt_id", job.Attempt)
	if _, _, err := d.store.Create(ctx, store.CreateParams{
		ID: id, Spec: job.Spec, Fingerprint: job.Fingerprint, Holder: job.Holder, Token: job.Token, Timeout: left,
	}); err != nil {
		d.storeFailed("restore", err)
		return false
	}
	if job.State != core.StateRetrying {
		return true
	}
	_, err := d.store.Apply(ctx, store.ApplyParams{
		Job: id, Event: core.EventRetry, Holder: job.Holder, Owner: job.Owner, RetryFor: retryLease, Reason: job.Reason, Detail: job.Detail,
	})
	if err != nil {
		d.storeFailed("restore", err)
	}
	return err == nil
}

// recommit takes the confirmation of a job whose lease does not live. The record decides who has the job: if it is
// whoever confirms, the ledger has forgotten the lease or let it lapse, and the slot is taken again if it can be.
func (d *Dispatcher) recommit(ctx context.Context, r *Report, seen *core.Job) error {
	job, err := d.store.Get(ctx, r.Job)
	if err != nil {
		return d.unread(ctx, "ack", r, err)
	}
	if !holds(job, r) || job.State != core.StateDispatched || job.Token != seen.Token {
		return d.fence("ack", r, store.Ended, job)
	}
	d.metrics.StoreLost.WithLabelValues(forgotLease).Inc()
	n := d.fleet.Node(r.Node)
	if n == nil {
		return nil
	}
	granted, err := d.store.Reserve(ctx, store.ReserveParams{
		Lease: leaseOf(job), Handle: n.Handle(), Epoch: n.Epoch(), Revision: n.Declared().Revision,
	})
	if err == nil && granted.Verdict == store.OK {
		_, err = d.store.Commit(ctx, leaseOf(job))
	}
	if err != nil {
		d.storeFailed("recommit", err) // the node's next list brings the slot back
	}
	return nil
}
