package bench

import (
	"math/rand/v2"
	"time"
)

// memoryBaseline is a fleet reduced to the memory that a decision must read: the entry of a pool for a direction, two of the bits that say which
// nodes of the pool serve the direction, their places in the table of the pool, and for each the node in the fleet view and in the store. Each
// of these steps needs what the step before has read. Reading it is a cost that no decision with such indexes can avoid.
type memoryBaseline struct {
	directions, pools int
	stops             []baselineStop // by direction and pool
	bits              [][]uint64     // the same
	tables            [][]baselineEntry
	view              [][2][64]byte
	store             [][2][64]byte
	sum               uint32
}

// baselineStop is a pool for a direction. It has the size of a cache line.
type baselineStop struct {
	bits, table uint32
	_           [56]byte
}

// baselineEntry has the size of an entry of the table of a pool.
type baselineEntry struct {
	node, stored uint32
	_            [8]byte
}

// newMemoryBaseline makes a baseline. The nodes of a pool are anywhere in memory.
func newMemoryBaseline(nodes, pools, directions int) *memoryBaseline {
	m := &memoryBaseline{
		directions: directions, pools: pools, stops: make([]baselineStop, directions*pools), bits: make([][]uint64, directions*pools),
		tables: make([][]baselineEntry, pools), view: make([][2][64]byte, nodes), store: make([][2][64]byte, nodes),
	}
	for i, node := range rand.Perm(nodes) {
		pool := i % pools
		m.tables[pool] = append(m.tables[pool], baselineEntry{node: uint32(node), stored: uint32(node)})
	}
	for i := range m.stops {
		pool := i % pools
		m.stops[i].bits, m.stops[i].table = uint32(i), uint32(pool)
		m.bits[i] = make([]uint64, (len(m.tables[pool])+63)/64)
	}
	return m
}

// chase reads what one decision reads, in the order of the dependencies, and returns the mean time. The directions have the shares that
// decisions have.
func (m *memoryBaseline) chase(times int, shares []int) time.Duration {
	began := time.Now()
	for i := range times {
		// As with the lock of the ledger, the next decision starts after this one has ended. All words are 0, which the processor does not know.
		stop := &m.stops[shares[i%len(shares)]%m.directions*m.pools+rand.IntN(m.pools)+int(m.sum)]
		words, table := m.bits[stop.bits], m.tables[stop.table]
		a, b := rand.IntN(len(table)), rand.IntN(len(table))
		entryA, entryB := &table[a+int(words[a/64])], &table[b+int(words[b/64])]
		for line := range 2 {
			m.sum += uint32(m.view[entryA.node][line][0]) + uint32(m.view[entryB.node][line][0]) +
				uint32(m.store[entryA.stored][line][0]) + uint32(m.store[entryB.stored][line][0])
		}
	}
	return time.Since(began) / time.Duration(times)
}
