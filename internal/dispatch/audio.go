package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pause"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// soundOwner is whom a record names while its job waits for its sound: whoever has the sound may take it on.
const soundOwner core.Token = "sound"

// shelve puts a job aside whose sound is not here: it was lost with the instance that had it. The speaker may send it
// again; until then the job's time does not run.
func (j *journey) shelve(ctx context.Context) {
	if !j.apply(ctx, store.ApplyParams{
		Event: core.EventRetry, Holder: j.job.Holder, Owner: soundOwner, RetryFor: j.d.cfg.AudioGrace, Reason: core.ReasonAudioLost,
	}) {
		return
	}
	d, id := j.d, j.job.ID
	d.log.Info("the sound of a job was lost; it waits for it to be sent again", "job_id", id, "session_id", j.job.Session)
	d.release(leaseOf(j.job), d.fleet.Node(j.job.Node), true) // and until then somebody must be able to find it
	d.flights.remove(id)
	d.background(func(ctx context.Context) {
		if pause.For(ctx, d.cfg.AudioGrace+time.Second) {
			if err := d.giveUpSound(ctx, id); err != nil {
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
func (d *Dispatcher) Rearm(ctx context.Context, id core.JobID) (known bool, err error) {
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
		if j.f.seek(job) {
			d.background(func(ctx context.Context) {
				j.proceed(ctx, cause{reason: core.ReasonAudioLost, certain: true, spares: true})
			})
		}
	}
	return true, nil
}
