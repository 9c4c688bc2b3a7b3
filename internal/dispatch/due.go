package dispatch

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// dueFunc is what a flight's timer calls.
func (d *Dispatcher) dueFunc(f *flight) func() {
	return func() {
		d.background(func(ctx context.Context) { d.due(ctx, f) })
	}
}

// due judges a flight whose time is up. It is the fast path: if this process dies, a heartbeat of the node
// or the end of its presence brings the same question up elsewhere.
func (d *Dispatcher) due(ctx context.Context, f *flight) {
	f.mu.Lock()
	job, now := f.job, time.Now()
	waiting := f.phase
	// The timer may have gone off just before the job moved on and another wait began.
	if f.over || waiting == phaseMoving || now.Before(f.until) {
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()

	c := cause{reason: core.ReasonAttemptTimeout}
	if waiting == phaseACK && now.Before(f.deadline) {
		// The node may have confirmed to another instance.
		if lease, ok, err := d.store.Lease(ctx, leaseOf(job)); err == nil && ok && lease.State == core.LeaseRunning {
			f.wait(job.Token, phaseRunning, time.Time{}, d.dueFunc(f))
			return
		}
		c.reason = core.ReasonACKTimeout
	}
	j := d.onward(job, f)
	if j.giveUp(ctx, c) {
		j.proceed(ctx, c)
	}
}
