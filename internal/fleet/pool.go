package fleet

import (
	"iter"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Pool is the index of the nodes that serve one direction, whatever their health: who can, not who may.
//
// Pools are made for the directions that jobs ask for, not for those that nodes declare: a node with thirty
// languages declares 870 directions, and hardly any is ever used.
type Pool struct {
	Requirement core.Requirement

	members atomic.Pointer[Members]
	used    atomic.Int64        // Instant of the last read, to the second
	place   map[core.NodeID]int // writers only
}

type poolKey struct {
	core.Direction
	tts bool
}

const (
	maxPools   = 4096
	idlePool   = 10 * time.Minute
	usedWithin = Instant(time.Second)
)

// chunk is how many members are copied when one of them comes or goes.
const chunk = 512

// Member is a node that serves a direction, as of one revision of what it can do. A reservation made on it
// carries that revision, so that a node which has withdrawn the direction since is not granted.
type Member struct {
	*Node
	Revision core.Revision
	Handle   store.Handle // the node's, here so that a draw can have it fetched at once
}

func member(n *Node, revision core.Revision) Member {
	return Member{Node: n, Revision: revision, Handle: n.handle}
}

// Fetch brings what a decision looks at into the cache without waiting for it.
func (m *Member) Fetch() {
	if m.Node != nil {
		m.brief.Load()
	}
	if m.Handle != nil {
		m.Handle.Fetch()
	}
}

// Members is an immutable list of nodes.
type Members struct {
	chunks [][]Member
	n      int
}

// Len is how many there are.
func (m *Members) Len() int { return m.n }

// At returns the i-th.
func (m *Members) At(i int) Member { return m.chunks[i/chunk][i%chunk] }

// All walks the members in order.
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

// append adds a member to a list that nobody else has yet.
func (m *Members) append(n Member) {
	if m.n%chunk == 0 {
		m.chunks = append(m.chunks, make([]Member, 0, chunk))
	}
	last := len(m.chunks) - 1
	m.chunks[last] = append(m.chunks[last], n)
	m.n++
}

// with returns the list with one more at its end.
func (m *Members) with(n Member) *Members {
	next := &Members{chunks: slices.Clone(m.chunks), n: m.n + 1}
	if m.n%chunk == 0 {
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
		changed := slices.Clone(next.chunks[i/chunk])
		changed[i%chunk] = moved
		next.chunks[i/chunk] = changed
	}
	if next.n%chunk == 0 {
		next.chunks = next.chunks[:last]
	} else {
		next.chunks[last] = next.chunks[last][: next.n%chunk : next.n%chunk]
	}
	return next
}

// replace returns the list with another member in the i-th place.
func (m *Members) replace(i int, n Member) *Members {
	next := &Members{chunks: slices.Clone(m.chunks), n: m.n}
	changed := slices.Clone(next.chunks[i/chunk])
	changed[i%chunk] = n
	next.chunks[i/chunk] = changed
	return next
}

// Members is who serves the direction now.
func (p *Pool) Members() *Members { return p.members.Load() }

// put notes that a node serves the direction as of a revision.
func (p *Pool) put(n *Node, revision core.Revision) {
	members := p.members.Load()
	if i, ok := p.place[n.id]; ok {
		p.members.Store(members.replace(i, member(n, revision)))
		return
	}
	p.place[n.id] = members.n
	p.members.Store(members.with(member(n, revision)))
}

func (p *Pool) drop(id core.NodeID) {
	i, ok := p.place[id]
	if !ok {
		return
	}
	members := p.members.Load()
	moved := members.At(members.n - 1)
	p.place[moved.id] = i
	delete(p.place, id)
	p.members.Store(members.without(i))
}

// dropWhere takes out every member that is gone. It costs one walk, and one copy if there are any.
func (p *Pool) dropWhere(gone func(*Node) bool) {
	members := p.members.Load()
	some := false
	for m := range members.All() {
		if some = gone(m.Node); some {
			break
		}
	}
	if !some {
		return
	}
	left := &Members{}
	clear(p.place)
	for m := range members.All() {
		if !gone(m.Node) {
			p.place[m.id] = left.n
			left.append(m)
		}
	}
	p.members.Store(left)
}

// Pool returns the pool of a direction. Only the first call for a direction has to wait for anything.
func (f *Fleet) Pool(d core.Direction, tts bool) *Pool {
	now := f.Now()
	p := (*f.pools.Load())[poolKey{d, tts}]
	if p == nil {
		p = f.makePool(poolKey{d, tts}, now)
	}
	if now-Instant(p.used.Load()) > usedWithin {
		p.used.Store(int64(now))
	}
	return p
}

// makePool finds the members of a direction that nobody asked for before. Callers choose directions and the fleet may be
// large, so writers do not wait for it: who changes meanwhile is looked at once more. One pool is built at a time.
func (f *Fleet) makePool(key poolKey, now Instant) *Pool {
	f.building.Lock()
	defer f.building.Unlock()
	if p := (*f.pools.Load())[key]; p != nil {
		return p
	}
	f.mu.Lock()
	f.touched = make(map[core.NodeID]bool)
	f.mu.Unlock()
	p := f.scan(key)
	p.used.Store(int64(now))
	f.publish(key, p)
	return p
}

// scan makes a pool of the nodes in view.
func (f *Fleet) scan(key poolKey) *Pool {
	p := &Pool{Requirement: core.NewRequirement(key.Direction, key.tts), place: make(map[core.NodeID]int)}
	members := &Members{}
	for n := range f.All() {
		if f.scanned != nil {
			f.scanned()
		}
		if declared := n.Now(); p.serves(declared) {
			p.place[n.id] = members.n
			members.append(member(n, declared.Revision))
		}
	}
	p.members.Store(members)
	return p
}

// publish brings a pool up to date and lets everybody have it.
func (f *Fleet) publish(key poolKey, p *Pool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.touched {
		if n := f.Node(id); n != nil {
			p.update(n, n.Now())
		} else {
			p.drop(id)
		}
	}
	f.touched = nil
	next := maps.Clone(*f.pools.Load())
	if len(next) >= maxPools {
		evict(next)
	}
	next[key] = p
	f.pools.Store(&next)
}

// touch notes that a node has changed, for whoever is building a pool.
func (f *Fleet) touch(id core.NodeID) {
	if f.touched != nil {
		f.touched[id] = true
	}
}

// evict drops the pool that nobody has used for the longest time.
func evict(pools map[poolKey]*Pool) {
	var oldest poolKey
	since := int64(math.MaxInt64)
	for key, p := range pools {
		if used := p.used.Load(); used < since {
			oldest, since = key, used
		}
	}
	delete(pools, oldest)
}

// Pools walks the directions that were asked for lately.
func (f *Fleet) Pools() iter.Seq[*Pool] { return maps.Values(*f.pools.Load()) }

// ForgetIdlePools drops the pools of directions that nobody asks for any more.
func (f *Fleet) ForgetIdlePools() {
	now := f.Now()
	idle := func(p *Pool) bool { return now-Instant(p.used.Load()) > Instant(idlePool) }
	some := false
	for p := range f.Pools() {
		some = some || idle(p)
	}
	if !some {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	next := maps.Clone(*f.pools.Load())
	maps.DeleteFunc(next, func(_ poolKey, p *Pool) bool { return idle(p) })
	f.pools.Store(&next)
}

// place puts a node into the pools it serves and takes it out of those it does not serve any more.
func (f *Fleet) place(n *Node, declared *core.Node) {
	f.touch(n.id)
	for p := range f.Pools() {
		p.update(n, declared)
	}
}

// serves reports whether a node that declares this belongs to the pool.
func (p *Pool) serves(declared *core.Node) bool {
	return p.Requirement.Mismatch(&declared.Capability) == core.ReasonNone
}

// update puts a node into the pool if it serves the direction, and takes it out if it does not.
func (p *Pool) update(n *Node, declared *core.Node) {
	if p.serves(declared) {
		p.put(n, declared.Revision)
	} else {
		p.drop(n.id)
	}
}

// leave takes a node out of every pool.
func (f *Fleet) leave(n *Node) {
	for p := range f.Pools() {
		p.drop(n.id)
	}
}
