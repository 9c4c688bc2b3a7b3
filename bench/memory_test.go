package bench

import (
	"math/rand/v2"
	"time"
)

// memoryBaseline is a fleet reduced to the memory that a decision must read: two entries of the direction's list and, for each,
// the node in the fleet view and in the store. Reading it is a cost that no decision can avoid.
type memoryBaseline struct {
	entries []indexEntry
	view    [][128]byte
	store   [][192]byte
	sum     uint32
}

// indexEntry has the size of a member of the direction's list.
type indexEntry struct {
	node uint32
	_    [28]byte
}

func newMemoryBaseline(nodes int) *memoryBaseline {
	m := &memoryBaseline{entries: make([]indexEntry, nodes), view: make([][128]byte, nodes), store: make([][192]byte, nodes)}
	for i, node := range rand.Perm(nodes) {
		m.entries[i].node = uint32(node)
	}
	return m
}

// chase reads what one decision reads, in the order of the dependencies, and returns the mean time.
func (m *memoryBaseline) chase(times int) time.Duration {
	began := time.Now()
	for range times {
		// As with the lock of the ledger, the next decision starts after this one has ended.
		skip := int(m.sum & 1)
		a, b := m.entries[(rand.IntN(len(m.entries))+skip)%len(m.entries)].node, m.entries[(rand.IntN(len(m.entries))+skip)%len(m.entries)].node
		m.sum += uint32(m.view[a][0]) + uint32(m.view[b][0]) + uint32(m.store[a][0]) + uint32(m.store[b][0]) +
			uint32(m.store[a][64]) + uint32(m.store[b][64])
	}
	return time.Since(began) / time.Duration(times)
}
