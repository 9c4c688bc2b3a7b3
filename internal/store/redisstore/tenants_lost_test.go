package redisstore_test

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// lostMembers is two instances and the jobs of a tenant that may have two.
type lostMembers struct {
	t        *testing.T
	server   *redistest.Server
	one, two *redisstore.Store
	keys     map[string]string
}

func newLostMembers(t *testing.T) *lostMembers {
	l := &lostMembers{t: t, server: redistest.Start(t), keys: redisstore.KeysByLabel("lost", "acme")}
	l.one, l.two = l.instance(), l.instance()
	l.admit(l.one, "a", store.NoLimit)
	l.admit(l.two, "b", store.NoLimit)
	l.admit(l.two, "c", store.LimitInFlight)
	return l
}

func (l *lostMembers) instance() *redisstore.Store {
	return open(l.t, l.server.URL(), func(o *redisstore.Options) { o.Prefix = "lost" })
}

func (l *lostMembers) job(member string) store.MemberParams {
	return store.MemberParams{Tenant: "acme", Kind: store.TenantJob, Member: member, Keep: time.Minute, Limits: core.TenantLimits{InFlight: 2}}
}

func (l *lostMembers) admit(s *redisstore.Store, member string, want store.TenantLimit) store.TenantVerdict {
	l.t.Helper()
	v, err := s.AdmitMember(l.t.Context(), l.job(member))
	if err != nil || v.Refused != want {
		l.t.Fatalf("admit %s: %+v, %v, want %q", member, v, err, want)
	}
	return v
}

func (l *lostMembers) restore(s *redisstore.Store, member string) {
	l.t.Helper()
	p := l.job(member)
	p.Restore = true
	if v, err := s.AdmitMember(l.t.Context(), p); err != nil || v.Refused != store.NoLimit {
		l.t.Fatalf("restore %s: %+v, %v", member, v, err)
	}
}

func (l *lostMembers) do(args ...string) any {
	l.t.Helper()
	reply, err := l.server.Do(args...)
	if err != nil {
		l.t.Fatal(err)
	}
	return reply
}

func (l *lostMembers) wantInFlight(want int) {
	l.t.Helper()
	use, err := l.one.ReadTenants(l.t.Context(), []core.TenantID{"acme"})
	if err != nil || use[0].InFlight != want {
		l.t.Fatalf("%+v, %v, want %d in flight", use, err, want)
	}
}

// TestLostMembersAreNotReplaced: while the store does not know how many members a tenant has, because their key was deleted, it admits none,
// whichever instance asks, until all could be restored.
func TestLostMembersAreNotReplaced(t *testing.T) {
	t.Parallel()
	l := newLostMembers(t)
	l.do("DEL", l.keys["tenant_jobs"])
	third := l.instance() // it has never seen the tenant
	if v := l.admit(third, "c", store.LimitInFlight); v.Used != 0 || v.RetryIn <= 0 || v.RetryIn > store.TenantJob.RestoredWithin() {
		t.Errorf("after the key was deleted: %+v", v)
	}
	l.wantInFlight(0)
	l.restore(l.one, "a")
	l.wantInFlight(1)
	if v := l.admit(l.one, "c", store.LimitInFlight); v.Used != 1 || v.RetryIn <= 0 {
		t.Errorf("after one was restored: %+v", v)
	}
	l.admit(l.one, "a", store.NoLimit) // it is there
	l.restore(l.two, "b")
	l.do("ZADD", l.keys["tenant_jobs"], "1", "!closed") // the time is over
	if v := l.admit(l.two, "c", store.LimitInFlight); v.Used != 2 || v.RetryIn != 0 {
		t.Errorf("after both were restored: %+v", v)
	}
	if err := l.two.RemoveMember(t.Context(), l.job("b")); err != nil {
		t.Fatal(err)
	}
	l.admit(l.two, "c", store.NoLimit)
	l.wantInFlight(2)
}

// TestLostTenantIsKnownToItsInstances: if all keys of a tenant were deleted, the instances that have admitted its jobs know that there were some.
func TestLostTenantIsKnownToItsInstances(t *testing.T) {
	t.Parallel()
	l := newLostMembers(t)
	l.do("FLUSHALL")
	if v := l.admit(l.two, "c", store.LimitInFlight); v.RetryIn <= 0 {
		t.Errorf("after all keys were deleted: %+v", v)
	}
}

// TestEmptyMembersAreNotLost: a tenant whose jobs have all ended may begin others at once, and its keys expire, the one that says that there are members
// first.
func TestEmptyMembersAreNotLost(t *testing.T) {
	t.Parallel()
	l := newLostMembers(t)
	for _, member := range []string{"a", "b"} {
		if err := l.one.RemoveMember(t.Context(), l.job(member)); err != nil {
			t.Fatal(err)
		}
	}
	l.wantInFlight(0)
	set, known := l.do("PEXPIRETIME", l.keys["tenant_jobs"]).(int64), l.do("PEXPIRETIME", l.keys["known_jobs"]).(int64)
	if known <= 0 || set <= known {
		t.Errorf("the members expire at %d, and the key that says so at %d", set, known)
	}
	l.admit(l.two, "c", store.NoLimit)
	l.wantInFlight(1)
}
