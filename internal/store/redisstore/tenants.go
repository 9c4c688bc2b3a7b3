package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// The replies of admit_member.
const (
	memberAdmitted = iota
	memberTooMany
	memberDispatchRate
	memberAudioRate
	memberSetLost
)

// membersTTL is for how long the set of a tenant's members lives at least after the last change.
const membersTTL = 30 * time.Minute

// memberSets remembers which sets of members this instance has used: while they live, one that is not there was lost.
type memberSets struct {
	mu   run.Mutex
	used map[memberSet]time.Time // when
}

// memberSet names the members of a tenant.
type memberSet struct {
	tenant core.TenantID
	kind   store.MemberKind
}

// maxMemberSets bounds the sets that are remembered. If there are more, a lost one is known by its other key.
const maxMemberSets = 10_000

// known reports whether a set must be there.
func (m *memberSets) known(set memberSet) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.used[set]) < membersTTL/2
}

// use records that a set was there.
func (m *memberSets) use(set memberSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used == nil || len(m.used) >= maxMemberSets {
		m.used = make(map[memberSet]time.Time)
	}
	m.used[set] = time.Now()
}

// AdmitMember implements store.Tenants.
func (s *Store) AdmitMember(ctx context.Context, p store.MemberParams) (store.TenantVerdict, error) {
	limit := p.MaxMembers()
	if p.Restore {
		limit = -1
	}
	known := "0"
	if s.memberSets.known(memberSet{p.Tenant, p.Kind}) {
		known = "1"
	}
	dispatch, audio := p.Costs()
	_, r, err := s.client.runScript(ctx, &scriptAdmitMember, append(s.memberKeys(&p), s.keys.known(p.Tenant, p.Kind)), p.Member,
		millis(p.Keep), strconv.Itoa(limit),
		exactMillis(dispatch), exactMillis(store.DispatchBurst(p.Limits.DispatchRate)), exactMillis(audio), exactMillis(store.AudioBurst),
		known, millis(p.Kind.RestoredWithin()))
	if err != nil {
		return store.TenantVerdict{}, err
	}
	v := store.TenantVerdict{Used: int(r.int(1)), RetryIn: time.Duration(r.int(2)) * time.Millisecond}
	switch r.int(0) {
	case memberAdmitted:
		s.memberSets.use(memberSet{p.Tenant, p.Kind})
	case memberDispatchRate:
		v.Refused = store.LimitDispatchRate
	case memberAudioRate:
		v.Refused = store.LimitAudioRate
	case memberTooMany, memberSetLost:
		if v.Refused = store.LimitInFlight; p.Kind == store.TenantSession {
			v.Refused = store.LimitSessions
		}
	}
	return v, nil
}

// RemoveMember implements store.Tenants.
func (s *Store) RemoveMember(ctx context.Context, p store.MemberParams) error {
	var dispatch, audio time.Duration
	if p.Undo {
		dispatch, audio = p.Costs()
	}
	_, _, err := s.client.runScript(ctx, &scriptRemoveMember, s.memberKeys(&p), p.Member, exactMillis(dispatch), exactMillis(audio))
	return err
}

// memberKeys returns the keys of the members of a kind and of the rates of a tenant.
func (s *Store) memberKeys(p *store.MemberParams) []string {
	return []string{s.keys.members(p.Tenant, p.Kind), s.keys.rates(p.Tenant)}
}

// RenewMembers implements store.Tenants.
func (s *Store) RenewMembers(ctx context.Context, p store.RenewParams) (missing []string, err error) {
	keys := []string{s.keys.members(p.Tenant, p.Kind), s.keys.known(p.Tenant, p.Kind)}
	for from := 0; from < len(p.Members); from += maxRenewed {
		args := append([]string{millis(p.Keep)}, p.Members[from:min(from+maxRenewed, len(p.Members))]...)
		_, r, err := s.client.runScript(ctx, &scriptRenewMembers, keys, args...)
		if err != nil {
			return nil, err
		}
		missing = append(missing, r.texts(0)...)
	}
	return missing, nil
}

// maxRenewed is how many members one script renews: it is less than maxUnpack, and other commands wait for it.
const maxRenewed = 256

// ReadTenants implements store.Tenants.
func (s *Store) ReadTenants(ctx context.Context, tenants []core.TenantID) ([]store.TenantUse, error) {
	calls := make([]scriptCall, len(tenants))
	for i, id := range tenants {
		calls[i] = scriptCall{keys: []string{s.keys.members(id, store.TenantJob), s.keys.members(id, store.TenantSession),
			s.keys.rates(id)}}
	}
	use := make([]store.TenantUse, len(tenants))
	err := s.client.readEach(ctx, &scriptTenantUse, calls, func(i int, _ int64, r reply) {
		use[i] = store.TenantUse{
			InFlight: int(r.int(0)), Sessions: int(r.int(1)),
			DispatchDebt: time.Duration(r.int(2)) * time.Millisecond, AudioDebt: time.Duration(r.int(3)) * time.Millisecond,
		}
	})
	return use, err
}

// exactMillis formats a duration in milliseconds, with its fraction.
func exactMillis(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64)
}
