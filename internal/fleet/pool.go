package fleet

import (
	"iter"
	"maps"
	"math"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Pool is the index of the nodes that can serve one requirement, whatever their health.
//
// Pools are built for the directions that jobs require, not for those that nodes declare: a node with thirty languages
// declares 870 directions, and few are ever used.
type Pool struct {
	Requirement core.Requirement

	members  atomic.Pointer[Members]
	lastUsed atomic.Int64        // Instant of the last read, with a precision of lastUsedPrecision
	index    map[core.NodeID]int // position in members; writers only
}

type poolKey struct {
	core.Direction
	tts bool
}

const (
	maxPools          = 4096
	poolIdleTimeout   = 10 * time.Minute
	lastUsedPrecision = Instant(time.Second)
)

// Members returns the current members of the pool.
func (p *Pool) Members() *Members { return p.members.Load() }

// put adds a node, or replaces its revision.
func (p *Pool) put(n *Node, revision core.Revision) {
	members := p.members.Load()
	if i, ok := p.index[n.id]; ok {
		p.members.Store(members.replace(i, newMember(n, revision)))
		return
	}
	p.index[n.id] = members.n
	p.members.Store(members.with(newMember(n, revision)))
}

func (p *Pool) remove(id core.NodeID) {
	i, ok := p.index[id]
	if !ok {
		return
	}
	members := p.members.Load()
	moved := members.At(members.n - 1)
	p.index[moved.id] = i
	delete(p.index, id)
	p.members.Store(members.without(i))
}

// removeWhere removes every member that is gone. It costs one iteration, and one copy if there are any.
func (p *Pool) removeWhere(gone func(*Node) bool) {
	members := p.members.Load()
	found := false
	for m := range members.All() {
		if found = gone(m.Node); found {
			break
		}
	}
	if !found {
		return
	}
	remaining := &Members{}
	clear(p.index)
	for m := range members.All() {
		if !gone(m.Node) {
			p.index[m.id] = remaining.n
			remaining.append(m)
		}
	}
	p.members.Store(remaining)
}

// Pool returns the pool of a direction. Only the first call for a direction builds it and may wait.
func (f *Fleet) Pool(d core.Direction, tts bool) *Pool {
	now := f.Now()
	p := (*f.pools.Load())[poolKey{d, tts}]
	if p == nil {
		p = f.buildPool(poolKey{d, tts}, now)
	}
	if now-Instant(p.lastUsed.Load()) > lastUsedPrecision {
		p.lastUsed.Store(int64(now))
	}
	return p
}

// buildPool builds the pool of a direction. Callers choose directions and the fleet may be large, so writers do not wait
// for it: nodes that change meanwhile are checked once more. One pool is built at a time.
func (f *Fleet) buildPool(key poolKey, now Instant) *Pool {
	f.buildMu.Lock()
	defer f.buildMu.Unlock()
	if p := (*f.pools.Load())[key]; p != nil {
		return p
	}
	f.mu.Lock()
	f.changed = make(map[core.NodeID]bool)
	f.mu.Unlock()
	p := f.scanMembers(key)
	p.lastUsed.Store(int64(now))
	f.publishPool(key, p)
	return p
}

// scanMembers makes a pool of the nodes in view.
func (f *Fleet) scanMembers(key poolKey) *Pool {
	p := &Pool{Requirement: core.NewRequirement(key.Direction, key.tts), index: make(map[core.NodeID]int)}
	members := &Members{}
	for n := range f.All() {
		if f.onScan != nil {
			f.onScan()
		}
		if declared := n.Declared(); p.serves(declared) {
			p.index[n.id] = members.n
			members.append(newMember(n, declared.Revision))
		}
	}
	p.members.Store(members)
	return p
}

// publishPool applies the changes since the scan and makes the pool visible.
func (f *Fleet) publishPool(key poolKey, p *Pool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.changed {
		if n := f.Node(id); n != nil {
			p.update(n, n.Declared())
		} else {
			p.remove(id)
		}
	}
	f.changed = nil
	next := maps.Clone(*f.pools.Load())
	if len(next) >= maxPools {
		evictOldest(next)
	}
	next[key] = p
	f.pools.Store(&next)
}

// noteChange records that a node has changed, for a pool that is being built.
func (f *Fleet) noteChange(id core.NodeID) {
	if f.changed != nil {
		f.changed[id] = true
	}
}

// evictOldest removes the least recently used pool.
func evictOldest(pools map[poolKey]*Pool) {
	var oldest poolKey
	since := int64(math.MaxInt64)
	for key, p := range pools {
		if used := p.lastUsed.Load(); used < since {
			oldest, since = key, used
		}
	}
	delete(pools, oldest)
}

// Pools iterates over the pools.
func (f *Fleet) Pools() iter.Seq[*Pool] { return maps.Values(*f.pools.Load()) }

// EvictIdlePools removes the pools that were not used for poolIdleTimeout.
func (f *Fleet) EvictIdlePools() {
	now := f.Now()
	idle := func(p *Pool) bool { return now-Instant(p.lastUsed.Load()) > Instant(poolIdleTimeout) }
	found := false
	for p := range f.Pools() {
		found = found || idle(p)
	}
	if !found {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	next := maps.Clone(*f.pools.Load())
	maps.DeleteFunc(next, func(_ poolKey, p *Pool) bool { return idle(p) })
	f.pools.Store(&next)
}

// updatePools adds a node to the pools that it serves and removes it from the others.
func (f *Fleet) updatePools(n *Node, declared *core.Node) {
	f.noteChange(n.id)
	for p := range f.Pools() {
		p.update(n, declared)
	}
}

// serves reports whether a node with this declaration belongs to the pool.
func (p *Pool) serves(declared *core.Node) bool {
	return p.Requirement.Mismatch(&declared.Capability) == core.ReasonNone
}

// update adds a node to the pool if it serves the direction, and removes it otherwise.
func (p *Pool) update(n *Node, declared *core.Node) {
	if p.serves(declared) {
		p.put(n, declared.Revision)
	} else {
		p.remove(n.id)
	}
}

// removeFromPools removes a node from every pool.
func (f *Fleet) removeFromPools(n *Node) {
	for p := range f.Pools() {
		p.remove(n.id)
	}
}
