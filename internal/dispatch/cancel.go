package dispatch

import (
	"context"
	"errors"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Cancel ends a job, unless it has ended. It returns the record and whether the job is cancelled. The slot
// stays taken until the node has let go of the job.
func (d *Dispatcher) Cancel(ctx context.Context, id core.JobID) (*core.Job, bool, error) {
	return d.stop(ctx, id, core.EventCancel, core.ReasonCancelled)
}

// GiveUp fails a job that has not ended, for a reason, and reports whether there is such a job. A job that has ended
// otherwise is told once more, in case that was lost.
func (d *Dispatcher) Abandon(ctx context.Context, id core.JobID, reason core.Reason) (known bool, err error) {
	job, stopped, err := d.stop(ctx, id, core.EventFail, reason)
	var e *wire.Error
	switch {
	case errors.As(err, &e) && e.Code == wire.NotFound:
		return false, nil
	case err != nil:
		return false, err
	case !stopped && job.Refused():
		return false, nil
	case !stopped:
		if err := d.tell(ctx, job); err != nil {
			d.storeFailed("outcome", err)
			return true, gone(ctx)
		}
	}
	return true, nil
}

// stop ends a job by an event, unless it has ended. It returns the record and whether that was how it ended.
func (d *Dispatcher) stop(ctx context.Context, id core.JobID, event core.Event, reason core.Reason) (*core.Job, bool, error) {
	applied, err := d.store.Apply(ctx, store.ApplyParams{
		Job: id, Event: event, AnyHolder: true, Reason: reason, Seen: d.seen(id),
	})
	switch {
	case err != nil:
		d.storeFailed("stop", err)
		return nil, false, gone(ctx)
	case applied.Outcome == store.NoJob:
		return nil, false, unknownJob(id)
	}
	if applied.Outcome.Stands() {
		d.ended(&applied)
		if err := d.tell(ctx, applied.Job); err != nil {
			d.storeFailed("outcome", err)
			return nil, false, gone(ctx) // the slot stays taken until it was told
		}
		d.letGo(applied.Job, false)
	}
	return applied.Job, applied.Outcome.Stands(), nil
}

// Job returns a job as it stands. A dispatched one that its node has confirmed is ACKED, which the lease
// knows and the record does not.
func (d *Dispatcher) Job(ctx context.Context, id core.JobID) (*core.Job, error) {
	job, err := d.store.Get(ctx, id)
	if err != nil {
		if errors.Is(err, store.ErrNoJob) {
			return nil, unknownJob(id)
		}
		d.storeFailed("get", err)
		return nil, gone(ctx)
	}
	jobs := []*core.Job{job}
	if err := d.derive(ctx, jobs); err != nil {
		return nil, err
	}
	return jobs[0], nil
}

// Jobs lists jobs, the newest first.
func (d *Dispatcher) Jobs(ctx context.Context, p store.ListParams) ([]*core.Job, error) {
	want, limit := p.State, p.Limit
	if want == core.StateAcked || want == core.StateDispatched {
		p.State, p.Limit = core.StateDispatched, 0 // which of the two a job is, its lease says
	}
	jobs, err := d.store.List(ctx, p)
	if err != nil {
		d.storeFailed("list", err)
		return nil, gone(ctx)
	}
	if err := d.derive(ctx, jobs); err != nil {
		return nil, err
	}
	if want != 0 {
		jobs = slices.DeleteFunc(jobs, func(job *core.Job) bool { return job.State != want })
	}
	if limit > 0 && len(jobs) > limit {
		jobs = jobs[:limit]
	}
	return jobs, nil
}

// derive says ACKED of the dispatched jobs whose nodes have confirmed them.
func (d *Dispatcher) derive(ctx context.Context, jobs []*core.Job) error {
	var refs []core.LeaseRef
	for _, job := range jobs {
		if job.State == core.StateDispatched {
			refs = append(refs, leaseOf(job))
		}
	}
	leases, err := d.store.Leases(ctx, refs...)
	if err != nil {
		d.storeFailed("lease", err)
		return gone(ctx)
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

func unknownJob(id core.JobID) *wire.Error {
	return wire.Errorf(wire.NotFound, "no job %s is known; the record of an ended job is kept for a limited time", id)
}
