package tenants_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/wire"
)

// newGate makes a gate with limits for all tenants.
func newGate(limits core.TenantLimits, counted func(store.TenantLimit)) *tenants.Gate {
	table := tenants.NewTable(map[core.TenantID]core.TenantLimits{tenants.AnyTenant: limits})
	return tenants.NewGate(tenants.NewCurrent(table), memstore.New(store.Timing{Job: time.Minute}), counted)
}

// TestRefusals: a refusal names the limit, its value and what to do, and when.
func TestRefusals(t *testing.T) {
	t.Parallel()
	utterance := func(tenant core.TenantID) *core.Spec {
		return &core.Spec{Tenant: tenant, Utterance: core.Utterance{Turn: 1, AudioMS: 90_500}}
	}
	for name, c := range map[string]struct {
		limits core.TenantLimits
		tenant core.TenantID
		detail string
		retry  int64
	}{
		"jobs": {core.TenantLimits{InFlight: 1}, "acme",
			"tenant acme has 1 job in flight, and its max_in_flight is 1: try again when one has ended", 500},
		"rate": {
			core.TenantLimits{DispatchRate: 3}, "acme",
			"tenant acme begins more jobs than its dispatch_per_second of 3 allows: try again in 334 ms, or send fewer", 334,
		},
		"slow rate": {
			core.TenantLimits{DispatchRate: 0.5}, "acme",
			"tenant acme begins more jobs than its dispatch_per_second of 0.5 allows: try again in 2 s, or send fewer", 2000,
		},
		"audio, without a tenant": {
			core.TenantLimits{AudioRate: 60}, "",
			"the tenant of callers without one has sent more audio than its audio_seconds_per_minute of 60 allows: try again in 31 s",
			30_500,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var counted []store.TenantLimit
				g := newGate(c.limits, func(l store.TenantLimit) { counted = append(counted, l) })
				var refusal *tenants.Refusal
				for i := 0; refusal == nil && i < 10; i++ {
					var err error
					if refusal, err = g.AdmitJob(t.Context(), utterance(c.tenant), core.Token(fmt.Sprint("t.", i)),
						time.Minute); err != nil {
						t.Fatal(err)
					}
				}
				want := (&wire.Error{Code: wire.RateLimited, Detail: c.detail}).RetryIn(time.Duration(c.retry) * time.Millisecond)
				if diff := cmp.Diff(want, refusal.Error); diff != "" {
					t.Errorf("refusal (-want +got)\n%s", diff)
				}
				g.CountRefusal(c.tenant, refusal.Limit)
				if len(counted) != 1 || g.Refusals()[c.tenant][counted[0]] != 1 {
					t.Errorf("counted %v and %v, want one", counted, g.Refusals())
				}
			})
		})
	}
}

// TestCountedTenantsAreBounded: callers that make up tenants do not fill the memory of an instance.
func TestCountedTenantsAreBounded(t *testing.T) {
	t.Parallel()
	g, refused := newGate(core.TenantLimits{Sessions: 1}, func(store.TenantLimit) {}), 0
	for i := range 1500 {
		for _, incarnation := range []core.SessionIncarnation{"a", "b"} {
			ref := core.SessionRef{SessionKey: core.SessionKey{Tenant: core.TenantID(fmt.Sprint("t", i)), Name: "s"},
				Incarnation: incarnation}
			refusal, err := g.AdmitSession(t.Context(), ref, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if refusal != nil {
				refused++
			}
		}
	}
	if n := len(g.Refusals()); n != 1000 || refused != 1500 {
		t.Errorf("refusals of %d tenants are counted, want 1000; %d were refused", n, refused)
	}
}
