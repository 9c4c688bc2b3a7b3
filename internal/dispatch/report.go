package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Report is a node's word about a job it was given. Epoch 0 means that the node does not say.
type Report struct {
	Job core.JobID
	core.Holder
}

// Ack takes a node's confirmation that it has a job.
func (d *Dispatcher) Ack(ctx context.Context, r Report) error {
	if f := d.flights.get(r.Job); f != nil {
		job := f.snapshot()
		if holds(job, &r) && job.State == core.StateDispatched {
			return d.commit(ctx, &r, job)
		}
	}
	job, err := d.store.Get(ctx, r.Job)
	if err != nil {
		return d.unread(ctx, "ack", &r, err)
	}
	switch outcome := standing(job, &r); {
	case outcome != 0:
		return d.fence("ack", &r, outcome, job)
	case job.State == core.StateDone:
		return nil // overtaken by its own result
	case job.State == core.StateRetrying && (job.Reason == core.ReasonACKTimeout || job.Reason == core.ReasonDeliveryUnknown):
		// It comes late, but nobody else has the job yet: if the node finishes first, its result is taken.
		_, err := d.store.Commit(ctx, leaseOf(job))
		if err != nil {
			return d.unread(ctx, "ack", &r, err)
		}
		return nil
	case job.State != core.StateDispatched:
		return d.fence("ack", &r, store.Ended, job)
	}
	return d.commit(ctx, &r, job)
}

func (d *Dispatcher) commit(ctx context.Context, r *Report, job *core.Job) error {
	held, err := d.store.Commit(ctx, leaseOf(job))
	switch {
	case err != nil:
		return d.unread(ctx, "ack", r, err)
	case !held:
		if err := d.recommit(ctx, r, job); err != nil {
			return err
		}
	}
	if n := d.fleet.Node(r.Node); n != nil {
		n.ClearMissedACKs()
	}
	if f := d.flights.get(r.Job); f != nil {
		f.wait(job.Token, phaseRunning, time.Now().Add(backoff.Jitter(lookAfter, 0.2)), d.dueFunc(f))
	}
	return nil
}

// holds reports whether a report comes from whom the job's record names.
func holds(job *core.Job, r *Report) bool { return standing(job, r) == 0 }

// standing says why a report does not come from the job's holder; 0 when it does.
func standing(job *core.Job, r *Report) store.Outcome {
	switch {
	case job.Attempt != r.Attempt:
		return store.StaleAttempt
	case job.Node != r.Node:
		return store.NotHolder
	case r.Epoch != 0 && job.Epoch != r.Epoch:
		return store.HolderStaleEpoch
	}
	return 0
}

// Holds reports whether whoever sends the report has the job, as far as this instance has seen. It asks nobody: it is
// for what may be lost.
func (d *Dispatcher) Holds(r *Report) bool {
	job := d.seen(r.Job)
	return job != nil && holds(job, r)
}

// Done takes a node's result. The record's compare-and-set is the one decision that ends the job.
func (d *Dispatcher) Done(ctx context.Context, r Report, result []byte) error {
	p := store.ApplyParams{Job: r.Job, Event: core.EventDone, Holder: r.Holder, Result: result, Seen: d.seen(r.Job)}
	applied, err := d.store.Apply(ctx, p)
	if err == nil && applied.Outcome == store.NoJob && d.restore(ctx, r.Job) {
		applied, err = d.store.Apply(ctx, p)
	}
	switch {
	case err != nil:
		return d.unread(ctx, "done", &r, err)
	case !applied.Outcome.Stands():
		return d.fence("done", &r, applied.Outcome, applied.Job)
	}
	if err := d.tell(ctx, applied.Job); err != nil {
		return d.unread(ctx, "done", &r, err) // the node says it again
	}
	n := d.fleet.Node(r.Node)
	if n != nil {
		n.ClearMissedACKs()
	}
	d.release(leaseOf(applied.Job), n, false)
	d.ended(&applied)
	if at := dispatcherOf(applied.Job); d.outcomes != nil && applied.Job.Utterance.Turn == 0 && at != d.cfg.Instance {
		d.outcomes.NotifyEnded(ctx, at, r.Job) // of a conversation's job its session is told
	}
	return nil
}

// Had reports whether whoever sends the report has the job now. The error says why not when it never had that
// attempt of it.
func (d *Dispatcher) Had(ctx context.Context, r Report) (now bool, err error) {
	job, err := d.store.Get(ctx, r.Job)
	if err != nil {
		return false, d.unread(ctx, "fail", &r, err)
	}
	outcome := standing(job, &r)
	if _, past := job.PastToken(r.Attempt, r.Node); outcome != 0 && !past {
		return false, d.fence("fail", &r, outcome, job)
	}
	return outcome == 0 && job.State == core.StateDispatched, nil
}

// held returns the record of a job that is dispatched to whoever sends the report.
func (d *Dispatcher) held(ctx context.Context, message string, r *Report) (*core.Job, error) {
	job, err := d.store.Get(ctx, r.Job)
	if errors.Is(err, store.ErrNoJob) && d.restore(ctx, r.Job) {
		job, err = d.store.Get(ctx, r.Job)
	}
	if err != nil {
		return nil, d.unread(ctx, message, r, err)
	}
	if outcome := standing(job, r); outcome != 0 {
		return nil, d.fence(message, r, outcome, job)
	}
	if job.State != core.StateDispatched {
		return nil, d.fence(message, r, store.Ended, job)
	}
	return job, nil
}

// Fail takes a node's word that it could not do a job, which is then given to another.
func (d *Dispatcher) Fail(ctx context.Context, r Report, reason core.Reason, detail string) error {
	job, err := d.held(ctx, "fail", &r)
	if err != nil {
		return err
	}
	if n := d.fleet.Node(r.Node); n != nil {
		n.ClearMissedACKs()
	}
	c := cause{reason: reason, detail: detail, freed: true, certain: true, spares: spares(reason)}
	j := d.resume(job)
	if !j.giveUp(d.decide.Context(), c) {
		if j.undecided {
			return down()
		}
		return nil // it has ended, or somebody else moves it
	}
	d.background(func(ctx context.Context) { j.proceed(ctx, c) })
	return nil
}

// unread is the answer to a node whose message could not be held against the record.
func (d *Dispatcher) unread(ctx context.Context, message string, r *Report, err error) error {
	if errors.Is(err, store.ErrNoJob) {
		return d.fence(message, r, store.NoJob, nil)
	}
	d.storeFailed(message, err)
	return gone(ctx)
}

// fence refuses a message that comes from somebody who does not hold the job. It changes nothing about the
// job; but the node has said that it is not working on that attempt, so a slot still kept for it is freed.
func (d *Dispatcher) fence(message string, r *Report, outcome store.Outcome, job *core.Job) error {
	d.metrics.Fenced.WithLabelValues(message, outcome.String()).Inc()
	if message != "ack" {
		d.freePast(r, outcome, job)
	}
	switch outcome {
	case store.NoJob:
		return wire.Wrong(wire.NotFound, "job_id", "no job %s is known; drop it", r.Job)
	case store.NotHolder:
		return wire.Wrong(wire.NotHolder, "node_id", "attempt %d of job %s is not held by node %s; drop it", r.Attempt, r.Job, r.Node)
	case store.HolderStaleEpoch:
		return wire.Wrong(wire.StaleEpoch, "epoch", "node %s has registered again since; use the epoch of its last registration", r.Node)
	case store.StaleAttempt:
		return wire.Wrong(wire.StaleAttempt, "attempt_id", "job %s is in attempt %d, not %d; drop it", r.Job, job.Attempt, r.Attempt)
	}
	state := "ended"
	if job != nil {
		state = fmt.Sprintf("in state %s", job.State)
	}
	return wire.Wrong(wire.StaleAttempt, "attempt_id", "attempt %d of job %s is over, the job is %s; drop it", r.Attempt, r.Job, state)
}

// freePast frees the slot of an attempt that is over for the job, now that its node says it is over for the
// node too. A message that names another node than the one that had the attempt frees nothing.
func (d *Dispatcher) freePast(r *Report, outcome store.Outcome, job *core.Job) {
	ref := core.LeaseRef{Node: r.Node, Job: r.Job, Attempt: r.Attempt}
	switch {
	case outcome == store.HolderStaleEpoch:
		return
	case job == nil:
		// adopted from the node's own list: nobody's token is on it
	case holds(job, r):
		if !job.State.Terminal() {
			return // the slot is still accounted for by whoever moves the job
		}
		ref.Token = job.Token
	default:
		token, had := job.PastToken(r.Attempt, r.Node)
		if !had {
			return
		}
		ref.Token = token
	}
	d.release(ref, d.fleet.Node(r.Node), false)
}

// ended clears up after a job that has reached its end.
func (d *Dispatcher) ended(applied *store.Applied) {
	job := applied.Job
	d.flights.remove(job.ID)
	if applied.Outcome != store.Decided {
		return
	}
	took := job.Updated.Sub(job.Created)
	d.metrics.ObserveJobEnd(job.State, took)
	if job.State == core.StateDone {
		d.fleet.ObserveServiceTime(job.Updated.Sub(job.History[len(job.History)-1].Started))
		return
	}
	d.log.Info("job ended without a result", "job_id", job.ID, "session_id", job.Session, "node_id", job.Node,
		"attempt_id", job.Attempt, "state", job.State.String(), "reason", job.Reason)
}
