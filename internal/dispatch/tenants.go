package dispatch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/wire"
)

// tenantLimits counts the jobs of tenants that have limits. A request is counted before a node is selected for it or it waits in the queue,
// so that a tenant at its limit takes neither a slot nor a turn from others. It is counted until its job has ended, whichever instance ends
// it, or until it is refused. A tenant without a limit costs nothing.
type tenantLimits struct {
	gate     *tenants.Gate // nil: no tenant has limits
	cfg      *Config
	store    *storeClient
	tasks    *run.Group
	inFlight *inFlightTable
	tokens   *tokenSource
	rooms    *roomLines

	mu   run.Mutex
	held map[*admission]struct{} // counts of requests that wait in the queue
}

func newTenantLimits(cfg *Config, st *storeClient, tasks *run.Group, inFlight *inFlightTable, tokens *tokenSource) *tenantLimits {
	return &tenantLimits{
		gate: cfg.Tenants, cfg: cfg, store: st, tasks: tasks, inFlight: inFlight, tokens: tokens,
		rooms: newRoomLines(cmp.Or(cfg.MaxWaiting, defaultMaxWaiting)),
		mu:    run.NewMutex("dispatch_held"), held: make(map[*admission]struct{}),
	}
}

// heldFor is for how long the count of a waiting request is valid. It is renewed: the count of an instance that dies should not last
// longer.
const heldFor = 15 * tenants.RenewJobsInterval

// admission is the count of a request whose job was not created yet.
type admission struct {
	limits   *tenantLimits
	spec     core.Spec
	token    core.Token
	released bool // guarded by the lock of limits
}

// name returns the name of the count, which the job gets. Nil is the admission of a request that is not counted.
func (a *admission) name() core.Token {
	if a == nil {
		return ""
	}
	return a.token
}

// uncount ends the count of a request whose job was not created, and gives its tokens back.
func (r *Request) uncount() {
	if a := r.counted; a != nil {
		r.counted = nil
		a.limits.release(a)
	}
}

// admit counts the job of a request for as long as the job may take.
func (l *tenantLimits) admit(ctx context.Context, r *Request) *wire.Error {
	timeout := cmp.Or(r.timeout, l.cfg.JobTimeout)
	if r.Utterance.Turn > 0 {
		timeout += l.cfg.AudioGrace // it may wait for its audio once
	}
	return l.count(ctx, r, tenants.KeepJob(timeout))
}

// hold counts a request while it waits.
func (l *tenantLimits) hold(ctx context.Context, r *Request) *wire.Error {
	if e := l.count(ctx, r, heldFor); e != nil || r.counted == nil {
		return e
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[r.counted] = struct{}{}
	return nil
}

// count counts a request, unless a limit forbids it. One that is counted is counted for keep from now on; if its count has expired, it is
// counted again or refused.
func (l *tenantLimits) count(ctx context.Context, r *Request, keep time.Duration) *wire.Error {
	if l.gate == nil || r.Probe || r.counted == nil && !l.gate.LimitsJobs(r.Tenant) {
		return nil
	}
	if r.counted == nil {
		r.counted = &admission{limits: l, spec: r.Spec, token: l.tokens.next()}
	}
	refusal, err := l.gate.AdmitJob(ctx, &r.counted.spec, r.counted.token, keep)
	if err != nil {
		l.store.RecordError("admit", err)
		r.uncount() // it may be counted
		return store.Unavailable()
	}
	if refusal == nil {
		return nil
	}
	l.forget(r.counted)
	r.counted, r.limit = nil, refusal.Limit
	return refusal.Error
}

// forget stops renewing a count.
func (l *tenantLimits) forget(a *admission) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, a)
}

// created says that a request has become a job, with whose end its count ends.
func (r *Request) created() {
	if a := r.counted; a != nil {
		r.counted = nil
		a.limits.forget(a)
	}
}

// release ends the count of a request whose job was not created, and gives its tokens back.
func (l *tenantLimits) release(a *admission) {
	l.mu.Lock()
	delete(l.held, a)
	a.released = true
	l.mu.Unlock()
	l.remove(&a.spec, a.token, true)
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
		if l.store.Retry(ctx, func() error { return l.gate.EndJob(ctx, spec, token, undo) }) {
			l.rooms.wake(spec.Tenant)
		}
	})
}

// RenewTenants restores the counts of jobs and of waiting requests that the store has lost, from time to time, until the context ends.
func (d *Dispatcher) RenewTenants(ctx context.Context) {
	for d.limits.gate != nil && run.Sleep(ctx, run.Jitter(tenants.RenewJobsInterval, 0.1)) {
		d.limits.renewJobs(ctx)
		d.limits.renewHeld(ctx)
	}
}

// renewJobs restores the counts of in-flight jobs that the store has lost.
func (l *tenantLimits) renewJobs(ctx context.Context) {
	for tenant, counted := range l.inFlight.countedByTenant() {
		missing, err := l.gate.RenewJobs(ctx, tenant, counted.names, 0)
		if err != nil {
			l.store.RecordError("renew", err)
			continue // the next time will do
		}
		for _, name := range missing {
			if f := l.inFlight.get(counted.jobs[name]); f != nil {
				l.restoreJob(ctx, f)
			}
		}
	}
}

// restoreJob counts a job that is not counted. Another instance may end the job, and remove its count, at the same time: the record is read
// after the count was added, so that one of the two removes it.
func (l *tenantLimits) restoreJob(ctx context.Context, f *inFlightJob) {
	job := f.record()
	if err := l.gate.RestoreJob(ctx, &job.Spec, job.Admission, tenants.KeepJob(max(time.Until(f.deadline), 0))); err != nil {
		l.store.RecordError("renew", err)
		return
	}
	if current, err := l.store.Get(ctx, job.ID); errors.Is(err, store.ErrNoJob) || err == nil &&
		(current.State.Terminal() || current.Admission != job.Admission) {
		l.remove(&job.Spec, job.Admission, false)
	}
}

// renewHeld renews the counts of requests that wait, and restores those that the store has lost.
func (l *tenantLimits) renewHeld(ctx context.Context) {
	for tenant, held := range l.heldByTenant() {
		names := make([]string, 0, len(held))
		for name := range held {
			names = append(names, name)
		}
		missing, err := l.gate.RenewJobs(ctx, tenant, names, heldFor)
		if err != nil {
			l.store.RecordError("renew", err)
			continue
		}
		for _, name := range missing {
			l.restoreHeld(ctx, held[name])
		}
	}
}

// restoreHeld counts a waiting request that is not counted. If it is released at the same time, its count may be removed before it is added
// here: it is removed again.
func (l *tenantLimits) restoreHeld(ctx context.Context, a *admission) {
	if held, _ := l.state(a); !held {
		return
	}
	if err := l.gate.RestoreJob(ctx, &a.spec, a.token, heldFor); err != nil {
		l.store.RecordError("renew", err)
	}
	if _, released := l.state(a); released {
		l.remove(&a.spec, a.token, false)
	}
}

// state reports whether a count is that of a request that waits, and whether it was ended.
func (l *tenantLimits) state(a *admission) (held, released bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, held = l.held[a]
	return held, a.released
}

// heldByTenant returns the counts of waiting requests, by tenant and name.
func (l *tenantLimits) heldByTenant() map[core.TenantID]map[string]*admission {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[core.TenantID]map[string]*admission)
	for a := range l.held {
		if all[a.spec.Tenant] == nil {
			all[a.spec.Tenant] = make(map[string]*admission)
		}
		all[a.spec.Tenant][string(a.token)] = a
	}
	return all
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
