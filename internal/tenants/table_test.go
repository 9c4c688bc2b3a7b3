package tenants_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/tenants"
)

// TestTable: a tenant has the limits of its own entry and none of those of the entry for all others.
func TestTable(t *testing.T) {
	t.Parallel()
	entries := map[core.TenantID]core.TenantLimits{
		"acme":            {Weight: 4, InFlight: 10},
		"unlimited":       {},
		tenants.AnyTenant: {InFlight: 2, DispatchRate: 0.5},
	}
	table := tenants.NewTable(entries)
	delete(entries, "acme") // the table has its own copy
	for id, want := range map[core.TenantID]core.TenantLimits{
		"acme":      {Weight: 4, InFlight: 10},
		"unlimited": {Weight: 1},
		"other":     {Weight: 1, InFlight: 2, DispatchRate: 0.5},
		"":          {Weight: 1, InFlight: 2, DispatchRate: 0.5},
	} {
		if diff := cmp.Diff(want, table.Of(id)); diff != "" {
			t.Errorf("tenant %q (-want +got)\n%s", id, diff)
		}
	}
	if diff := cmp.Diff([]core.TenantID{"acme", "unlimited"}, table.IDs()); diff != "" || !table.Has("acme") || table.Has("other") ||
		table.Has(tenants.AnyTenant) {
		t.Errorf("entries (-want +got)\n%s", diff)
	}
}

// TestCurrent: a table that is replaced is in force at once, and without one every tenant has the same weight and no limit.
func TestCurrent(t *testing.T) {
	t.Parallel()
	c := tenants.NewCurrent(tenants.NewTable(nil))
	if got := c.Of("acme"); got != (core.TenantLimits{Weight: 1}) || c.Weight("acme") != 1 || got.LimitsJobs() {
		t.Errorf("without entries: %+v", got)
	}
	next := tenants.NewTable(map[core.TenantID]core.TenantLimits{"acme": {Weight: 2.5, Sessions: 3}})
	if next.Equal(c.Table()) || !next.Equal(next) {
		t.Error("tables are compared wrongly")
	}
	c.Replace(next)
	if c.Weight("acme") != 2.5 || c.Of("acme").Sessions != 3 || c.Weight("other") != 1 {
		t.Errorf("after a reload: %+v", c.Of("acme"))
	}
}
