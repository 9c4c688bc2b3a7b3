package session

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/wire"
)

// limitsSessions reports whether the sessions of a tenant are counted.
func (d *Directory) limitsSessions(tenant core.TenantID) bool {
	return d.cfg.Tenants != nil && d.cfg.Tenants.LimitsSessions(tenant)
}

// createWithin creates a session within the limit of its tenant. It reports false if there is a session with its name, which may be the one
// that the request has started before: that one is counted, and its repetition is refused by no limit.
func (r *Registry) createWithin(ctx context.Context, s *Session) (created bool, err error) {
	if !r.limitsSessions(s.ref.Tenant) {
		return r.createOrReplace(ctx, s)
	}
	refusal, err := r.cfg.Tenants.AdmitSession(ctx, s.ref, r.cfg.Resume)
	switch {
	case err != nil:
		r.endCount(s.ref) // it may be counted
		return false, r.storeDown(err)
	case refusal != nil:
		return false, r.refuseNew(ctx, s.ref.SessionKey, refusal)
	}
	if created, err = r.createOrReplace(ctx, s); !created {
		r.endCount(s.ref)
	}
	return created, err
}

// refuseNew returns the refusal of a session, unless there is a session of its name.
func (r *Registry) refuseNew(ctx context.Context, key core.SessionKey, refusal *wire.Error) error {
	exists, err := r.Exists(ctx, key)
	switch {
	case err != nil:
		return r.storeDown(err)
	case exists:
		return nil
	}
	return refusal
}

// createOrReplace creates a session. One of its name that is revoked makes room for it.
func (r *Registry) createOrReplace(ctx context.Context, s *Session) (created bool, err error) {
	if created, err = r.create(ctx, s); err != nil || created {
		return created, err
	}
	free, err := r.dropRevoked(ctx, s.ref.SessionKey)
	if err != nil || !free {
		return false, err
	}
	return r.create(ctx, s)
}

// endCount ends the count of a session in the background, if its tenant has a limit. If that fails, the count expires.
func (r *Registry) endCount(ref core.SessionRef) {
	if !r.limitsSessions(ref.Tenant) {
		return
	}
	r.background.Go(func(ctx context.Context) {
		storeBackoff.Retry(ctx, func() error {
			err := r.cfg.Tenants.EndSession(ctx, ref)
			if err != nil {
				r.log.Warn("the store did not answer", "operation", "session", "error", err)
			}
			return err
		})
	})
}

// RenewTenants renews the counts of the sessions of this instance, from time to time, until the context ends.
func (r *Registry) RenewTenants(ctx context.Context) {
	for r.cfg.Tenants != nil && run.Sleep(ctx, run.Jitter(tenants.RenewInterval, 0.1)) {
		r.renewCounts(ctx)
	}
}

// renewCounts renews the counts of the sessions of this instance. A session that is not counted, because its limit is new or the store has
// lost it, is counted from now on.
func (r *Registry) renewCounts(ctx context.Context) {
	type counted struct {
		members  []string
		sessions map[string]*Session
	}
	byTenant := make(map[core.TenantID]*counted)
	for _, s := range r.all() {
		if !r.limitsSessions(s.ref.Tenant) || !s.isCounted() {
			continue
		}
		c := byTenant[s.ref.Tenant]
		if c == nil {
			c = &counted{sessions: make(map[string]*Session)}
			byTenant[s.ref.Tenant] = c
		}
		member := tenants.SessionMember(s.ref)
		c.members, c.sessions[member] = append(c.members, member), s
	}
	for tenant, c := range byTenant {
		missing, err := r.cfg.Tenants.RenewSessions(ctx, tenant, c.members, r.cfg.Resume)
		for _, member := range missing {
			if s := c.sessions[member]; err == nil && s.isCounted() {
				err = r.cfg.Tenants.RestoreSession(ctx, s.ref, r.cfg.Resume)
			}
		}
		if err != nil {
			r.log.Warn("the store did not answer", "operation", "session", "error", err) // the next time will do
		}
	}
}

// isCounted reports whether the session counts for its tenant: until it has ended here, or continues elsewhere.
func (s *Session) isCounted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.finished && !s.hasEnded()
}

// CountByTenant counts the sessions of this instance that have not ended, by tenant.
func (r *Registry) CountByTenant() map[core.TenantID]int {
	counts := make(map[core.TenantID]int)
	for _, s := range r.all() {
		if s.isCounted() {
			counts[s.ref.Tenant]++
		}
	}
	return counts
}
