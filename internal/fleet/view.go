package fleet

import (
	"math"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// View is the members of an index as a selection reads them: few loads lead from it to a node, because with many indexes cache misses are the
// cost of a selection. Nodes leave it as they leave the index; those that have entered since it was made may be missing.
type View struct {
	Len   int // the number of members
	Slots int // the number of slots of which the members have some. A slot is the number of a node in its pool

	bits  []*bitmapChunk
	nodes []*tableChunk
}

// View returns the members as they are now.
func (x *Index) View() View {
	v := View{Len: x.members.len(), bits: x.members.load(), nodes: x.table.load()}
	v.Slots = min(len(v.bits)*chunkSlots, x.table.used())
	return v
}

// NoSlot is the slot of no node.
const NoSlot = math.MaxUint32

// SlotOf returns the slot of the i-th member; NoSlot if there are fewer.
func (v *View) SlotOf(i int) uint32 {
	if slot, ok := nthSlot(v.bits, i); ok {
		return slot
	}
	return NoSlot
}

// Has reports whether the node of a slot is a member.
func (v *View) Has(slot uint32) bool { return hasBit(v.bits, slot) }

// Prefetch loads the node of a slot into the cache without waiting for it.
func (v *View) Prefetch(slot uint32) {
	if n := nodeAt(v.nodes, slot); n != nil {
		n.summary.Load()
		n.epoch.Load()
	}
}

// At returns the member with a slot. Its Node is nil if the node of the slot is no member.
//
// A writer removes a node from the index before it replaces a declaration that serves the requirement by one that does not. So if the node is
// in the index after its epoch and revision were read, it serves the requirement at that revision.
func (v *View) At(slot uint32) Member {
	n := nodeAt(v.nodes, slot)
	if n == nil {
		return Member{}
	}
	epoch, revision := n.Epoch(), core.Revision(n.revision.Load())
	if !v.Has(slot) || nodeAt(v.nodes, slot) != n {
		return Member{}
	}
	return Member{Node: n, Epoch: epoch, Revision: revision}
}
