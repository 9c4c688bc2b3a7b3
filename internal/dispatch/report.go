package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Report identifies the attempt that a message from a node is about. Epoch 0 means that the node did not send one.
type Report struct {
	Job core.JobID
	core.Holder
	// Tenant is that of the node: jobs of other tenants do not exist for it. Empty: it serves all tenants.
	Tenant core.TenantID
}

// Reports handles messages from nodes about their jobs. Only the holder that the record names may acknowledge or end a job.
type Reports struct {
	runner   *runner
	store    *storeClient
	fleet    *fleet.Fleet
	slots    *slots
	inFlight *inFlightTable
	metrics  *telemetry.Metrics
}

func newReports(r *runner) *Reports {
	return &Reports{runner: r, store: r.store, fleet: r.fleet, slots: r.slots, inFlight: r.inFlight, metrics: r.metrics}
}

// Ack handles a node's acknowledgement of a delivery.
func (p *Reports) Ack(ctx context.Context, r Report) error {
	if f := p.inFlight.get(r.Job); f != nil {
		job := f.record()
		if isHolder(job, &r) && job.State == core.StateDispatched {
			return p.commit(ctx, &r, job)
		}
	}
	job, err := p.readOrRestore(ctx, r.Job)
	if err != nil {
		return p.readFailed(ctx, "ack", &r, err)
	}
	switch outcome := compareHolder(job, &r); {
	case outcome != 0:
		p.logLateACK(&r, job)
		return p.fence("ack", &r, outcome, job)
	case job.State == core.StateDone:
		return nil // its result arrived first
	case job.State == core.StateRetrying && (job.Reason == core.ReasonACKTimeout || job.Reason == core.ReasonDeliveryUnknown):
		// It is late, but no other node has the job yet: if this node finishes first, its result is taken.
		p.logLateACK(&r, job)
		_, err := p.store.Commit(ctx, leaseOf(job))
		if err != nil {
			return p.readFailed(ctx, "ack", &r, err)
		}
		return nil
	case job.State != core.StateDispatched:
		p.logLateACK(&r, job)
		return p.fence("ack", &r, store.Ended, job)
	}
	return p.commit(ctx, &r, job)
}

// logLateACK logs an acknowledgement of an attempt that is over. One of a node that never had the job is no late one.
func (p *Reports) logLateACK(r *Report, job *core.Job) {
	if _, had := job.PastToken(r.Attempt, r.Node); had {
		p.runner.log.Warn("an acknowledgement came late", "job_id", job.ID, "node_id", r.Node, "attempt_id", r.Attempt, "state", job.State)
	}
}

// commit marks the lease of an acknowledged job as running.
func (p *Reports) commit(ctx context.Context, r *Report, job *core.Job) error {
	began := time.Now()
	found, err := p.store.Commit(ctx, leaseOf(job))
	if p.runner.cfg.Tracer != nil {
		p.traceACK(r, job, began, err)
	}
	switch {
	case err != nil:
		return p.readFailed(ctx, "ack", r, err)
	case !found:
		if err := p.restoreLease(ctx, r, job); err != nil {
			return err
		}
	}
	if !job.TestJob {
		p.recordACK(r.Node)
	}
	if f := p.inFlight.get(r.Job); f != nil {
		p.runner.armCheck(f, job.Token, time.Now())
	}
	return nil
}

// recordACK records that a node acknowledges jobs.
func (p *Reports) recordACK(id core.NodeID) {
	if n := p.fleet.Node(id); n != nil {
		n.ClearMissedACKs()
	}
	p.runner.cfg.Observer.Acknowledged(id)
}

// restoreLease handles the ACK of a job that has no lease. The record decides who holds the job: if it is the sender, the
// ledger has lost the lease or let it expire, and the slot is taken again if it can be.
func (p *Reports) restoreLease(ctx context.Context, r *Report, known *core.Job) error {
	job, err := p.readOrRestore(ctx, r.Job)
	if err != nil {
		return p.readFailed(ctx, "ack", r, err)
	}
	if !isHolder(job, r) || job.State != core.StateDispatched || job.Token != known.Token {
		return p.fence("ack", r, store.Ended, job)
	}
	p.metrics.StoreLost.WithLabelValues(lostLease).Inc()
	n := p.fleet.Node(r.Node)
	if n == nil {
		return nil
	}
	granted, err := p.store.Reserve(ctx, store.ReserveParams{
		Lease: leaseOf(job), Handle: n.Handle(), Epoch: n.Epoch(), Revision: n.Declared().Revision, Probe: job.TestJob,
	})
	if err == nil && granted.Verdict == store.OK {
		_, err = p.store.Commit(ctx, leaseOf(job))
	}
	if err != nil {
		p.store.RecordError("recommit", err) // the node's next list restores the slot
	}
	return nil
}

// isHolder reports whether a report comes from the holder that the job's record names.
func isHolder(job *core.Job, r *Report) bool { return compareHolder(job, r) == 0 }

// compareHolder says why a report does not come from the job's holder; 0 when it does.
func compareHolder(job *core.Job, r *Report) store.Outcome {
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

// IsHolder reports whether the sender of a report holds the job, as far as this instance knows. It does not ask the store: it
// is for messages that may be lost.
func (p *Reports) IsHolder(r *Report) bool {
	job := p.inFlight.record(r.Job)
	return job != nil && isHolder(job, r)
}

// MayUseAudio reports whether the sender of a report may read the audio of the job and upload its speech, as far as this instance knows:
// the node is registered, and neither was its attempt given up nor does another node hold the job. It does not ask the store.
func (p *Reports) MayUseAudio(r *Report) bool {
	if p.fleet.Node(r.Node) == nil {
		return false
	}
	job := p.inFlight.record(r.Job)
	return job == nil || isHolder(job, r) && job.State != core.StateRetrying
}

// CheckHolder reports whether the sender of a report holds the job now. It returns an error if the sender never held that
// attempt.
func (p *Reports) CheckHolder(ctx context.Context, r Report) (holds bool, err error) {
	job, err := p.store.Get(ctx, r.Job)
	if err != nil {
		return false, p.readFailed(ctx, "fail", &r, err)
	}
	outcome := compareHolder(job, &r)
	if _, past := job.PastToken(r.Attempt, r.Node); outcome != 0 && !past {
		return false, p.fence("fail", &r, outcome, job)
	}
	return outcome == 0 && job.State == core.StateDispatched, nil
}

// Done handles a node's result. The record's compare-and-set is the one decision that ends the job.
func (p *Reports) Done(ctx context.Context, r Report, result []byte) error {
	received := time.Now()
	params := store.ApplyParams{Job: r.Job, Event: core.EventDone, Holder: r.Holder, Result: result, Seen: p.inFlight.record(r.Job)}
	applied, err := p.store.Apply(ctx, params)
	if err == nil && applied.Outcome == store.NoJob && p.runner.restoreRecord(ctx, r.Job) {
		applied, err = p.store.Apply(ctx, params)
	}
	switch {
	case err != nil:
		return p.readFailed(ctx, "done", &r, err)
	case applied.Outcome == store.NoJob:
		return p.readFailed(ctx, "done", &r, store.ErrNoJob)
	case !applied.Outcome.Stands():
		return p.fence("done", &r, applied.Outcome, applied.Job)
	}
	if trace := p.runner.traceOf(r.Job); trace.Sampled() {
		traceApply(trace, trace.Attempt(applied.Job.Token), received, core.EventDone, &applied, nil)
		p.runner.traceOutcome(&applied)
	}
	if err := p.runner.reportOutcome(ctx, applied.Job, received); err != nil {
		return p.readFailed(ctx, "done", &r, err) // the node sends the result again
	}
	n := p.fleet.Node(r.Node)
	if n != nil && !applied.Job.TestJob {
		n.ClearMissedACKs()
	}
	p.slots.release(leaseOf(applied.Job), n, false)
	if applied.Outcome == store.Decided && !applied.Job.TestJob {
		p.runner.cfg.Observer.AttemptEnded(r.Node, applied.Job.Direction, core.ReasonNone)
	}
	p.runner.jobEnded(&applied)
	if at := dispatcherOf(applied.Job); p.runner.outcomes != nil && applied.Job.Utterance.Turn == 0 && at != p.runner.cfg.Instance {
		p.runner.outcomes.NotifyEnded(ctx, at, r.Job) // of a session's job the session is notified
	}
	return nil
}

// Fail handles a node's report that it could not do a job. The job is given to another node.
func (p *Reports) Fail(ctx context.Context, r Report, reason core.Reason, detail string) error {
	job, err := p.readHeld(ctx, "fail", &r)
	if err != nil {
		return err
	}
	if n := p.fleet.Node(r.Node); n != nil && !job.TestJob {
		n.ClearMissedACKs()
	}
	f := attemptFailure{reason: reason, detail: detail, freeSlot: true, confirmed: true, sameAttempt: reason.CostsNoAttempt()}
	j := p.runner.resume(job)
	if !j.endAttempt(p.runner.decide.Context(), f) {
		if j.storeDown {
			return store.Unavailable()
		}
		return nil // it has ended, or another instance moves it
	}
	p.runner.tasks.Go(func(ctx context.Context) { j.continueElsewhere(ctx, f) })
	return nil
}

// readHeld returns the record of a job that is dispatched to the sender of a report.
func (p *Reports) readHeld(ctx context.Context, message string, r *Report) (*core.Job, error) {
	job, err := p.readOrRestore(ctx, r.Job)
	if err != nil {
		return nil, p.readFailed(ctx, message, r, err)
	}
	if outcome := compareHolder(job, r); outcome != 0 {
		return nil, p.fence(message, r, outcome, job)
	}
	if job.State != core.StateDispatched {
		return nil, p.fence(message, r, store.Ended, job)
	}
	return job, nil
}

// isAdopted reports whether a job was adopted from the node's list and may have a record soon: the store was emptied, and the instance that
// dispatched the job has not restored its record yet. If no instance does, a later heartbeat of the node is answered with its cancellation.
func (p *Reports) isAdopted(ctx context.Context, r *Report) (bool, error) {
	if !p.runner.cfg.Shared {
		return false, nil // there is no other instance
	}
	leases, err := p.store.Orphans(ctx, r.Node)
	return slices.ContainsFunc(leases, func(l core.Lease) bool {
		return l.Job == r.Job && l.Attempt == r.Attempt && l.Token == "" && l.State == core.LeaseRunning
	}), err
}

// readOrRestore returns the record of a job. If the store has lost that of a job that is in flight here, it is written again.
func (p *Reports) readOrRestore(ctx context.Context, id core.JobID) (*core.Job, error) {
	job, err := p.store.Get(ctx, id)
	if errors.Is(err, store.ErrNoJob) && p.runner.restoreRecord(ctx, id) {
		return p.store.Get(ctx, id)
	}
	return job, err
}

// readFailed returns the error for a node whose message could not be compared with the record.
func (p *Reports) readFailed(ctx context.Context, message string, r *Report, err error) error {
	if errors.Is(err, store.ErrNoJob) {
		var adopted bool
		switch adopted, err = p.isAdopted(ctx, r); {
		case adopted:
			return wire.FieldErrorf(wire.SchedulerDependencyDown, "job_id",
				"the store was emptied, and job %s is not known again yet: send it again", r.Job).RetryIn(time.Second)
		case err == nil:
			return p.fence(message, r, store.NoJob, nil)
		}
	}
	p.store.RecordError(message, err)
	return store.CallError(ctx)
}

// fence refuses a message from a node that does not hold the job. The job does not change; but the message says that the node
// no longer works on that attempt, so a slot that is still taken for it is released.
func (p *Reports) fence(message string, r *Report, outcome store.Outcome, job *core.Job) error {
	p.metrics.Fenced.WithLabelValues(message, outcome.String()).Inc()
	if message != "ack" {
		p.releasePast(r, outcome, job)
	}
	if job != nil && r.Tenant != "" && r.Tenant != job.Tenant {
		outcome = store.NoJob // that there is such a job is not the node's business
	}
	switch outcome {
	case store.NoJob:
		return wire.FieldErrorf(wire.NotFound, "job_id", "no job %s is known; drop it", r.Job)
	case store.NotHolder:
		return wire.FieldErrorf(wire.NotHolder, "node_id", "attempt %d of job %s is not held by node %s; drop it", r.Attempt, r.Job, r.Node)
	case store.HolderStaleEpoch:
		return wire.FieldErrorf(wire.StaleEpoch, "epoch", "node %s has registered again since; use the epoch of its last registration",
			r.Node)
	case store.StaleAttempt:
		return wire.FieldErrorf(wire.StaleAttempt, "attempt_id", "job %s is in attempt %d, not %d; drop it", r.Job, job.Attempt, r.Attempt)
	}
	state := "ended"
	if job != nil {
		state = fmt.Sprintf("in state %s", job.State)
	}
	return wire.FieldErrorf(wire.StaleAttempt, "attempt_id", "attempt %d of job %s is over, the job is %s; drop it", r.Attempt, r.Job,
		state)
}

// releasePast releases the slot of an attempt that the job has left and that its node reports as over. A message that names
// another node than the one that had the attempt releases nothing.
func (p *Reports) releasePast(r *Report, outcome store.Outcome, job *core.Job) {
	lease := core.LeaseRef{Node: r.Node, Job: r.Job, Attempt: r.Attempt}
	switch {
	case outcome == store.HolderStaleEpoch:
		return
	case job == nil:
		// The lease was adopted from the node's own list: it has no token.
	case isHolder(job, r):
		if !job.State.Terminal() {
			return // the run that moves the job still accounts for the slot
		}
		lease.Token = job.Token
	default:
		token, had := job.PastToken(r.Attempt, r.Node)
		if !had {
			return
		}
		lease.Token = token
	}
	p.slots.release(lease, p.fleet.Node(r.Node), false)
}
