package dispatch

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
)

// dueFunc is what a flight's timer calls.
func (d *Dispatcher) dueFunc(f *inFlightJob) func() {
	return func() {
		d.background(func(ctx context.Context) { d.due(ctx, f) })
	}
}

// due judges a flight whose time is up. It is the fast path: if this process dies, a heartbeat of the node
// or the end of its presence brings the same question up elsewhere.
func (d *Dispatcher) due(ctx context.Context, f *inFlightJob) {
	f.mu.Lock()
	job, ends, now := f.job, f.ends, time.Now()
	waiting := f.phase
	// The timer may have gone off just before the job moved on and another wait began.
	if f.over || waiting == phaseMoving || now.Before(f.until) {
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()

	c := cause{reason: core.ReasonAttemptTimeout}
	if waiting == phaseACK && now.Before(f.deadline) {
		confirmed, known := d.confirmed(ctx, job)
		switch {
		case confirmed:
			f.wait(job.Token, phaseRunning, now.Add(backoff.Jitter(lookAfter, 0.2)), d.dueFunc(f))
			return
		case !known && now.Before(ends):
			// While the store was away no confirmation could be heard: the node has its time anew.
			f.wait(job.Token, phaseACK, now.Add(d.cfg.ACKTimeout), d.dueFunc(f))
			return
		}
		c.reason = core.ReasonACKTimeout
	}
	if waiting == phaseRunning && now.Before(ends) && now.Before(f.deadline) {
		// Another instance may have heard how it ended, or that its node gave it up.
		if at, err := d.store.Get(ctx, job.ID); err == nil && (at.Token != job.Token || at.State != core.StateDispatched) {
			d.flights.remove(job.ID)
			d.reclaim(ctx, at)
			return
		}
		f.wait(job.Token, phaseRunning, now.Add(backoff.Jitter(lookAfter, 0.2)), d.dueFunc(f))
		return
	}
	j := d.onward(job, f)
	if j.giveUp(ctx, c) {
		j.proceed(ctx, c)
		return
	}
	d.reclaim(ctx, j.job)
}

// reclaim goes on with a job that another instance has put aside because it does not have the sound, which is here.
// Word of it may have been lost.
func (d *Dispatcher) reclaim(ctx context.Context, job *core.Job) {
	if awaitsSound(job) && d.cfg.HasAudio(job) {
		if _, err := d.ResumeWithAudio(ctx, job.ID); err != nil {
			d.storeFailed("rearm", err)
		}
	}
}

// lookAfter is how often a job that runs is looked at, in case another instance has heard of its end.
const lookAfter = 2 * time.Second

// confirmed reports whether a node has confirmed a job, perhaps to another instance, and whether that can be known: not
// when the store is away, or was so lately that the node could not say it.
func (d *Dispatcher) confirmed(ctx context.Context, job *core.Job) (confirmed, known bool) {
	leases, err := d.store.Leases(ctx, leaseOf(job))
	if err != nil {
		d.storeFailed("lease", err)
		return false, false
	}
	away := time.Since(time.Unix(0, d.failed.Load()))
	return leases[0].State == core.LeaseRunning, away >= d.cfg.ACKTimeout
}
