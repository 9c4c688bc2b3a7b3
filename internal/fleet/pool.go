package fleet

import (
	"iter"
	"maps"
	"math"
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/lockwait"
)

// writersMutex is the lock of the writers of a fleet.
type writersMutex = lockwait.Mutex[lockwait.FleetWriters]

// Pool is a set of nodes with the indexes of the directions that were required of it. Reads take no lock; writers hold the lock of the
// fleet.
type Pool struct {
	ID core.PoolID // of the capability pool; empty: its nodes belong to none

	table   table
	ready   bitmap  // the nodes that may get jobs if they have a free slot
	columns columns // writers only
	indexes atomic.Pointer[map[indexKey]*Index]

	onScan  func()                                 // called for each chunk that is evaluated for a new index; for tests
	buildMu lockwait.Mutex[lockwait.FleetBuilding] // held while a new index is built; taken before the lock of the fleet
	changed map[uint32]bool                        // slots that changed while an index is built; nil: none is built
}

func newPool(id core.PoolID) *Pool {
	p := &Pool{ID: id, columns: newColumns()}
	p.indexes.Store(&map[indexKey]*Index{})
	return p
}

// add adds a node with a declaration and returns its slot.
func (p *Pool) add(n *Node, declared *core.Node) (slot uint32) {
	slot = p.table.add(n)
	p.noteChange(slot)
	p.columns.declare(slot, declared, true)
	for x := range p.Indexes() {
		if x.serves(declared) {
			x.members.set(slot, true)
		}
	}
	p.ready.set(slot, n.Summary().Grantable())
	return slot
}

// remove removes the node of a slot, which was added with a declaration.
func (p *Pool) remove(slot uint32, declared *core.Node) {
	p.noteChange(slot)
	for x := range p.Indexes() {
		x.members.set(slot, false)
	}
	p.columns.declare(slot, declared, false)
	p.ready.set(slot, false)
	p.table.remove(slot)
}

// redeclare replaces the declaration of a node. It leaves indexes before the declaration is replaced, and enters others after that: see
// Index.member.
func (p *Pool) redeclare(n *Node, declared *core.Node) {
	p.noteChange(n.slot)
	var entered []*Index
	for x := range p.Indexes() {
		if x.serves(declared) {
			entered = append(entered, x)
		} else {
			x.members.set(n.slot, false)
		}
	}
	p.columns.declare(n.slot, n.Declared(), false)
	n.setDeclared(declared)
	p.columns.declare(n.slot, declared, true)
	for _, x := range entered {
		x.members.set(n.slot, true)
	}
	p.ready.set(n.slot, n.Summary().Grantable())
}

// noteChange records that a node has changed, for an index that is being built.
func (p *Pool) noteChange(slot uint32) {
	if p.changed != nil {
		p.changed[slot] = true
	}
}

// Indexes iterates over the indexes.
func (p *Pool) Indexes() iter.Seq[*Index] { return maps.Values(*p.indexes.Load()) }

// index returns the index of a direction. Only the first call for a direction builds it and may wait.
func (p *Pool) index(key indexKey, r *core.Restriction, now Instant, mu *writersMutex) *Index {
	x := (*p.indexes.Load())[key]
	if x == nil {
		x = p.build(key, r, now, mu)
	}
	if now-Instant(x.lastUsed.Load()) > lastUsedPrecision {
		x.lastUsed.Store(int64(now))
	}
	return x
}

// build builds the index of a direction. Callers choose directions and the pool may be large, so writers, who hold mu, do not wait for it:
// nodes that change meanwhile are checked once more. One index is built at a time.
func (p *Pool) build(key indexKey, r *core.Restriction, now Instant, mu *writersMutex) *Index {
	p.buildMu.Lock()
	defer p.buildMu.Unlock()
	if x := (*p.indexes.Load())[key]; x != nil {
		return x
	}
	x := &Index{Requirement: core.NewRequirement(key.Direction, key.tts), Restriction: *r, table: &p.table}
	x.lastUsed.Store(int64(now))
	mu.Lock()
	p.changed = make(map[uint32]bool)
	q, chunks := p.columns.query(&x.Requirement, r), p.table.len()
	mu.Unlock()
	for i := range chunks {
		if p.onScan != nil {
			p.onScan()
		}
		w := q.evaluate(i)
		x.members.fill(i, &w)
	}
	mu.Lock()
	defer mu.Unlock()
	p.publish(key, x)
	return x
}

// publish applies the changes since the columns were read and makes the index visible.
func (p *Pool) publish(key indexKey, x *Index) {
	for slot := range p.changed {
		n := p.table.at(slot)
		x.members.set(slot, n != nil && x.serves(n.Declared()))
	}
	p.changed = nil
	next := maps.Clone(*p.indexes.Load())
	evictOldest(next, key.restricted != "")
	next[key] = x
	p.indexes.Store(&next)
}

// evictOldest removes the least recently used index of those with or without a restriction, if there are as many as there may be. Callers
// choose restrictions freely, so the indexes with one do not replace the others.
func evictOldest(indexes map[indexKey]*Index, restricted bool) {
	limit := maxIndexes
	if restricted {
		limit = maxRestricted
	}
	if len(indexes) < limit {
		return
	}
	var oldest indexKey
	count, since := 0, int64(math.MaxInt64)
	for key, x := range indexes {
		if (key.restricted != "") != restricted {
			continue
		}
		count++
		if used := x.lastUsed.Load(); used < since {
			oldest, since = key, used
		}
	}
	if count >= limit {
		delete(indexes, oldest)
	}
}

// evictIdle removes the indexes that were not used for indexIdleTimeout.
func (p *Pool) evictIdle(now Instant, mu *writersMutex) {
	idle := func(x *Index) bool { return now-Instant(x.lastUsed.Load()) > Instant(indexIdleTimeout) }
	found := false
	for x := range p.Indexes() {
		found = found || idle(x)
	}
	if !found {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	next := maps.Clone(*p.indexes.Load())
	maps.DeleteFunc(next, func(_ indexKey, x *Index) bool { return idle(x) })
	p.indexes.Store(&next)
}
