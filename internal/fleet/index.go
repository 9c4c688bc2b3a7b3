package fleet

import (
	"iter"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Index is the set of the nodes of a pool that can serve one requirement and fulfil a restriction, whatever their health: one bit for each
// node. It changes while it is read. Each read returns what holds at some moment of it.
type Index struct {
	Requirement *core.Requirement
	Restriction *core.Restriction

	pool    *Pool
	members bitmap
}

// Member is a node of an index with the epoch and revision of a declaration that serves the requirement. A reservation names them, so that
// it is refused if the node no longer serves the direction.
type Member struct {
	*Node
	Epoch    core.Epoch
	Revision core.Revision
}

// MemberOf returns a node with its current epoch and revision. What is checked of the node after that holds at that revision, or the
// reservation is refused.
func MemberOf(n *Node) Member {
	declared := n.Declared()
	return Member{Node: n, Epoch: declared.Epoch, Revision: declared.Revision}
}

// Len returns the number of members.
func (x *Index) Len() int { return x.members.len() }

// Pool returns the id of the capability pool of the members; empty: they belong to none.
func (x *Index) Pool() core.PoolID { return x.pool.ID }

// Serving returns how many members serve a tenant. If no node of the pool belongs to a single tenant, they are not counted one by one.
func (x *Index) Serving(tenant core.TenantID) int {
	if x.pool.dedicated.len() == 0 {
		return x.Len()
	}
	return int(x.pool.stopFor(x, x.pool.division.tenants.in(tenant, x.pool.number)).Len)
}

// All iterates over the members, in no order.
func (x *Index) All() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		v := x.View()
		for slot := range x.members.all() {
			if m := v.At(slot); m.Node != nil && !yield(m) {
				return
			}
		}
	}
}

// serves reports whether a node with this declaration belongs to the index.
func (x *Index) serves(declared *core.Node) bool {
	return x.Requirement.Mismatch(&declared.Capability) == core.ReasonNone && x.Restriction.Allows(declared)
}
