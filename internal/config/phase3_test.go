package config

import "strings"

// poolRules are the rules of scheduler.phase3.
var poolRules = []rule{
	{"scheduler.phase3.pool_match_scope", "another one", func(c *Config) { c.Scheduler.Phase3.PoolMatchScope = "none" }},
	{"scheduler.phase3.pool_count", "none", func(c *Config) { c.Scheduler.Phase3.PoolCount = 0 }},
	{"scheduler.phase3.pool_count", "too many", func(c *Config) { c.Scheduler.Phase3.PoolCount = 1001 }},
	{"scheduler.phase3.pools", "one without an id", func(c *Config) { c.Scheduler.Phase3.Pools = []PoolTable{{Name: "nameless"}} }},
	{"scheduler.phase3.pools", "one with a service that is none", func(c *Config) {
		c.Scheduler.Phase3.Pools = []PoolTable{{PoolID: "a", RequiredServices: []string{"asr@"}}}
	}},
	{"scheduler.phase3.tenant_overrides[0].pool_id", "another pool", func(c *Config) {
		c.Scheduler.Phase3.TenantOverrides = []TenantOverride{{TenantID: "acme", PoolID: "gold"}}
	}},
	{"scheduler.phase3.tenant_overrides[1].tenant_id", "two pools", func(c *Config) {
		c.Scheduler.Phase3.TenantOverrides = []TenantOverride{{TenantID: "acme", PoolID: "bucket-1"}, {TenantID: "acme", PoolID: "bucket-2"}}
	}},
	{"scheduler.phase3.tenant_overrides[0].tenant_id", "none", func(c *Config) {
		c.Scheduler.Phase3.TenantOverrides = []TenantOverride{{PoolID: "bucket-1"}}
	}},
	{"auth.keys[0].pool", "another pool", func(c *Config) {
		c.Scheduler.Phase3.Enabled = true
		c.Auth.OperatorKeys = []string{"an-operator-key-of-this-test"}
		c.Auth.Keys = []Key{{Name: "k", Role: "node", Nodes: "*", Pool: "gold", SHA256: []string{strings.Repeat("0", 64)}}}
	}},
	{"scheduler.phase3.session_affinity_seconds", "negative", func(c *Config) { c.Scheduler.Phase3.AffinitySeconds = -1 }},
	{"scheduler.phase3.session_affinity_seconds", "too long", func(c *Config) { c.Scheduler.Phase3.AffinitySeconds = 86401 }},
}
