package memstore

import (
	"context"
	"math"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// tenants holds what the tenants with limits use.
type tenants struct {
	mu      run.Mutex
	byID    map[core.TenantID]*tenant
	sweeper sweeper
}

// tenant holds the members of a tenant, and when its buckets are full.
type tenant struct {
	jobs, sessions            memberSet
	dispatchesFull, audioFull moment
}

// memberSet is members with their expiries.
type memberSet struct {
	expiries map[string]moment
	earliest moment // no member expires before it
}

// members returns the live members of a kind.
func (t *tenant) members(kind store.MemberKind, now moment) *memberSet {
	set := &t.jobs
	if kind == store.TenantSession {
		set = &t.sessions
	}
	set.dropExpired(now)
	return set
}

// dropExpired drops the members that have expired. It walks over the members only if one may have.
func (m *memberSet) dropExpired(now moment) {
	if len(m.expiries) == 0 || !expired(m.earliest, now) {
		return
	}
	m.earliest = math.MaxInt64
	for name, expires := range m.expiries {
		if expired(expires, now) {
			delete(m.expiries, name)
		} else {
			m.earliest = min(m.earliest, expires)
		}
	}
}

// set adds a member, or changes its expiry.
func (m *memberSet) set(name string, expires moment) {
	if len(m.expiries) == 0 {
		m.expiries, m.earliest = make(map[string]moment), expires
	}
	m.expiries[name], m.earliest = expires, min(m.earliest, expires)
}

// debt is after how long a bucket is full.
func debt(full, now moment) time.Duration { return max(0, full.since(now)) }

// lockTenant locks the tenants and returns one, which is made if there is none. It drops tenants that use nothing.
func (s *Store) lockTenant(ctx context.Context, id core.TenantID) (*tenant, moment, error) {
	s.tenants.mu.Lock()
	if err := ctx.Err(); err != nil {
		s.tenants.mu.Unlock()
		return nil, 0, err
	}
	now := s.now()
	s.tenants.sweeper.sweep(now, func() {
		for id, t := range s.tenants.byID {
			if len(t.members(store.TenantJob, now).expiries)+len(t.members(store.TenantSession, now).expiries) == 0 &&
				debt(t.dispatchesFull, now)+debt(t.audioFull, now) == 0 {
				delete(s.tenants.byID, id)
			}
		}
	})
	t := s.tenants.byID[id]
	if t == nil {
		t = new(tenant)
		s.tenants.byID[id] = t
	}
	return t, now, nil
}

// AdmitMember implements store.Tenants.
func (s *Store) AdmitMember(ctx context.Context, p store.MemberParams) (store.TenantVerdict, error) {
	t, now, err := s.lockTenant(ctx, p.Tenant)
	if err != nil {
		return store.TenantVerdict{}, err
	}
	defer s.tenants.mu.Unlock()
	members := t.members(p.Kind, now)
	if expires, known := members.expiries[p.Member]; known {
		if !p.Restore || expires < now.add(p.Keep) {
			members.set(p.Member, now.add(p.Keep))
		}
		return store.TenantVerdict{Used: len(members.expiries)}, nil
	}
	if verdict := t.check(&p, len(members.expiries), now); verdict.Refused != store.NoLimit {
		return verdict, nil
	}
	members.set(p.Member, now.add(p.Keep))
	dispatch, audio := p.Costs()
	t.dispatchesFull = now.add(t.dispatchDebt(&p, now) + dispatch)
	t.audioFull = now.add(debt(t.audioFull, now) + audio)
	return store.TenantVerdict{Used: len(members.expiries)}, nil
}

// dispatchDebt returns the debt of the bucket of dispatches. A debt that is higher than this rate allows is of a lower rate, before a
// reload: one job may begin.
func (t *tenant) dispatchDebt(p *store.MemberParams, now moment) time.Duration {
	d, burst := debt(t.dispatchesFull, now), store.DispatchBurst(p.Limits.DispatchRate)
	if d > burst {
		return burst - store.DispatchCost(p.Limits.DispatchRate)
	}
	return d
}

// check returns the limit that forbids another member, if one does.
func (t *tenant) check(p *store.MemberParams, used int, now moment) store.TenantVerdict {
	refused := store.TenantVerdict{Used: used}
	limit := p.MaxMembers()
	switch dispatch, _ := p.Costs(); {
	case p.Restore:
	case limit > 0 && used >= limit && p.Kind == store.TenantSession:
		refused.Refused = store.LimitSessions
	case limit > 0 && used >= limit:
		refused.Refused = store.LimitInFlight
	case p.Kind != store.TenantJob:
	case dispatch > 0 && t.dispatchDebt(p, now)+dispatch > store.DispatchBurst(p.Limits.DispatchRate):
		refused.Refused, refused.RetryIn = store.LimitDispatchRate,
			t.dispatchDebt(p, now)+dispatch-store.DispatchBurst(p.Limits.DispatchRate)
	case p.Limits.AudioRate > 0 && p.Audio > 0 && debt(t.audioFull, now) > store.AudioBurst:
		refused.Refused, refused.RetryIn = store.LimitAudioRate, debt(t.audioFull, now)-store.AudioBurst
	}
	return refused
}

// RemoveMember implements store.Tenants.
func (s *Store) RemoveMember(ctx context.Context, p store.MemberParams) error {
	t, now, err := s.lockTenant(ctx, p.Tenant)
	if err != nil {
		return err
	}
	defer s.tenants.mu.Unlock()
	members := t.members(p.Kind, now)
	if _, known := members.expiries[p.Member]; !known {
		return nil
	}
	delete(members.expiries, p.Member)
	if dispatch, audio := p.Costs(); p.Undo {
		t.dispatchesFull, t.audioFull = t.dispatchesFull.add(-dispatch), t.audioFull.add(-audio)
	}
	return nil
}

// RenewMembers implements store.Tenants.
func (s *Store) RenewMembers(ctx context.Context, p store.RenewParams) (missing []string, err error) {
	t, now, err := s.lockTenant(ctx, p.Tenant)
	if err != nil {
		return nil, err
	}
	defer s.tenants.mu.Unlock()
	members := t.members(p.Kind, now)
	for _, name := range p.Members {
		if expires, known := members.expiries[name]; known {
			members.set(name, max(expires, now.add(p.Keep)))
		} else {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// ReadTenants implements store.Tenants.
func (s *Store) ReadTenants(ctx context.Context, ids []core.TenantID) ([]store.TenantUse, error) {
	use := make([]store.TenantUse, len(ids))
	for i, id := range ids {
		t, now, err := s.lockTenant(ctx, id)
		if err != nil {
			return nil, err
		}
		use[i] = store.TenantUse{
			InFlight: len(t.members(store.TenantJob, now).expiries), Sessions: len(t.members(store.TenantSession, now).expiries),
			DispatchDebt: debt(t.dispatchesFull, now), AudioDebt: debt(t.audioFull, now),
		}
		s.tenants.mu.Unlock()
	}
	return use, nil
}
