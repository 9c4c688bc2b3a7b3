// Package tenants knows the weights and the limits of tenants, and enforces the limits over all instances through the store.
package tenants

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// AnyTenant is the id of the entry for tenants without an entry of their own. No tenant has it.
const AnyTenant core.TenantID = "*"

// DefaultWeight is the weight of a tenant that has none.
const DefaultWeight = 1.0

// Table has the limits of all tenants. It does not change.
type Table struct {
	own    map[core.TenantID]core.TenantLimits
	others core.TenantLimits
}

// NewTable makes a table. The entry of AnyTenant is for every tenant that has none of its own.
func NewTable(entries map[core.TenantID]core.TenantLimits) *Table {
	t := &Table{own: maps.Clone(entries)}
	for id, limits := range t.own {
		limits.Weight = cmp.Or(limits.Weight, DefaultWeight)
		t.own[id] = limits
	}
	t.others = t.own[AnyTenant]
	t.others.Weight = cmp.Or(t.others.Weight, DefaultWeight)
	delete(t.own, AnyTenant)
	return t
}

// Of returns the limits of a tenant.
func (t *Table) Of(id core.TenantID) core.TenantLimits {
	if limits, ok := t.own[id]; ok {
		return limits
	}
	return t.others
}

// IDs returns the tenants that have entries of their own, in order.
func (t *Table) IDs() []core.TenantID { return slices.Sorted(maps.Keys(t.own)) }

// Has reports whether a tenant has an entry of its own.
func (t *Table) Has(id core.TenantID) bool {
	_, ok := t.own[id]
	return ok
}

// Equal reports whether two tables say the same.
func (t *Table) Equal(other *Table) bool {
	return t.others == other.others && maps.Equal(t.own, other.own)
}

// Current is the table that is in force. A reload of the configuration replaces it.
type Current struct{ table atomic.Pointer[Table] }

// NewCurrent puts a table in force.
func NewCurrent(t *Table) *Current {
	c := new(Current)
	c.Replace(t)
	return c
}

// Replace puts another table in force.
func (c *Current) Replace(t *Table) { c.table.Store(t) }

// Table returns the table that is in force.
func (c *Current) Table() *Table { return c.table.Load() }

// Of returns the limits of a tenant.
func (c *Current) Of(id core.TenantID) core.TenantLimits { return c.Table().Of(id) }

// Weight returns the weight of a tenant.
func (c *Current) Weight(id core.TenantID) float64 { return c.Table().Of(id).Weight }
