//go:build !race

package redisstore_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestCommandsOfTenants: what the limits of a tenant cost for each of its jobs, and their renewal for all of them together. docs/tenants.md has
// the sums.
func TestCommandsOfTenants(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL())
	ctx := t.Context()
	job := func(member string, limits core.TenantLimits) store.MemberParams {
		return store.MemberParams{Tenant: "acme", Kind: store.TenantJob, Member: member, Keep: time.Minute, Limits: limits, Audio: time.Second}
	}
	count, all := core.TenantLimits{InFlight: 9}, core.TenantLimits{InFlight: 9, DispatchRate: 100, AudioRate: 100}
	admit := func(p store.MemberParams) func() error {
		return func() error {
			_, err := s.AdmitMember(ctx, p)
			return err
		}
	}
	for _, p := range []store.MemberParams{job("warm", all), job("gone", count)} { // the scripts are loaded, and the keys exist
		if err := admit(p)(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RemoveMember(ctx, job("gone", count)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RenewMembers(ctx, store.RenewParams{Tenant: "acme", Kind: store.TenantJob, Members: []string{"warm"}}); err != nil {
		t.Fatal(err)
	}
	counted := map[string]int64{"evalsha": 1, "time": 1, "zremrangebyscore": 1, "zcard": 1, "zmscore": 1, "zadd": 1, "pttl": 1}
	withRates := map[string]int64{"hmget": 1, "hset": 1, "pexpire": 1}
	for name, n := range counted {
		withRates[name] = n
	}
	for _, c := range []periodicCall{
		{"admission by a number", admit(job("a", count)), counted},
		{"admission by all limits", admit(job("b", all)), withRates},
		{"end", func() error { return s.RemoveMember(ctx, job("a", count)) }, map[string]int64{"evalsha": 1, "time": 1, "zrem": 1}},
		{"renewal of all jobs", func() error {
			_, err := s.RenewMembers(ctx, store.RenewParams{Tenant: "acme", Kind: store.TenantJob, Members: []string{"warm", "b"}})
			return err
		}, map[string]int64{"evalsha": 1, "time": 1, "zmscore": 1}},
	} {
		if diff := cmp.Diff(c.want, countCommands(t, server, c.call)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
}
