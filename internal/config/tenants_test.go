package config

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// withTenant returns a change that adds one tenant to the defaults.
func withTenant(t Tenant) func(*Config) {
	return func(c *Config) { c.Scheduler.Tenants = []Tenant{t} }
}

// tenantRules are the rules of scheduler.tenants, and of how many of their requests may wait.
var tenantRules = []rule{
	{"scheduler.dispatch.max_waiting", "none", func(c *Config) { c.Scheduler.Dispatch.MaxWaiting = 0 }},
	{"scheduler.dispatch.max_waiting", "too many", func(c *Config) { c.Scheduler.Dispatch.MaxWaiting = 1_000_001 }},
	{"scheduler.tenants[0].id", "none", withTenant(Tenant{})},
	{"scheduler.tenants[0].id", "a pattern", withTenant(Tenant{ID: "acme-*"})},
	{"scheduler.tenants[1].id", "two entries", func(c *Config) { c.Scheduler.Tenants = []Tenant{{ID: "acme"}, {ID: "acme"}} }},
	{"scheduler.tenants[0].weight", "zero", withTenant(Tenant{ID: "acme", Weight: new(float64)})},
	{"scheduler.tenants[0].weight", "too high", func(c *Config) {
		weight := 1000.5
		c.Scheduler.Tenants = []Tenant{{ID: "acme", Weight: &weight}}
	}},
	{"scheduler.tenants[0].max_in_flight", "negative", withTenant(Tenant{ID: "acme", MaxInFlight: -1})},
	{"scheduler.tenants[0].max_sessions", "too many", withTenant(Tenant{ID: "acme", MaxSessions: 1_000_001})},
	{"scheduler.tenants[0].dispatch_per_second", "too low", withTenant(Tenant{ID: "acme", DispatchPerSecond: 0.001})},
	{"scheduler.tenants[0].dispatch_per_second", "negative", withTenant(Tenant{ID: "acme", DispatchPerSecond: -1})},
	{"scheduler.tenants[0].audio_seconds_per_minute", "too high", withTenant(Tenant{ID: "acme", AudioSecondsPerMinute: 1e8})},
	{"scheduler.tenants", "too many", func(c *Config) {
		for i := range maxTenants + 1 {
			c.Scheduler.Tenants = append(c.Scheduler.Tenants, Tenant{ID: fmt.Sprint("t", i)})
		}
	}},
}

// TestTenantsOfAFile: the tables of a file are the limits of their tenants, and "*" of all others.
func TestTenantsOfAFile(t *testing.T) {
	t.Parallel()
	c := Default()
	err := decodeOver(&c, `
[[scheduler.tenants]]
id = "acme"
weight = 2.5
max_in_flight = 40
max_sessions = 20
dispatch_per_second = 10
audio_seconds_per_minute = 600

[[scheduler.tenants]]
id = "*"
max_in_flight = 8
`)
	if problems := validationErrors(&c); err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	table := c.Scheduler.TenantTable()
	want := core.TenantLimits{Weight: 2.5, InFlight: 40, Sessions: 20, DispatchRate: 10, AudioRate: 600}
	if diff := cmp.Diff(want, table.Of("acme")); diff != "" {
		t.Errorf("acme (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(core.TenantLimits{Weight: 1, InFlight: 8}, table.Of("other")); diff != "" {
		t.Errorf("others (-want +got)\n%s", diff)
	}
}
