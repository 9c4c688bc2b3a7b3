package scheduler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/reload"
)

// TestReloadOfTenants: a reload puts other weights and limits in force, says so once, and needs no restart for it.
func TestReloadOfTenants(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Scheduler.Tenants = []config.Tenant{{ID: "acme", MaxInFlight: 4}}
	s := newSchedulerWith(t, cfg, nil)
	next := cfg
	s.SetConfigSource(func() (config.Config, []string, error) { return next, nil, nil })
	reloadTenants := func(want ...string) {
		t.Helper()
		result, err := s.Reload(reload.Request{})
		if diff := cmp.Diff(append([]string{}, want...), result.Changed); err != nil || diff != "" || len(result.NeedsRestart) > 0 {
			t.Errorf("%v, needs restart %q, changed (-want +got)\n%s", err, result.NeedsRestart, diff)
		}
	}
	reloadTenants()
	if got := s.Tenants().Of("acme").InFlight; got != 4 {
		t.Errorf("the limit at the start is %d, want 4", got)
	}
	next.Scheduler.Tenants = []config.Tenant{{ID: "acme", MaxInFlight: 9}, {ID: "*", MaxSessions: 2}}
	reloadTenants("scheduler.tenants: 2 entries")
	if table := s.Tenants(); table.Of("acme").InFlight != 9 || table.Of("other").Sessions != 2 {
		t.Errorf("after the reload: %+v, %+v", table.Of("acme"), table.Of("other"))
	}
	reloadTenants()
}
