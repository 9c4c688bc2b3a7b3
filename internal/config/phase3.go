package config

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Phase3 configures capability pools.
type Phase3 struct {
	Enabled               bool             `toml:"enabled" env:"ENABLED" doc:"Whether the nodes are divided into capability pools. Like the other keys of this table it is a setting of the whole cluster: all instances adopt what one of them publishes."`
	PoolMatchScope        string           `toml:"pool_match_scope" env:"POOL_MATCH_SCOPE" doc:"By what pools are eligible for a job. core_only: they have nodes for its direction. all_required: their required_services also include every service that the job requires."`
	StrictPoolEligibility bool             `toml:"strict_pool_eligibility" env:"STRICT_POOL_ELIGIBILITY" doc:"Whether a job for which no pool is eligible is refused. Otherwise any node that can do it gets it, also one without a pool."`
	HashSeed              int              `toml:"hash_seed" env:"HASH_SEED" doc:"Decides to which of several matching pools a node belongs. Another seed moves most nodes."`
	PoolCount             int              `toml:"pool_count" env:"POOL_COUNT" doc:"Without pools below, the nodes are divided into so many by a hash of their ids."`
	AffinitySeconds       Seconds          `toml:"session_affinity_seconds" env:"SESSION_AFFINITY_SECONDS" doc:"For how long after an utterance the next one of its session is tried in the same pool first; 0: it is not. It may run on any node of the pool."`
	Pools                 []PoolTable      `toml:"pools" doc:"A capability pool. Nodes that have its services installed belong to it, or to another one that matches."`
	TenantOverrides       []TenantOverride `toml:"tenant_overrides" doc:"The pool of a tenant. Its jobs run on nodes of this pool only."`
}

// PoolID is the id of a pool. A file may have a number in its place.
type PoolID string

// PoolTable defines a capability pool.
type PoolTable struct {
	PoolID           PoolID   `toml:"pool_id" doc:"The id of the pool."`
	Name             string   `toml:"name" doc:"A name for people."`
	RequiredServices []string `toml:"required_services" doc:"The services that its nodes have: an id, or an id and the acceptable versions, such as asr-large@2.1 or nmt@>=3."`
}

// TenantOverride binds a tenant to a pool.
type TenantOverride struct {
	TenantID string `toml:"tenant_id" doc:"The tenant."`
	PoolID   PoolID `toml:"pool_id" doc:"Its pool."`
}

// Division returns the division of the fleet that the table describes; one without pools if it is not enabled.
func (p *Phase3) Division() *core.Pools {
	d := &core.Pools{}
	if !p.Enabled {
		return d
	}
	d.Scope, d.Strict, d.Seed, d.AffinitySeconds = core.PoolScope(p.PoolMatchScope), p.StrictPoolEligibility, uint64(p.HashSeed),
		int(p.AffinitySeconds)
	for i := range p.Pools {
		t := &p.Pools[i]
		d.Defined = append(d.Defined, core.PoolDefinition{ID: core.PoolID(t.PoolID), Name: t.Name, RequiredServices: t.RequiredServices})
	}
	if len(d.Defined) == 0 {
		d.Buckets = p.PoolCount
	}
	for _, o := range p.TenantOverrides {
		if d.Overrides == nil {
			d.Overrides = make(map[core.TenantID]core.PoolID)
		}
		d.Overrides[core.TenantID(o.TenantID)] = core.PoolID(o.PoolID)
	}
	return d
}

// validatePools checks the division into pools, also if it is not enabled.
func (c *Config) validatePools(v *validator) {
	const table = "scheduler.phase3"
	p := &c.Scheduler.Phase3
	scope := core.PoolScope(p.PoolMatchScope)
	v.require(scope == core.ScopeCore || scope == core.ScopeAll, table+".pool_match_scope", "must be %s or %s, not %q", core.ScopeCore,
		core.ScopeAll, p.PoolMatchScope)
	v.requireRange(table+".pool_count", int64(p.PoolCount), 1, core.MaxPools)
	v.requireRange(table+".session_affinity_seconds", int64(p.AffinitySeconds), 0, 24*60*60)
	d := Phase3{Enabled: true, PoolCount: min(max(p.PoolCount, 1), core.MaxPools), Pools: p.Pools}
	if err := d.Division().Validate(); err != nil {
		v.require(false, table+".pools", "%v", err)
		return
	}
	seen := make(map[string]bool)
	for i, o := range p.TenantOverrides {
		key := fmt.Sprintf("%s.tenant_overrides[%d]", table, i)
		v.require(core.ValidID(o.TenantID), key+".tenant_id", "is not a valid identifier")
		v.require(!seen[o.TenantID], key+".tenant_id", "the tenant %s has two pools", o.TenantID)
		v.require(d.has(string(o.PoolID)), key+".pool_id", "there is no pool %q", o.PoolID)
		seen[o.TenantID] = true
	}
	for i := range c.Auth.Keys {
		if pool := c.Auth.Keys[i].Pool; pool != "" && p.Enabled {
			v.require(d.has(pool), fmt.Sprintf("auth.keys[%d].pool", i), "there is no pool %q", pool)
		}
	}
}

// has reports whether there is a pool.
func (p *Phase3) has(pool string) bool { return slices.Contains(p.Division().IDs(), core.PoolID(pool)) }

// Phase3Keys lists the keys of the table, as in the file.
func Phase3Keys() []string {
	t := reflect.TypeFor[Phase3]()
	keys := make([]string, 0, t.NumField())
	for i := range t.NumField() {
		keys = append(keys, "scheduler.phase3."+t.Field(i).Tag.Get("toml"))
	}
	return keys
}
