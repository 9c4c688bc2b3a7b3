package fleet

import (
	"iter"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// chunkSize is the number of members that are copied if one of them is added or removed.
const chunkSize = 512

// Member is a node of a pool with the revision of its declaration. A reservation names that revision, so that it is refused
// if the node no longer serves the direction.
type Member struct {
	*Node
	Revision core.Revision
	Handle   store.Handle // of the node; here so that a selection can prefetch it without loading the node
}

func newMember(n *Node, revision core.Revision) Member {
	return Member{Node: n, Revision: revision, Handle: n.handle}
}

// Prefetch loads the data that a selection reads into the cache without waiting for it.
func (m *Member) Prefetch() {
	if m.Node != nil {
		m.summary.Load()
	}
	if m.Handle != nil {
		m.Handle.Prefetch()
	}
}

// Members is an immutable list of nodes.
type Members struct {
	chunks [][]Member
	n      int
}

// Len returns the number of members.
func (m *Members) Len() int { return m.n }

// At returns the i-th member.
func (m *Members) At(i int) Member { return m.chunks[i/chunkSize][i%chunkSize] }

// All iterates over the members in order.
func (m *Members) All() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, c := range m.chunks {
			for _, n := range c {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// append adds a member to a list that is not shared yet.
func (m *Members) append(n Member) {
	if m.n%chunkSize == 0 {
		m.chunks = append(m.chunks, make([]Member, 0, chunkSize))
	}
	last := len(m.chunks) - 1
	m.chunks[last] = append(m.chunks[last], n)
	m.n++
}

// with returns the list with one more member at its end.
func (m *Members) with(n Member) *Members {
	next := &Members{chunks: slices.Clone(m.chunks), n: m.n + 1}
	if m.n%chunkSize == 0 {
		next.chunks = append(next.chunks, []Member{n})
		return next
	}
	last := len(next.chunks) - 1
	grown := make([]Member, 0, len(next.chunks[last])+1)
	next.chunks[last] = append(append(grown, next.chunks[last]...), n)
	return next
}

// without returns the list with the last member in the place of the i-th.
func (m *Members) without(i int) *Members {
	next := &Members{chunks: slices.Clone(m.chunks), n: m.n - 1}
	moved := m.At(next.n)
	last := len(next.chunks) - 1
	if i != next.n {
		changed := slices.Clone(next.chunks[i/chunkSize])
		changed[i%chunkSize] = moved
		next.chunks[i/chunkSize] = changed
	}
	if next.n%chunkSize == 0 {
		next.chunks = next.chunks[:last]
	} else {
		next.chunks[last] = next.chunks[last][: next.n%chunkSize : next.n%chunkSize]
	}
	return next
}

// replace returns the list with another member in the i-th place.
func (m *Members) replace(i int, n Member) *Members {
	next := &Members{chunks: slices.Clone(m.chunks), n: m.n}
	changed := slices.Clone(next.chunks[i/chunkSize])
	changed[i%chunkSize] = n
	next.chunks[i/chunkSize] = changed
	return next
}
