package fleet

import (
	"iter"
	"math"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Index is the set of the nodes that can serve one requirement and fulfil a restriction, whatever their health: one bit for each node.
//
// Indexes are built for the directions that jobs require, not for those that nodes declare: a node with thirty languages
// declares 870 directions, and few are ever used.
//
// It changes while it is read. Each read returns what holds at some moment of it.
type Index struct {
	Requirement core.Requirement
	Restriction core.Restriction

	table    *table
	members  bitmap
	lastUsed atomic.Int64 // Instant of the last read, with a precision of lastUsedPrecision
	route    atomic.Pointer[Route]
}

type indexKey struct {
	core.Direction
	tts        bool
	restricted string // Key of the restriction
}

const (
	maxIndexes        = 4096 // without a restriction
	maxRestricted     = 256  // with one
	indexIdleTimeout  = 10 * time.Minute
	lastUsedPrecision = Instant(time.Second)
)

// Member is a node of an index with the epoch and revision of a declaration that serves the requirement. A reservation names them, so that it
// is refused if the node no longer serves the direction.
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

// Prefetch loads what the store has of the node into the cache without waiting for it.
func (m *Member) Prefetch() {
	if m.Node != nil && m.handle != nil {
		m.handle.Prefetch()
	}
}

// Len returns the number of members.
func (x *Index) Len() int { return x.members.len() }

// NoSlot is the slot of no node.
const NoSlot = math.MaxUint32

// SlotOf returns the slot of the i-th member; NoSlot if there are fewer.
func (x *Index) SlotOf(i int) uint32 {
	if slot, ok := x.members.at(i); ok {
		return slot
	}
	return NoSlot
}

// Slots returns the number of slots of which the members have some. A slot is the number of a node in its pool.
func (x *Index) Slots() int { return min(x.members.slots(), x.table.used()) }

// Has reports whether the node of a slot is a member.
func (x *Index) Has(slot uint32) bool { return x.members.has(slot) }

// Prefetch loads the node of a slot into the cache without waiting for it.
func (x *Index) Prefetch(slot uint32) {
	if n := x.table.at(slot); n != nil {
		n.summary.Load()
		n.epoch.Load()
	}
}

// AtSlot returns the member with a slot. Its Node is nil if the node of the slot is no member.
func (x *Index) AtSlot(slot uint32) Member { return x.member(slot) }

// All iterates over the members, in no order.
func (x *Index) All() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for slot := range x.members.all() {
			if m := x.member(slot); m.Node != nil && !yield(m) {
				return
			}
		}
	}
}

// member returns the member of a slot. A writer removes a node from the index before it replaces a declaration that serves the requirement by
// one that does not. So if the node is in the index after its epoch and revision were read, it serves the requirement at that revision.
func (x *Index) member(slot uint32) Member {
	n := x.table.at(slot)
	if n == nil {
		return Member{}
	}
	epoch, revision := n.Epoch(), core.Revision(n.revision.Load())
	if !x.members.has(slot) || x.table.at(slot) != n {
		return Member{}
	}
	return Member{Node: n, Epoch: epoch, Revision: revision}
}

// serves reports whether a node with this declaration belongs to the index.
func (x *Index) serves(declared *core.Node) bool {
	return x.Requirement.Mismatch(&declared.Capability) == core.ReasonNone && x.Restriction.Allows(declared)
}
