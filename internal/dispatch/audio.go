package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// audioOwner is the owner of a record whose job waits for its audio: the instance that has the audio may resume it.
const audioOwner core.Token = "audio"

// waitsForAudio reports whether a job is suspended until its audio is available.
func waitsForAudio(job *core.Job) bool {
	return job.State == core.StateRetrying && job.Owner == audioOwner
}

// suspendForAudio suspends a job whose audio is not on this instance. The instance that has it resumes the job; if the audio
// was lost with its instance, the client may send it again, and until then the job's time does not run. It reports whether
// the job is suspended.
func (j *jobRun) suspendForAudio(ctx context.Context, f attemptFailure) bool {
	if !j.apply(ctx, store.ApplyParams{
		Event: core.EventRetry, Holder: j.job.Holder, Owner: audioOwner, RetryFor: j.runner.cfg.AudioGrace, Suspends: true,
		Reason: f.reason, Detail: f.detail,
	}) {
		return false
	}
	r, job := j.runner, j.job
	r.log.Info("audio of the job is not on this instance; the job waits for it", "job_id", job.ID, "session_id", job.Session, "reason",
		f.reason)
	if f.freeSlot {
		r.slots.release(leaseOf(job), r.fleet.Node(job.Node), true) // parked: the job must still be found through it
	}
	r.waitForAudio(ctx, job)
	return true
}

// waitForAudio leaves a suspended job to the instance that has its audio, and fails it if the audio does not come.
func (r *runner) waitForAudio(ctx context.Context, job *core.Job) {
	r.inFlight.removeUnlessContinued(job)
	if r.outcomes != nil {
		r.outcomes.AudioWanted(ctx, job)
	}
	r.tasks.Go(func(ctx context.Context) {
		if run.Sleep(ctx, r.cfg.AudioGrace+time.Second) {
			if err := r.failWithoutAudio(ctx, job.ID); err != nil {
				r.store.RecordError("audio", err) // a heartbeat of its last node leads to it again
			}
		}
	})
}

// failWithoutAudio fails a job whose audio did not come.
func (r *runner) failWithoutAudio(ctx context.Context, id core.JobID) error {
	job, err := r.store.Get(ctx, id)
	if errors.Is(err, store.ErrNoJob) || err == nil && !waitsForAudio(job) {
		return nil
	}
	if err != nil {
		return err
	}
	j := r.resume(job)
	j.owner = r.tokens.next()
	if j.takeOverRetry(ctx, j.owner, retryLease) {
		j.failJob(ctx, attemptFailure{reason: core.ReasonAudioLost}, core.ReasonAudioLost)
	}
	return nil
}

// ResumeWithAudio resumes a job whose audio is on this instance again. It reports whether there is such a job, in whatever
// state.
func (d *Dispatcher) ResumeWithAudio(ctx context.Context, id core.JobID) (known bool, err error) {
	return d.runner.resumeWithAudio(ctx, id)
}

func (r *runner) resumeWithAudio(ctx context.Context, id core.JobID) (known bool, err error) {
	job, err := r.store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNoJob):
		return false, nil
	case err != nil:
		r.store.RecordError("rearm", err)
		return false, store.CallError(ctx)
	case job.Refused():
		return false, nil
	case job.State.Terminal():
		if err := r.reportOutcome(ctx, job, time.Time{}); err != nil { // the instance that decided it may have died before it could
			r.store.RecordError("outcome", err)
			return true, store.CallError(ctx)
		}
	case waitsForAudio(job):
		j := r.resume(job)
		j.owner = audioOwner
		if j.entry.beginSelection(job) {
			r.tasks.Go(func(ctx context.Context) { j.continueElsewhere(ctx, lastFailure(job)) })
		}
	case job.State == core.StateRetrying && !r.tokens.owns(job):
		r.resumeExpiredRetry(ctx, job)
	}
	return true, nil
}

// resumeIfAudioHere resumes a job that another instance has suspended because the audio is on this one. The message that
// asks for it may have been lost.
func (r *runner) resumeIfAudioHere(ctx context.Context, job *core.Job) {
	if waitsForAudio(job) && r.cfg.HasAudio(job) {
		if _, err := r.resumeWithAudio(ctx, job.ID); err != nil {
			r.store.RecordError("rearm", err)
		}
	}
}

// resumeExpiredRetry takes over a retry of another instance if its lease has expired, and otherwise does nothing.
func (r *runner) resumeExpiredRetry(ctx context.Context, job *core.Job) {
	j := r.resume(job)
	j.owner = r.tokens.next()
	if !j.takeOverRetry(ctx, j.owner, retryLease) || !j.entry.beginSelection(j.job) {
		return
	}
	r.tasks.Go(func(ctx context.Context) { j.continueElsewhere(ctx, lastFailure(job)) })
}

// lastFailure returns why the last attempt of a RETRYING job ended.
func lastFailure(job *core.Job) attemptFailure {
	return attemptFailure{reason: job.Reason, confirmed: job.Reason.ConfirmsRelease(), sameAttempt: job.Reason.CostsNoAttempt()}
}
