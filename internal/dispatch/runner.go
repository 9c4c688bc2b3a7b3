package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/internal/waiting"
)

// runner starts, resumes and times the in-flight jobs of this instance. It holds what all jobRuns share.
type runner struct {
	cfg       *Config
	limits    *tenants.Jobs
	store     *storeClient
	fleet     *fleet.Fleet
	spread    *spreader
	selector  *selector
	slots     *slots
	waiting   *waiting.Queue
	inFlight  *inFlightTable
	tokens    *tokenSource
	transport Transport
	outcomes  Outcomes // nil: no sessions
	metrics   *telemetry.Metrics
	log       *slog.Logger
	tasks     *run.Group
	decide    *run.Limit // for selections
	deliver   *run.Limit // for deliveries

	durations durations // of attempts that ended with a result
	lost      lostNodes

	draining  atomic.Bool // no slots are granted any more
	handedOff atomic.Bool // a retry was left to another instance
}

// start makes the run of a job that was just recorded.
func (r *runner) start(job *core.Job, slot *reservation, c caller, trace *tracing.Trace) *jobRun {
	now, n := time.Now(), slot.member.Node
	f := &inFlightJob{
		id: job.ID, deadline: now.Add(min(r.cfg.JobTimeout, job.Deadline.Sub(job.Created))), job: job,
		attemptEnds: now.Add(r.cfg.AttemptTimeout), trace: trace, node: n,
	}
	entry := r.inFlight.add(f)
	if entry != f {
		entry.setNode(n)
	}
	return &jobRun{runner: r, entry: entry, job: job, reservedAt: slot.reservedAt, caller: c, trace: trace}
}

// resume makes a run of a job that was recorded earlier, by this instance or another.
func (r *runner) resume(job *core.Job) *jobRun {
	left := min(r.cfg.JobTimeout, max(r.remaining(job), 0))
	now := time.Now()
	entry := r.inFlight.add(&inFlightJob{
		id: job.ID, deadline: now.Add(left), job: job, attemptEnds: now.Add(r.cfg.AttemptTimeout), trace: r.cfg.Tracer.Of(job.ID),
	})
	return r.resumeEntry(job, entry)
}

// resumeEntry makes a run of a job that is in flight here.
func (r *runner) resumeEntry(job *core.Job, entry *inFlightJob) *jobRun {
	j := &jobRun{runner: r, entry: entry, job: job, trace: entry.trace}
	for _, past := range job.History {
		if !past.Ended.IsZero() {
			j.exclude(past.Holder, past.Reason)
		}
	}
	return j
}

// remaining returns the time that a job has left. It is counted from the job's creation, not from its last step: otherwise
// each takeover would give the job its full time again.
func (r *runner) remaining(job *core.Job) time.Duration {
	if waitsForAudio(job) {
		return job.Deadline.Sub(job.Retry) // the time it had left when it was suspended
	}
	now, _ := r.store.Clock(r.tasks.Context(), store.ClockKey{Job: job.ID}) // it is estimated, without a call
	return job.Deadline.Sub(now)
}

// checkInterval is how often the record of a running job is read, in case another instance has received its result.
const checkInterval = 2 * time.Second

// armCheck arms the timer for the next check of a running job.
func (r *runner) armCheck(f *inFlightJob, token core.Token, now time.Time) {
	f.arm(token, phaseRunning, now.Add(run.Jitter(checkInterval, 0.2)), r.timerFunc(f))
}

// timerFunc returns the function that a job's timer calls.
func (r *runner) timerFunc(f *inFlightJob) func() {
	return func() {
		r.tasks.Go(func(ctx context.Context) { r.onTimer(ctx, f) })
	}
}

// onTimer is called when the time of a phase is over: the node's time to acknowledge, the interval between two checks of a running
// job, or the time of the attempt or of the job. It is the fast path: if this process dies, a heartbeat of the node or the end of
// its presence leads to the same decision on another instance.
func (r *runner) onTimer(ctx context.Context, f *inFlightJob) {
	f.mu.Lock()
	job, attemptEnds, phase, now := f.job, f.attemptEnds, f.phase, time.Now()
	// The timer may have fired just before the job moved on and the next phase began.
	obsolete := f.ended || phase == phasePlacing || now.Before(f.waitEnds)
	f.mu.Unlock()
	if obsolete {
		return
	}
	inTime := now.Before(attemptEnds) && now.Before(f.deadline)
	failure := attemptFailure{reason: core.ReasonAttemptTimeout}
	switch phase {
	case phaseACK:
		switch acknowledged, known := r.acknowledged(ctx, job); {
		case acknowledged && now.Before(f.deadline):
			r.armCheck(f, job.Token, now)
			return
		case !acknowledged && !known && inTime:
			// While the store was unavailable no ACK could be recorded: the timeout starts again.
			f.arm(job.Token, phaseACK, now.Add(r.cfg.ACKTimeout), r.timerFunc(f))
			return
		case !acknowledged:
			failure.reason = core.ReasonACKTimeout
		}
	case phaseRunning:
		if inTime {
			r.checkRunning(ctx, f, job, now)
			return
		}
	}
	r.moveAfterTimeout(ctx, f, job, failure)
}

// checkRunning reads the record of a running job: another instance may have received the result, or the node's failure.
func (r *runner) checkRunning(ctx context.Context, f *inFlightJob, job *core.Job, now time.Time) {
	if current, err := r.store.Get(ctx, job.ID); err == nil {
		same := current.Token == job.Token && current.State == core.StateDispatched
		if !same && (current.State.Terminal() || !r.tokens.owns(current)) { // else this instance is moving it
			r.inFlight.remove(job.ID)
			r.resumeIfAudioHere(ctx, current)
			return
		}
		f.setRebound(current) // the node may have registered again, through another instance
	}
	r.armCheck(f, job.Token, now)
}

// moveAfterTimeout ends an attempt whose time is over, and moves the job to another node.
func (r *runner) moveAfterTimeout(ctx context.Context, f *inFlightJob, job *core.Job, failure attemptFailure) {
	j := r.resumeEntry(job, f)
	for epoch := core.Epoch(0); j.job.Token == job.Token && j.job.State == core.StateDispatched && j.job.Epoch != epoch; {
		if epoch != 0 { // the node has registered again since the record was read: the attempt is the same, and is over
			f.setRebound(j.job)
		}
		epoch = j.job.Epoch
		if j.endAttempt(ctx, failure) {
			j.continueElsewhere(ctx, failure)
			return
		}
	}
	r.resumeIfAudioHere(ctx, j.job)
}

// acknowledged reports whether a node has acknowledged a job, to this or another instance, and whether that can be known: not
// while the store is unavailable, or was so recently that the ACK could not be recorded.
func (r *runner) acknowledged(ctx context.Context, job *core.Job) (acknowledged, known bool) {
	leases, err := r.store.Leases(ctx, leaseOf(job))
	if err != nil {
		r.store.RecordError("lease", err)
		return false, false
	}
	return leases[0].State == core.LeaseRunning, r.store.SinceError() >= r.cfg.ACKTimeout
}

// reportOutcome passes the outcome of a job of a session on, with the time at which the node's result was received, if one was.
func (r *runner) reportOutcome(ctx context.Context, job *core.Job, received time.Time) error {
	if r.outcomes == nil || job.Utterance.Turn == 0 || !job.State.Terminal() || job.Refused() {
		return nil
	}
	return r.outcomes.JobEnded(ctx, job, received)
}

// retryReportOutcome passes the outcome on with retries. It returns false if the context ended first: then the job's slot
// stays taken, and the instance that finds the lease reports the outcome.
func (r *runner) retryReportOutcome(ctx context.Context, job *core.Job) bool {
	return r.store.Retry(ctx, func() error { return r.reportOutcome(ctx, job, time.Time{}) })
}

// jobEnded removes a job that has ended from the table, and counts and logs its outcome if this step decided it.
func (r *runner) jobEnded(applied *store.Applied) {
	job, trace := applied.Job, r.traceOf(applied.Job.ID)
	r.inFlight.remove(job.ID)
	r.limits.JobEnded(job)
	if applied.Outcome != store.Decided {
		return
	}
	r.cfg.Observer.JobEnded(job)
	if job.TestJob {
		r.metrics.CountProbe(job.State)
		return // the caller that waits for it learns how it ended
	}
	took := job.Updated.Sub(job.Created)
	r.metrics.ObserveJobEnd(job.State, took, trace.ExemplarID())
	if job.State == core.StateDone {
		took := job.Updated.Sub(job.History[len(job.History)-1].Started)
		r.fleet.ObserveServiceTime(took)
		r.durations.observe(took)
		return
	}
	r.log.Info("job ended without a result", "job_id", job.ID, "session_id", job.Session, "node_id", job.Node,
		"attempt_id", job.Attempt, "state", job.State.String(), "reason", job.Reason)
}

// What a store can lose in a failover, metric labels.
const (
	lostRecord = telemetry.LostRecord
	lostLease  = telemetry.LostLease
)

// currentHolder returns the holder of an in-flight job as a new record has to name it: if the node has registered again, in its new
// epoch, and lists the job, the job belongs to that epoch.
func (r *runner) currentHolder(ctx context.Context, job *core.Job) (core.Holder, error) {
	holder := job.Holder
	if job.State != core.StateDispatched {
		return holder, nil
	}
	leases, err := r.store.Orphans(ctx, job.Node)
	if err != nil || !slices.ContainsFunc(leases, func(l core.Lease) bool { return l.Job == job.ID && l.Attempt == job.Attempt }) {
		return holder, err
	}
	status, err := store.ReadNode(ctx, r.store, job.Node)
	switch {
	case errors.Is(err, store.ErrNoNode):
		return holder, nil
	case err != nil:
		return holder, err
	}
	holder.Epoch = status.Node.Epoch
	return holder, nil
}

// restoreRecord writes the record of an in-flight job again if the store lost it in a failover. It reports whether the record
// exists now. The history of earlier attempts is lost.
func (r *runner) restoreRecord(ctx context.Context, id core.JobID) bool {
	f := r.inFlight.get(id)
	if f == nil {
		return false
	}
	left := time.Until(f.deadline)
	if left <= 0 {
		return false // the record has expired
	}
	job := f.record()
	holder, err := r.currentHolder(ctx, job)
	if err != nil {
		r.store.RecordError("restore", err)
		return false
	}
	r.metrics.StoreLost.WithLabelValues(lostRecord).Inc()
	r.log.Warn("the store has lost the record of an in-flight job; it is written again", "job_id", id, "node_id", job.Node, "attempt_id",
		job.Attempt)
	created, _, err := r.store.Create(ctx, store.CreateParams{
		ID: id, Spec: job.Spec, Fingerprint: job.Fingerprint, Holder: holder, Token: job.Token, Timeout: left,
	})
	if err != nil {
		r.store.RecordError("restore", err)
		return false
	}
	if job.State != core.StateRetrying {
		f.setRebound(created)
		return true
	}
	applied, err := r.store.Apply(ctx, store.ApplyParams{
		Job: id, Event: core.EventRetry, Holder: job.Holder, Owner: job.Owner, RetryFor: retryLease, Reason: job.Reason, Detail: job.Detail,
	})
	if err != nil {
		r.store.RecordError("restore", err)
		return false
	}
	f.setRebound(applied.Job) // the versions of the new record are lower than those of the lost one
	return true
}
