package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// soundOwner is whom a record names while its job waits for its sound: whoever has the sound may take it on.
const soundOwner core.Token = "sound"

// shelve puts a job aside whose sound is not here. Whoever has it goes on with the job; if it was lost with the instance
// that had it, the speaker may send it again, and until then the job's time does not run. It reports whether the job
// waits.
func (j *journey) shelve(ctx context.Context, c cause) bool {
	if !j.apply(ctx, store.ApplyParams{
		Event: core.EventRetry, Holder: j.job.Holder, Owner: soundOwner, RetryFor: j.d.cfg.AudioGrace, Suspends: true, Reason: c.reason, Detail: c.detail,
	}) {
		return false
	}
	d, job := j.d, j.job
	d.log.Info("the sound of a job is not here; it waits for whoever has it", "job_id", job.ID, "session_id", job.Session, "reason", c.reason)
	if c.freed {
		d.release(leaseOf(job), d.fleet.Node(job.Node), true) // and until then somebody must be able to find it
	}
	d.awaitSound(ctx, job)
	return true
}

// awaitSound leaves a job to whoever has its sound, and ends it if nobody turns up.
func (d *Dispatcher) awaitSound(ctx context.Context, job *core.Job) {
	d.flights.relinquish(job)
	if d.outcomes != nil {
		d.outcomes.AudioWanted(ctx, job)
	}
	d.background(func(ctx context.Context) {
		if backoff.Sleep(ctx, d.cfg.AudioGrace+time.Second) {
			if err := d.giveUpSound(ctx, job.ID); err != nil {
				d.storeFailed("sound", err) // a heartbeat of its last node brings it up again
			}
		}
	})
}

// giveUpSound ends a job whose sound did not come.
func (d *Dispatcher) giveUpSound(ctx context.Context, id core.JobID) error {
	job, err := d.store.Get(ctx, id)
	if errors.Is(err, store.ErrNoJob) || err == nil && !awaitsSound(job) {
		return nil
	}
	if err != nil {
		return err
	}
	j := d.resume(job)
	j.owner = d.token()
	if j.apply(ctx, store.ApplyParams{Event: core.EventTakeover, Holder: j.waiting(), Owner: j.owner, RetryFor: retryLease}) {
		j.end(ctx, cause{reason: core.ReasonAudioLost}, core.ReasonAudioLost)
	}
	return nil
}

func awaitsSound(job *core.Job) bool {
	return job.State == core.StateRetrying && job.Owner == soundOwner
}

// Rearm goes on with a job whose sound is here again. It reports whether there is such a job at all, whatever has
// become of it.
func (d *Dispatcher) ResumeWithAudio(ctx context.Context, id core.JobID) (known bool, err error) {
	job, err := d.store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNoJob):
		return false, nil
	case err != nil:
		d.storeFailed("rearm", err)
		return false, gone(ctx)
	case job.Refused():
		return false, nil
	case job.State.Terminal():
		if err := d.tell(ctx, job); err != nil { // whoever decided it may have died before it could
			d.storeFailed("outcome", err)
			return true, gone(ctx)
		}
	case awaitsSound(job):
		j := d.resume(job)
		j.owner = soundOwner
		c := cause{reason: job.Reason, certain: certainly(job.Reason), spares: spares(job.Reason)}
		if j.f.seek(job) {
			d.background(func(ctx context.Context) { j.proceed(ctx, c) })
		}
	case job.State == core.StateRetrying && !d.mine(job):
		d.inherit(ctx, job)
	}
	return true, nil
}

// inherit goes on with a retry whose owner's time is over, and leaves it alone while it is not.
func (d *Dispatcher) inherit(ctx context.Context, job *core.Job) {
	j := d.resume(job)
	j.owner = d.token()
	if !j.takeOver(ctx, j.owner, retryLease) || !j.f.seek(j.job) {
		return
	}
	c := cause{reason: job.Reason, certain: certainly(job.Reason), spares: spares(job.Reason)}
	d.background(func(ctx context.Context) { j.proceed(ctx, c) })
}

// spares reports whether an attempt that ended for a reason costs the job none.
func spares(r core.Reason) bool {
	return r == core.ReasonNodeBusy || r == core.ReasonDeliveryRefused || r == core.ReasonAudioLost
}

// certainly reports whether a node whose attempt ended for a reason does not have the job.
func certainly(r core.Reason) bool {
	return spares(r) || r == core.ReasonNodeFailed || r == core.ReasonModelNotAvailable
}
