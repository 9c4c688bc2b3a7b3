//go:build !race

package redisstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// tenantJob returns the job of a tenant with all limits of jobs.
func (x *subject) tenantJob() store.MemberParams {
	return store.MemberParams{
		Tenant: core.TenantID(x.name), Kind: store.TenantJob, Member: "m", Keep: time.Minute, Audio: time.Second,
		Limits: core.TenantLimits{InFlight: 1, DispatchRate: 0.1, AudioRate: 60},
	}
}

// tenantSession returns the session of a tenant with a limit of sessions.
func (x *subject) tenantSession() store.MemberParams {
	return store.MemberParams{Tenant: core.TenantID(x.name), Kind: store.TenantSession, Member: "m", Keep: time.Minute, Limits: core.TenantLimits{Sessions: 1}}
}

// admitMember admits a member of the subject.
func admitMember(member func(x *subject) store.MemberParams) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		v, err := s.AdmitMember(ctx, member(x))
		return fmt.Sprint(v.Refused, v.Used), err
	}
}

// removeTenantJob removes the job of the subject, with its tokens or without.
func removeTenantJob(undo bool) func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
	return func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
		p := x.tenantJob()
		p.Undo = undo
		return "", s.RemoveMember(ctx, p)
	}
}

var tenantLostReplies = []lostReply{
	{
		name: "admit a tenant's job", command: "admit_member", prepare: withNothing, renews: []string{"tenant_jobs.m"},
		call: admitMember((*subject).tenantJob),
	},
	{
		name: "admit a tenant's session", command: "admit_member", prepare: withNothing, renews: []string{"tenant_sessions.m"},
		call: admitMember((*subject).tenantSession),
	},
	{name: "remove a tenant's job", command: "remove_member", prepare: after(withNothing, admitMember((*subject).tenantJob)), call: removeTenantJob(false)},
	{name: "undo a tenant's job", command: "remove_member", prepare: after(withNothing, admitMember((*subject).tenantJob)), call: removeTenantJob(true)},
	{
		name: "renew a tenant's jobs", command: "renew_members", prepare: after(withNothing, admitMember((*subject).tenantJob)), renews: []string{"tenant_jobs.m"},
		call: func(ctx context.Context, s *redisstore.Store, x *subject) (string, error) {
			missing, err := s.RenewMembers(ctx, store.RenewParams{Tenant: core.TenantID(x.name), Kind: store.TenantJob, Members: []string{"m", "n"}, Keep: time.Hour})
			return fmt.Sprint(missing), err
		},
	},
}
