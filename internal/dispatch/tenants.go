package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/lockwait"
	"github.com/lingua-scheduler/lingua/internal/parallel"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/wire"
)

// tenantLimits counts the jobs of tenants that have limits. A job is admitted before a node is selected for it, and counted until it has
// ended, whichever instance ends it. A tenant without a limit costs nothing.
type tenantLimits struct {
	gate     *tenants.Gate // nil: no tenant has limits
	cfg      *Config
	store    *storeClient
	tasks    *parallel.Group
	inFlight *inFlightTable

	mu      lockwait.Mutex[lockwait.DispatchTenants]
	waiting map[core.TenantID][]*roomWaiter
}

// roomWaiter is a request that waits until its tenant has room.
type roomWaiter struct {
	since time.Time
	wake  chan<- struct{}
}

// admission is the count of a request whose job was not created yet. Nil is that of a request that is not counted.
type admission struct {
	limits *tenantLimits // nil: it was undone, or is undone elsewhere
	spec   core.Spec
	token  core.Token
}

// admit counts the job of a request. The caller undoes it unless the job is created.
func (l *tenantLimits) admit(ctx context.Context, r *Request, token core.Token) (*admission, *wire.Error) {
	if l.gate == nil || r.Probe || !l.gate.LimitsJobs(r.Tenant) {
		return nil, nil
	}
	a := &admission{limits: l, spec: r.Spec, token: token}
	refusal, err := l.gate.AdmitJob(ctx, &a.spec, token, l.keep(&r.Spec))
	if err != nil {
		l.store.recordError("admit", err)
		a.undo() // it may be counted
		return nil, store.Unavailable()
	}
	return a, refusal
}

// keep is how long a job may take. That of an utterance may wait for its audio once.
func (l *tenantLimits) keep(spec *core.Spec) time.Duration {
	if spec.Utterance.Turn > 0 {
		return l.cfg.JobTimeout + l.cfg.AudioGrace
	}
	return l.cfg.JobTimeout
}

// name returns the name of the count, which the job gets.
func (a *admission) name() core.Token {
	if a == nil {
		return ""
	}
	return a.token
}

// undo ends the count of a request whose job was not created, and gives its tokens back.
func (a *admission) undo() {
	if a != nil && a.limits != nil {
		a.limits.remove(&a.spec, a.token, true)
	}
}

// hold makes undo do nothing, and returns a function that does it: the caller does not know yet whether the job was created.
func (a *admission) hold() (undo func()) {
	if a == nil {
		return func() {}
	}
	held := *a
	a.limits = nil
	return held.undo
}

// jobEnded ends the count of a job. A job that was refused gives its tokens back: its caller was told that it is none.
func (l *tenantLimits) jobEnded(job *core.Job) {
	if l.gate != nil && job.Admission != "" {
		l.remove(&job.Spec, job.Admission, job.Refused())
	}
}

// remove ends a count in the background: nobody waits for it, and it is retried until the store answers.
func (l *tenantLimits) remove(spec *core.Spec, token core.Token, undo bool) {
	l.tasks.Go(func(ctx context.Context) {
		if l.store.retry(ctx, func() error { return l.gate.EndJob(ctx, spec, token, undo) }) {
			l.wakeNext(spec.Tenant)
		}
	})
}

// awaitRoom makes a count that ends on this instance wake a request that a limit of its tenant has refused, until the caller calls stop.
func (l *tenantLimits) awaitRoom(e *wire.Error, r *Request, wake chan<- struct{}) (stop func()) {
	if e.Code != wire.RateLimited {
		return func() {}
	}
	w := &roomWaiter{since: r.since, wake: wake}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[r.Tenant] = append(l.waiting[r.Tenant], w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		list := slices.DeleteFunc(l.waiting[r.Tenant], func(other *roomWaiter) bool { return other == w })
		if l.waiting[r.Tenant] = list; len(list) == 0 {
			delete(l.waiting, r.Tenant)
		}
	}
}

// wakeNext wakes the request of a tenant that has waited longest for room.
func (l *tenantLimits) wakeNext(tenant core.TenantID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting[tenant]) == 0 {
		return
	}
	next := slices.MinFunc(l.waiting[tenant], func(a, b *roomWaiter) int { return a.since.Compare(b.since) })
	select {
	case next.wake <- struct{}{}:
	default: // it is awake
	}
}

// RenewTenants restores the counts of in-flight jobs that the store has lost, from time to time, until the context ends.
func (d *Dispatcher) RenewTenants(ctx context.Context) {
	for d.limits.gate != nil && backoff.Sleep(ctx, backoff.Jitter(tenants.RenewInterval, 0.1)) {
		d.limits.renew(ctx)
	}
}

// renew restores the counts of in-flight jobs that the store has lost.
func (l *tenantLimits) renew(ctx context.Context) {
	for tenant, counted := range l.inFlight.countedByTenant() {
		missing, err := l.gate.MissingJobs(ctx, tenant, counted.names)
		if err != nil {
			l.store.recordError("renew", err)
			continue // the next time will do
		}
		for _, name := range missing {
			// A job that has ended since is not counted any more on purpose.
			f := l.inFlight.get(counted.jobs[name])
			if f == nil {
				continue
			}
			job := f.record()
			if current, err := l.store.Get(ctx, job.ID); err != nil || current.State.Terminal() {
				continue // another instance has ended it, and its count
			}
			if err := l.gate.RestoreJob(ctx, &job.Spec, max(time.Until(f.deadline), 0)); err != nil {
				l.store.recordError("renew", err)
			}
		}
	}
}

// countedJobs are the in-flight jobs of one tenant that are counted.
type countedJobs struct {
	names []string
	jobs  map[string]core.JobID // by name
}

// countedByTenant returns the in-flight jobs that are counted for their tenants.
func (t *inFlightTable) countedByTenant() map[core.TenantID]*countedJobs {
	all := make(map[core.TenantID]*countedJobs)
	t.each(func(f *inFlightJob) {
		job := f.record()
		if job.Admission == "" {
			return
		}
		counted := all[job.Tenant]
		if counted == nil {
			counted = &countedJobs{jobs: make(map[string]core.JobID)}
			all[job.Tenant] = counted
		}
		counted.names = append(counted.names, string(job.Admission))
		counted.jobs[string(job.Admission)] = job.ID
	})
	return all
}

// InFlightByTenant counts the in-flight jobs of this instance by tenant.
func (d *Dispatcher) InFlightByTenant() map[core.TenantID]int {
	counts := make(map[core.TenantID]int)
	d.inFlight.each(func(f *inFlightJob) { counts[f.record().Tenant]++ })
	return counts
}

// waitEnds returns until when a request waits that was refused: it is refused for good then. One that its tenant's limits forbid for longer
// than it may wait is refused at once, so that its caller knows when to come again.
func (w *Wait) waitEnds(e *wire.Error) time.Time {
	switch {
	case e.Code == wire.NoCapableNode && w.Join.Before(w.Until):
		return w.Join
	case e.Code == wire.RateLimited && time.Now().Add(recheckAfter(e)).After(w.Until):
		return time.Time{}
	}
	return w.Until
}

// recheckAfter returns after how long a waiting request tries again, unless it is woken before.
func recheckAfter(e *wire.Error) time.Duration {
	switch e.Code {
	case wire.NoCapableNode:
		return recheckIncapable
	case wire.RateLimited:
		return time.Duration(e.RetryAfterMS) * time.Millisecond
	}
	return recheckInterval
}
