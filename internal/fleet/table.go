package fleet

import (
	"iter"
	"sync/atomic"
)

// table gives each node of a pool a slot, by which bitmaps name it. It is read without a lock. A slot of a node that is gone is used again.
type table struct {
	chunks atomic.Pointer[[]*tableChunk]
	next   atomic.Uint32 // the first slot that was never used
	free   []uint32      // slots that were used; writers only
}

type tableChunk [chunkSlots]tableEntry

// tableEntry has the node of a slot. The hint leads to where the store keeps the node, so that both are fetched from memory at once.
type tableEntry struct {
	node atomic.Pointer[Node]
	hint atomic.Pointer[atomic.Int64] // nil: none
}

// load returns the chunks.
func (t *table) load() []*tableChunk {
	if chunks := t.chunks.Load(); chunks != nil {
		return *chunks
	}
	return nil
}

// at returns the node of a slot; nil if there is none.
func (t *table) at(slot uint32) *Node {
	if e := t.entry(slot); e != nil {
		return e.node.Load()
	}
	return nil
}

// entry returns the entry of a slot; nil if the table is shorter.
func (t *table) entry(slot uint32) *tableEntry {
	chunks := t.load()
	if int(slot/chunkSlots) >= len(chunks) {
		return nil
	}
	return &chunks[slot/chunkSlots][slot%chunkSlots]
}

// add gives a node a slot.
func (t *table) add(n *Node) uint32 {
	slot := t.next.Load()
	if last := len(t.free) - 1; last >= 0 {
		slot, t.free = t.free[last], t.free[:last]
	} else {
		defer t.next.Store(slot + 1)
	}
	chunks := t.load()
	if int(slot/chunkSlots) >= len(chunks) {
		chunks = append(chunks[:len(chunks):len(chunks)], new(tableChunk))
		t.chunks.Store(&chunks)
	}
	e := &chunks[slot/chunkSlots][slot%chunkSlots]
	if n.handle != nil {
		e.hint.Store(n.handle.Hint())
	}
	e.node.Store(n)
	return slot
}

// all iterates over the nodes.
func (t *table) all() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, chunk := range t.load() {
			for i := range chunk {
				if n := chunk[i].node.Load(); n != nil && !yield(n) {
					return
				}
			}
		}
	}
}

// remove empties a slot.
func (t *table) remove(slot uint32) {
	e := t.entry(slot)
	e.node.Store(nil)
	e.hint.Store(nil)
	t.free = append(t.free, slot)
}

// used returns how many slots have been used.
func (t *table) used() int { return int(t.next.Load()) }

// len returns the number of chunks that have been used.
func (t *table) len() int { return (t.used() + chunkSlots - 1) / chunkSlots }
