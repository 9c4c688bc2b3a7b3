package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/lingua-scheduler/lingua/wire"
)

// PoolID identifies a capability pool; empty: none, or that there are no pools.
type PoolID string

// PoolScope says by what pools are chosen for a job.
type PoolScope string

// The scopes.
const (
	// ScopeCore: a pool is eligible if it has nodes for the direction of the job.
	ScopeCore PoolScope = "core_only"
	// ScopeAll: the pool must also require every service that the job requires, so that each of its nodes has them.
	ScopeAll PoolScope = "all_required"
)

// PoolDefinition describes a capability pool: nodes that have certain services installed.
type PoolDefinition struct {
	ID               PoolID   `json:"id"`
	Name             string   `json:"name,omitempty"` // for people
	RequiredServices []string `json:"required_services,omitempty"`
}

// Pools is a division of the fleet into pools. It is immutable. Every instance that has the same one assigns each node to the same pool.
type Pools struct {
	Defined   []PoolDefinition    `json:"pools,omitempty"`
	Overrides map[TenantID]PoolID `json:"tenant_overrides,omitempty"` // tenants whose jobs run in one pool only
	Scope     PoolScope           `json:"scope,omitempty"`
	Strict    bool                `json:"strict,omitempty"` // a job for which no pool is eligible is refused
	Seed      uint64              `json:"seed,omitempty"`
	// AffinitySeconds is for how long after a job of a session its next one is tried in the same pool first; 0: it is not.
	AffinitySeconds int `json:"affinity_seconds,omitempty"`
	Buckets         int `json:"buckets,omitempty"` // without definitions, nodes are divided into so many pools

	// Table is made from the rest by Prepared; nil: it is made for each call.
	Table *PoolTable `json:"-"`
}

// The bounds of a division.
const (
	MaxPools        = 1000
	MaxPoolServices = 100
)

// Enabled reports whether there are pools.
func (p *Pools) Enabled() bool { return p != nil && (len(p.Defined) > 0 || p.Buckets > 0) }

// IDs lists the pools.
func (p *Pools) IDs() []PoolID {
	ids := make([]PoolID, 0, len(p.Defined)+p.Buckets)
	for i := range p.Defined {
		ids = append(ids, p.Defined[i].ID)
	}
	if len(p.Defined) == 0 {
		for i := range p.Buckets {
			ids = append(ids, bucketID(i))
		}
	}
	return ids
}

// bucketID is the id of a pool without a definition.
func bucketID(i int) PoolID { return PoolID("bucket-" + strconv.Itoa(i)) }

// reservedPools are no ids of pools: as labels of metrics they mean no pool, and the pools without a label of their own.
var reservedPools = []PoolID{"none", "other"}

// Validate returns every error of the division, or only that it has an impossible number of pools.
func (p *Pools) Validate() error {
	if p.Buckets < 0 {
		return fmt.Errorf("%d is not a number of pools", p.Buckets)
	}
	if len(p.Defined) > MaxPools || p.Buckets > MaxPools {
		return fmt.Errorf("there are %d pools; the maximum is %d", max(len(p.Defined), p.Buckets), MaxPools)
	}
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	known := make(map[PoolID]bool)
	for i := range p.Defined {
		d := &p.Defined[i]
		switch {
		case !ValidID(string(d.ID)):
			refuse("pool %q: its pool_id must be 1 to %d characters out of A-Z a-z 0-9 . _ : -", wire.Quote(string(d.ID)), MaxIDLen)
		case slices.Contains(reservedPools, d.ID):
			refuse("pool %s: this pool_id has a meaning in metrics: choose another one", d.ID)
		case known[d.ID]:
			refuse("pool %s is defined twice", d.ID)
		case len(d.RequiredServices) > MaxPoolServices:
			refuse("pool %s requires %d services; the maximum is %d", d.ID, len(d.RequiredServices), MaxPoolServices)
		}
		known[d.ID] = true
		for _, required := range d.RequiredServices {
			if err := CheckRequired(required); err != nil {
				refuse("pool %s: required_services: %w", d.ID, err)
			}
		}
	}
	for _, id := range p.IDs() {
		known[id] = true
	}
	for tenant, id := range p.Overrides {
		if !known[id] {
			refuse("the tenant %s is bound to the pool %q, which does not exist", tenant, wire.Quote(string(id)))
		}
	}
	if p.Scope != ScopeCore && p.Scope != ScopeAll && p.Scope != "" {
		refuse("%q is not a scope: use %s or %s", wire.Quote(string(p.Scope)), ScopeCore, ScopeAll)
	}
	slices.SortFunc(errs, func(a, b error) int { return slices.Compare([]byte(a.Error()), []byte(b.Error())) })
	return errors.Join(errs...)
}

// Assignment is the pool of a node, or why it has none.
type Assignment struct {
	Pool PoolID
	// Missing is a service that the node lacks: of the pool of its credential, or of the pool that it is closest to. Only of a node without
	// a pool.
	Missing string
	Closest PoolID // the pool that requires it
}

// Covers reports whether every node of the pool has a service that a job requires: the pool requires it, in versions that all are
// acceptable.
func (d *PoolDefinition) Covers(required string) bool {
	id, conditions := CutRequired(required)
	return slices.ContainsFunc(d.RequiredServices, func(own string) bool {
		ownID, ownConditions := CutRequired(own)
		return ownID == id && implies(ownConditions, conditions)
	})
}

// Eligible reports whether a pool may get a job by its services. Whether it has nodes for the direction is another question.
func (p *Pools) Eligible(id PoolID, o *Options) bool {
	if p.Scope != ScopeAll {
		return true
	}
	d, defined := p.Definition(id)
	if !defined {
		return len(o.RequiredServices) == 0
	}
	return d.coversAll(o.RequiredServices)
}

// coversAll reports whether every node of the pool has all services that a job requires.
func (d *PoolDefinition) coversAll(required []string) bool {
	for _, name := range required {
		if !d.Covers(name) {
			return false
		}
	}
	return true
}
