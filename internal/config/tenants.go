package config

import (
	"fmt"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/tenants"
)

// TenantsKey is the key of the tenants, as in the file.
const TenantsKey = "scheduler.tenants"

// Tenant is the weight of a tenant and its limits.
type Tenant struct {
	ID                    string   `toml:"id" doc:"The tenant. \"*\": every tenant without an entry of its own, each counted on its own."`
	Weight                *float64 `toml:"weight" doc:"Its share of the slots for which tenants wait, relative to the weights of the others: 0.1 to 1000. Default: 1."`
	MaxInFlight           int      `toml:"max_in_flight" doc:"Maximum number of its jobs that have not ended."`
	MaxSessions           int      `toml:"max_sessions" doc:"Maximum number of its sessions."`
	DispatchPerSecond     float64  `toml:"dispatch_per_second" doc:"How many jobs it may begin each second, on average; those of one second may begin at once."`
	AudioSecondsPerMinute float64  `toml:"audio_seconds_per_minute" doc:"How many seconds of audio its utterances may have each minute, on average; those of one minute may come at once."`
}

// TenantTable returns the weights and the limits of all tenants.
func (s *Scheduler) TenantTable() *tenants.Table {
	entries := make(map[core.TenantID]core.TenantLimits, len(s.Tenants))
	for i := range s.Tenants {
		t := &s.Tenants[i]
		limits := core.TenantLimits{InFlight: t.MaxInFlight, Sessions: t.MaxSessions, DispatchRate: t.DispatchPerSecond,
			AudioRate: t.AudioSecondsPerMinute}
		if t.Weight != nil {
			limits.Weight = *t.Weight
		}
		entries[core.TenantID(t.ID)] = limits
	}
	return tenants.NewTable(entries)
}

const (
	maxTenants                 = 10_000
	minWeight, maxWeight       = 0.1, 1000.0
	maxTenantCount             = 1_000_000
	minTenantRate              = 0.01
	maxDispatchRate            = 100_000.0
	minAudioRate, maxAudioRate = 1.0, 10_000_000.0
)

// validateTenants checks the weights and the limits of tenants.
func (c *Config) validateTenants(v *validator) {
	list := c.Scheduler.Tenants
	v.require(len(list) <= maxTenants, TenantsKey, "there may be %d, not %d; the entry %q is for all tenants without one", maxTenants,
		len(list), tenants.AnyTenant)
	seen := make(map[string]bool)
	for i := range list {
		t, key := &list[i], fmt.Sprintf("%s[%d]", TenantsKey, i)
		v.require(core.ValidID(t.ID) || t.ID == string(tenants.AnyTenant), key+".id",
			"must be the id of a tenant, or %q for all tenants without an entry", tenants.AnyTenant)
		v.require(!seen[t.ID], key+".id", "the tenant %s has two entries", t.ID)
		seen[t.ID] = true
		if t.Weight != nil {
			v.require(*t.Weight >= minWeight && *t.Weight <= maxWeight, key+".weight", "must be between %v and %v, not %v", minWeight,
				maxWeight, *t.Weight)
		}
		v.requireRange(key+".max_in_flight", int64(t.MaxInFlight), 0, maxTenantCount)
		v.requireRange(key+".max_sessions", int64(t.MaxSessions), 0, maxTenantCount)
		v.requireRate(key+".dispatch_per_second", t.DispatchPerSecond, minTenantRate, maxDispatchRate)
		v.requireRate(key+".audio_seconds_per_minute", t.AudioSecondsPerMinute, minAudioRate, maxAudioRate)
	}
}

// requireRate adds a problem unless value is 0, which means no limit, or low <= value <= high.
func (v *validator) requireRate(key string, value, low, high float64) {
	v.require(value == 0 || value >= low && value <= high, key, "must be 0, which means no limit, or between %v and %v, not %v", low, high,
		value)
}
