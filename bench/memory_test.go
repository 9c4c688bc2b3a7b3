package bench

import (
	"math/rand/v2"
	"time"
)

// memory is a fleet reduced to what a decision must touch: two places of the pool's list and, behind each, the
// node as the view has it and as the store has it. Chasing through it costs what no decision can do without.
type memory struct {
	list  []place
	view  [][128]byte
	store [][192]byte
	sum   uint32
}

// place is as large as a pool's member.
type place struct {
	node uint32
	_    [28]byte
}

func newMemory(nodes int) *memory {
	m := &memory{list: make([]place, nodes), view: make([][128]byte, nodes), store: make([][192]byte, nodes)}
	for i, node := range rand.Perm(nodes) {
		m.list[i].node = uint32(node)
	}
	return m
}

// chase touches what one decision does, each in the order in which it can be known, and returns how long it
// took on average.
func (m *memory) chase(times int) time.Duration {
	began := time.Now()
	for range times {
		// As with the ledger's lock, nothing of the next decision begins before this one is through.
		skip := int(m.sum & 1)
		a, b := m.list[(rand.IntN(len(m.list))+skip)%len(m.list)].node, m.list[(rand.IntN(len(m.list))+skip)%len(m.list)].node
		m.sum += uint32(m.view[a][0]) + uint32(m.view[b][0]) + uint32(m.store[a][0]) + uint32(m.store[b][0]) +
			uint32(m.store[a][64]) + uint32(m.store[b][64])
	}
	return time.Since(began) / time.Duration(times)
}
