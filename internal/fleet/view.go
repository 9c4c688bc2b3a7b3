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

	first *bitmapChunk // of bits, nil: it has no bits
	bits  []*bitmapChunk
	nodes []*tableChunk
}

// View returns the members as they are now.
func (x *Index) View() View {
	v := View{Len: x.members.len(), bits: x.members.load(), nodes: x.table.load()}
	v.Slots = min(len(v.bits)*chunkSlots, x.table.used())
	if len(v.bits) > 0 {
		v.first = v.bits[0]
	}
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
func (v *View) Has(slot uint32) bool {
	if slot < chunkSlots { // most pools have one chunk
		return v.first != nil && v.first.words[slot/wordBits].Load()&(1<<(slot%wordBits)) != 0
	}
	return hasBit(v.bits, slot)
}

// MaxAny is the maximum number of slots of one call of Any.
const MaxAny = 16

// Any returns for each of up to MaxAny slots a bit that says whether its node is a member. The waits for memory overlap, also those for the
// nodes' addresses.
func (v *View) Any(slots []uint32) (members uint32) {
	for i, slot := range slots {
		nodeAt(v.nodes, slot)
		bit := uint32(0)
		if v.Has(slot) {
			bit = 1
		}
		members |= bit << i
	}
	return members
}

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
