package fleet

import (
	"iter"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Divided is the fleet by capability pools. Its pools do not change, and their nodes do while it is the current division. Reads take no
// lock: a node that moves to another pool meanwhile may be seen in both, or in neither.
type Divided struct{ division *division }

// Divided returns how the fleet is divided now.
func (f *Fleet) Divided() Divided { return Divided{f.division.Load()} }

// Definition returns the pools; nil if the fleet is not divided.
func (d Divided) Definition() *core.Pools { return d.division.definition }

// HasNodesOf reports whether some nodes in view belong to a tenant only.
func (d Divided) HasNodesOf(tenant core.TenantID) bool { return d.division.tenants.of(tenant) != nil }

// HasTenants reports whether some nodes in view belong to one tenant only.
func (d Divided) HasTenants() bool { return d.division.tenants.count.Load() > 0 }

// All iterates over the pools and the nodes of each. The first is that of the nodes that belong to no pool, with an empty id; the others
// follow in the order of their definition.
func (d Divided) All() iter.Seq2[core.PoolID, iter.Seq[*Node]] {
	return func(yield func(core.PoolID, iter.Seq[*Node]) bool) {
		for _, p := range d.division.pools {
			if !yield(p.ID, p.table.all()) {
				return
			}
		}
	}
}

// In iterates over the nodes of a pool, or of none if the id is empty, in no order.
func (d Divided) In(id core.PoolID) iter.Seq[*Node] {
	number, known := d.division.numbers[id]
	if !known && id != "" {
		return func(func(*Node) bool) {}
	}
	return d.division.pools[number].table.all()
}

// SilentNode returns the last declaration of a silent node; nil if it is not silent.
func (f *Fleet) SilentNode(id core.NodeID) *core.Node {
	if n := f.silent.get(id); n != nil {
		return n.declared
	}
	return nil
}
