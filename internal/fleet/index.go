package fleet

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Index is the set of the nodes that can serve one requirement, whatever their health: one bit for each node.
//
// Indexes are built for the directions that jobs require, not for those that nodes declare: a node with thirty languages
// declares 870 directions, and few are ever used.
//
// It changes while it is read. Each read returns what holds at some moment of it.
type Index struct {
	Requirement core.Requirement

	table    *table
	members  bitmap
	lastUsed atomic.Int64 // Instant of the last read, with a precision of lastUsedPrecision
	route    atomic.Pointer[Route]
}

type indexKey struct {
	core.Direction
	tts bool
}

const (
	maxIndexes        = 4096
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

// Prefetch loads the data that a selection reads into the cache without waiting for it.
func (m *Member) Prefetch() {
	if m.Node == nil {
		return
	}
	m.summary.Load()
	if m.handle != nil {
		m.handle.Prefetch()
	}
}

// Len returns the number of members.
func (x *Index) Len() int { return x.members.len() }

// At returns the i-th member. Its Node is nil if there are fewer, or if the node has just left the index.
func (x *Index) At(i int) Member {
	slot, ok := x.members.at(i)
	if !ok {
		return Member{}
	}
	return x.member(slot)
}

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
	return x.Requirement.Mismatch(&declared.Capability) == core.ReasonNone
}
