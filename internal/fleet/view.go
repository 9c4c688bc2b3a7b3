package fleet

import (
	"math"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// View is the members of an index as a selection reads them: few loads lead from it to a node, because with many indexes cache misses are
// the cost of a selection. Nodes leave it as they leave the index; those that have entered since it was made may be missing.
type View struct {
	Index *Index
	Len   int32 // the number of members

	oneChunk bool         // all members are in the first chunk, as in most pools
	bits     *bitmapChunk // the first chunk; nil: it has no members
	nodes    *tableChunk  // the nodes of the same slots; nil: there are none
	serving  *serving     // the members of the view, if they are not all of the index: those that serve a tenant; nil: they are
}

// View returns the members as they are now.
func (x *Index) View() View {
	v := View{Index: x, Len: int32(x.members.len())}
	d := x.members.load()
	v.oneChunk, v.bits = len(d.chunks) <= 1, d.chunk(0)
	if nodes := x.pool.table.load(); len(nodes) > 0 {
		v.nodes = nodes[0]
	}
	return v
}

// IsWhole reports whether the view has all members of the index.
func (v *View) IsWhole() bool { return v.serving == nil }

// NoSlot is the slot of no node. A slot is the number of a node in its pool.
const NoSlot = math.MaxUint32

// SlotOf returns the slot of the i-th member; NoSlot if there are fewer.
func (v *View) SlotOf(i int) uint32 {
	if v.serving != nil {
		return v.serving.slotOf(&v.Index.members, i)
	}
	if !v.oneChunk {
		if slot, ok := v.Index.members.at(i); ok {
			return slot
		}
	} else if v.bits != nil {
		if slot, ok := v.bits.at(i); ok {
			return uint32(slot)
		}
	}
	return NoSlot
}

// Has reports whether the node of a slot is a member.
func (v *View) Has(slot uint32) bool {
	if slot < chunkSlots {
		return v.bits != nil && v.bits.has(slot)
	}
	return v.Index.members.has(slot)
}

// entryAt returns the entry of a slot in the table; nil if there is none.
func (v *View) entryAt(slot uint32) *tableEntry {
	if slot < chunkSlots {
		if v.nodes == nil {
			return nil
		}
		return &v.nodes[slot]
	}
	return v.Index.pool.table.entry(slot)
}

// Prefetch loads the node of a slot into the cache without waiting for it, and what the store has of it.
func (v *View) Prefetch(slot uint32) {
	e := v.entryAt(slot)
	if e == nil {
		return
	}
	if hint := e.hint.Load(); hint != nil {
		hint.Load()
	}
	if n := e.node.Load(); n != nil {
		n.summary.Load()
		n.epoch.Load()
	}
}

// At returns the member with a slot. Its Node is nil if the node of the slot is no member.
//
// A writer removes a node from the index before it replaces a declaration that serves the requirement by one that does not. So if the node
// is in the index after its epoch and revision were read, it serves the requirement at that revision.
func (v *View) At(slot uint32) Member {
	e := v.entryAt(slot)
	if e == nil {
		return Member{}
	}
	n := e.node.Load()
	if n == nil {
		return Member{}
	}
	epoch, revision := n.Epoch(), core.Revision(n.revision.Load())
	if !v.Has(slot) || e.node.Load() != n {
		return Member{}
	}
	return Member{Node: n, Epoch: epoch, Revision: revision}
}
