package tenants

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Gate admits the jobs and sessions of tenants, within the limits that are in force. A tenant without a limit costs no call of the store.
type Gate struct {
	*Current
	store   store.Tenants
	onLimit func(limit store.TenantLimit)

	mu       run.Mutex
	refusals map[core.TenantID]Refusals
}

// Refusals counts refusals by the limit that caused them.
type Refusals map[store.TenantLimit]int64

// maxCountedTenants bounds the tenants whose refusals are counted: callers choose their names.
const maxCountedTenants = 1000

// NewGate makes a gate. onLimit is called for every refusal.
func NewGate(c *Current, st store.Tenants, onLimit func(limit store.TenantLimit)) *Gate {
	return &Gate{Current: c, store: st, onLimit: onLimit, mu: run.NewMutex("tenants_refusals"), refusals: make(map[core.TenantID]Refusals)}
}

const (
	// expiryMargin is how long after its deadline a job is counted that nobody has ended.
	expiryMargin = 10 * time.Second
	// retryInFlight is after how long a caller should try again while too many jobs are in flight. It is about as long as a job takes.
	retryInFlight = 500 * time.Millisecond
	// retrySessions is after how long a caller should try again while there are too many sessions. They last longer than jobs.
	retrySessions = 5 * time.Second
)

const (
	// RenewInterval is how often instances renew the counts of their sessions.
	RenewInterval = 5 * time.Second
	// RenewJobsInterval is how often they renew those of their jobs.
	RenewJobsInterval = time.Second
)

// LimitsJobs reports whether jobs of a tenant have to be admitted.
func (g *Gate) LimitsJobs(tenant core.TenantID) bool {
	limits := g.Of(tenant)
	return limits.LimitsJobs()
}

// job describes the job of a request.
func (g *Gate) job(spec *core.Spec, admission core.Token) store.MemberParams {
	return store.MemberParams{
		Tenant: spec.Tenant, Kind: store.TenantJob, Member: string(admission), Limits: g.Of(spec.Tenant),
		Audio: time.Duration(spec.Utterance.AudioMS) * time.Millisecond,
	}
}

// keepJob is for how long a job is counted that may take this long, if nobody ends it.
func keepJob(timeout time.Duration) time.Duration { return timeout + expiryMargin }

// Refusal says which limit forbids a job or a session.
type Refusal struct {
	*wire.Error
	Limit store.TenantLimit
}

// AdmitJob counts the job of a request for its tenant until it is ended or undone, or for keep. A job that is counted is counted for keep
// from now on. The refusal, if any, is not counted: the request may wait.
func (g *Gate) AdmitJob(ctx context.Context, spec *core.Spec, admission core.Token, keep time.Duration) (*Refusal, error) {
	p := g.job(spec, admission)
	p.Keep = keep
	v, err := g.store.AdmitMember(ctx, p)
	if err != nil || v.Refused == store.NoLimit {
		return nil, err
	}
	return &Refusal{Error: describeRefusal(&p, v), Limit: v.Refused}, nil
}

// EndJob ends the count of a job that has ended. One that never began, because its request was refused, gives its tokens back.
func (g *Gate) EndJob(ctx context.Context, spec *core.Spec, admission core.Token, undo bool) error {
	p := g.job(spec, admission)
	p.Undo = undo
	return g.store.RemoveMember(ctx, p)
}

// RestoreJob counts a job again, for keep, that the store has lost.
func (g *Gate) RestoreJob(ctx context.Context, spec *core.Spec, admission core.Token, keep time.Duration) error {
	p := g.job(spec, admission)
	p.Restore, p.Keep = true, keep
	_, err := g.store.AdmitMember(ctx, p)
	return err
}

// RenewJobs counts jobs of a tenant for keep from now on, if they would be counted for less, and returns those that the store has lost.
func (g *Gate) RenewJobs(ctx context.Context, tenant core.TenantID, admissions []string, keep time.Duration) (missing []string, err error) {
	return g.store.RenewMembers(ctx, store.RenewParams{Tenant: tenant, Kind: store.TenantJob, Members: admissions, Keep: keep})
}

// LimitsSessions reports whether sessions of a tenant have to be admitted.
func (g *Gate) LimitsSessions(tenant core.TenantID) bool { return g.Of(tenant).Sessions > 0 }

// SessionMember names a session among those that are counted for its tenant.
func SessionMember(ref core.SessionRef) string {
	return string(ref.Name) + "/" + string(ref.Incarnation)
}

// session describes a session. It is counted for as long as it can be resumed after its instance has died.
func (g *Gate) session(ref core.SessionRef, resume time.Duration) store.MemberParams {
	return store.MemberParams{
		Tenant: ref.Tenant, Kind: store.TenantSession, Member: SessionMember(ref), Limits: g.Of(ref.Tenant), Keep: keepSession(resume),
	}
}

// keepSession is how long a session is counted that its instance does not renew. A renewal may fail once.
func keepSession(resume time.Duration) time.Duration { return resume + 3*RenewInterval }

// AdmitSession counts a session for its tenant. The refusal, if any, says which limit forbids it.
func (g *Gate) AdmitSession(ctx context.Context, ref core.SessionRef, resume time.Duration) (refusal *wire.Error, err error) {
	p := g.session(ref, resume)
	v, err := g.store.AdmitMember(ctx, p)
	if err != nil || v.Refused == store.NoLimit {
		return nil, err
	}
	g.CountRefusal(p.Tenant, v.Refused)
	return describeRefusal(&p, v), nil
}

// EndSession ends the count of a session.
func (g *Gate) EndSession(ctx context.Context, ref core.SessionRef) error {
	return g.store.RemoveMember(ctx, g.session(ref, 0))
}

// RenewSessions renews the counts of a tenant's sessions, and returns those that are not counted: their limit is new, or the store has lost
// them.
func (g *Gate) RenewSessions(ctx context.Context, tenant core.TenantID, members []string, resume time.Duration) (missing []string,
	err error) {
	return g.store.RenewMembers(ctx,
		store.RenewParams{Tenant: tenant, Kind: store.TenantSession, Members: members, Keep: keepSession(resume)})
}

// RestoreSession counts a session that runs, whatever the limit is.
func (g *Gate) RestoreSession(ctx context.Context, ref core.SessionRef, resume time.Duration) error {
	p := g.session(ref, resume)
	p.Restore = true
	_, err := g.store.AdmitMember(ctx, p)
	return err
}

// Use returns what tenants use.
func (g *Gate) Use(ctx context.Context, ids []core.TenantID) ([]store.TenantUse, error) {
	return g.store.ReadTenants(ctx, ids)
}

// Refusals returns the refusals of this instance by tenant.
func (g *Gate) Refusals() map[core.TenantID]Refusals {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[core.TenantID]Refusals, len(g.refusals))
	for id, counts := range g.refusals {
		all[id] = maps.Clone(counts)
	}
	return all
}

// describeRefusal returns the error for a member that was not admitted.
func describeRefusal(p *store.MemberParams, v store.TenantVerdict) *wire.Error {
	tenant := "tenant " + wire.Quote(string(p.Tenant))
	if p.Tenant == "" {
		tenant = "the tenant of callers without one"
	}
	retry := max(v.RetryIn.Truncate(time.Millisecond), time.Millisecond)
	if retry < v.RetryIn {
		retry += time.Millisecond
	}
	e := &wire.Error{Code: wire.RateLimited}
	lost := v.RetryIn > 0 && (v.Refused == store.LimitInFlight || v.Refused == store.LimitSessions)
	switch {
	case lost:
		e.Detail = fmt.Sprintf("what %s uses of its %s was lost and is counted again: try again in %s", tenant, v.Refused, describe(retry))
	case v.Refused == store.LimitInFlight:
		retry = retryInFlight
		e.Detail = fmt.Sprintf("%s has %s in flight, and its %s is %d: try again when one has ended", tenant, count(v.Used, "job"),
			v.Refused, p.Limits.InFlight)
	case v.Refused == store.LimitSessions:
		retry = retrySessions
		e.Detail = fmt.Sprintf("%s has %s, and its %s is %d: end one, or try again later", tenant, count(v.Used, "session"), v.Refused,
			p.Limits.Sessions)
	case v.Refused == store.LimitDispatchRate:
		e.Detail = fmt.Sprintf("%s begins more jobs than its %s of %v allows: try again in %s, or send fewer", tenant, v.Refused,
			p.Limits.DispatchRate, describe(retry))
	case v.Refused == store.LimitAudioRate:
		e.Detail = fmt.Sprintf("%s has sent more audio than its %s of %v allows: try again in %s", tenant, v.Refused, p.Limits.AudioRate,
			describe(retry))
	}
	return e.RetryIn(retry)
}

// count formats a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// describe formats a time for people.
func describe(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
}

// CountRefusal counts a request or a session of a tenant that was refused because of a limit.
func (g *Gate) CountRefusal(tenant core.TenantID, limit store.TenantLimit) {
	g.onLimit(limit)
	g.mu.Lock()
	defer g.mu.Unlock()
	counts := g.refusals[tenant]
	if counts == nil {
		if len(g.refusals) >= maxCountedTenants {
			return
		}
		counts = make(Refusals)
		g.refusals[tenant] = counts
	}
	counts[limit]++
}
