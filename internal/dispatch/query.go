package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Cancel ends a job as CANCELLED, unless it has ended. It returns the record and whether the job is cancelled. The slot stays
// taken until the node stops listing the job.
func (d *Dispatcher) Cancel(ctx context.Context, id core.JobID) (*core.Job, bool, error) {
	return d.runner.endJob(ctx, id, core.EventCancel, core.ReasonCancelled)
}

// Abandon fails a job that has not ended, and reports whether there is such a job. The outcome of a job that has ended is
// reported again, in case that report was lost.
func (d *Dispatcher) Abandon(ctx context.Context, id core.JobID, reason core.Reason) (known bool, err error) {
	job, ended, err := d.runner.endJob(ctx, id, core.EventFail, reason)
	var e *wire.Error
	switch {
	case errors.As(err, &e) && e.Code == wire.NotFound:
		return false, nil
	case err != nil:
		return false, err
	case !ended && job.Refused():
		return false, nil
	case !ended:
		if err := d.runner.reportOutcome(ctx, job, time.Time{}); err != nil {
			d.store.RecordError("outcome", err)
			return true, store.CallError(ctx)
		}
	}
	return true, nil
}

// endJob ends a job by an event, unless it has ended. It returns the record and whether the event ended it.
func (r *runner) endJob(ctx context.Context, id core.JobID, event core.Event, reason core.Reason) (*core.Job, bool, error) {
	applied, err := r.store.Apply(ctx, store.ApplyParams{
		Job: id, Event: event, AnyHolder: true, Reason: reason, Seen: r.inFlight.record(id),
	})
	switch {
	case err != nil:
		r.store.RecordError("stop", err)
		return nil, false, store.CallError(ctx)
	case applied.Outcome == store.NoJob:
		return nil, false, UnknownJob(id)
	}
	if applied.Outcome.Stands() {
		r.traceOutcome(&applied)
		r.jobEnded(&applied)
		if err := r.reportOutcome(ctx, applied.Job, time.Time{}); err != nil {
			r.store.RecordError("outcome", err)
			return nil, false, store.CallError(ctx) // the slot stays taken until the outcome was reported
		}
		r.slots.releaseOrRevoke(applied.Job, false)
	}
	return applied.Job, applied.Outcome.Stands(), nil
}

// EndedElsewhere removes an in-flight job that has ended on another instance.
func (d *Dispatcher) EndedElsewhere(id core.JobID) { d.inFlight.remove(id) }

// Job returns the record of a job. A dispatched job that its node has acknowledged is ACKED, which its lease says and not its
// record.
func (d *Dispatcher) Job(ctx context.Context, id core.JobID) (*core.Job, error) {
	job, err := d.store.Get(ctx, id)
	if err != nil {
		if errors.Is(err, store.ErrNoJob) {
			return nil, UnknownJob(id)
		}
		d.store.RecordError("get", err)
		return nil, store.CallError(ctx)
	}
	jobs := []*core.Job{job}
	if err := d.runner.setAcked(ctx, jobs); err != nil {
		return nil, err
	}
	return jobs[0], nil
}

// Jobs lists jobs, the newest first.
func (d *Dispatcher) Jobs(ctx context.Context, p store.ListParams) ([]*core.Job, error) {
	state, limit := p.State, p.Limit
	if state == core.StateAcked || state == core.StateDispatched {
		p.State, p.Limit = core.StateDispatched, 0 // the lease says which of the two a job is
	}
	jobs, err := d.store.List(ctx, p)
	if err != nil {
		d.store.RecordError("list", err)
		return nil, store.CallError(ctx)
	}
	if err := d.runner.setAcked(ctx, jobs); err != nil {
		return nil, err
	}
	if state != 0 {
		jobs = slices.DeleteFunc(jobs, func(job *core.Job) bool { return job.State != state })
	}
	if limit > 0 && len(jobs) > limit {
		jobs = jobs[:limit]
	}
	return jobs, nil
}

// setAcked replaces dispatched jobs that their nodes have acknowledged by copies in state ACKED.
func (r *runner) setAcked(ctx context.Context, jobs []*core.Job) error {
	var refs []core.LeaseRef
	for _, job := range jobs {
		if job.State == core.StateDispatched {
			refs = append(refs, leaseOf(job))
		}
	}
	leases, err := r.store.Leases(ctx, refs...)
	if err != nil {
		r.store.RecordError("lease", err)
		return store.CallError(ctx)
	}
	for i, job := range jobs {
		if job.State != core.StateDispatched {
			continue
		}
		if leases[0].State == core.LeaseRunning {
			acked := *job
			acked.State, _ = job.State.Next(core.EventAck)
			jobs[i] = &acked
		}
		leases = leases[1:]
	}
	return nil
}

// UnknownJob is the error for a job that is not known.
func UnknownJob(id core.JobID) *wire.Error {
	return wire.Errorf(wire.NotFound, "no job %s is known; the record of an ended job is kept for a limited time", id)
}
