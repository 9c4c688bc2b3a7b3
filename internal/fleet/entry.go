package fleet

import (
	"iter"
	"maps"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// entry has the indexes of one requirement and restriction: one for each pool that has, or had, a node for it.
//
// Entries are made for the directions that jobs require, not for those that nodes declare: a node with thirty languages declares 870
// directions, and few are ever used.
type entry struct {
	requirement core.Requirement
	restriction core.Restriction
	indexes     []atomic.Pointer[Index] // by the number of the pool; nil: the pool had no node for it. The first is never nil
	lastUsed    atomic.Int64            // Instant of the last read, with a precision of lastUsedPrecision
	route       atomic.Pointer[Route]
	closed      atomic.Bool // it is not kept up to date any more, and its indexes are empty

	bytes  int64 // about the memory of the indexes; writers only, as the next
	served bool  // some pool has, or had, a node for it
}

// indexKey identifies an entry.
type indexKey struct {
	core.Direction
	tts        bool
	restricted string // Key of the restriction
}

const (
	indexIdleTimeout  = 10 * time.Minute
	lastUsedPrecision = Instant(time.Second)
)

// newEntry makes an entry without members.
func (d *division) newEntry(key indexKey, r *core.Restriction, now Instant) *entry {
	e := &entry{
		requirement: core.NewRequirement(key.Direction, key.tts), restriction: *r, indexes: make([]atomic.Pointer[Index], len(d.pools)),
		bytes: entryBytes + int64(len(d.pools))*pointerBytes,
	}
	e.lastUsed.Store(int64(now))
	e.indexOf(d.pools[0])
	return e
}

// indexOf returns the index of a pool, which is made if there is none. Only the writer calls it.
func (e *entry) indexOf(p *Pool) *Index {
	x := e.indexes[p.number].Load()
	if x == nil {
		x = &Index{Requirement: &e.requirement, Restriction: &e.restriction, pool: p}
		e.indexes[p.number].Store(x)
		e.bytes += indexBytes
	}
	return x
}

// set adds or removes a node of a pool. Only the writer calls it.
func (e *entry) set(p *Pool, slot uint32, on bool) {
	if !on && e.indexes[p.number].Load() == nil {
		return
	}
	x := e.indexOf(p)
	if on {
		e.noteChunk(x, int(slot/chunkSlots))
	}
	x.members.set(slot, on)
}

// fill sets the members of a chunk of a pool, while nobody reads the entry yet.
func (e *entry) fill(p *Pool, chunk int, w *words) {
	if *w == (words{}) {
		return
	}
	x := e.indexOf(p)
	e.noteChunk(x, chunk)
	x.members.fill(chunk, w)
}

// noteChunk records that a chunk of an index is about to have members.
func (e *entry) noteChunk(x *Index, chunk int) {
	e.served = true
	if x.members.load().chunk(chunk) == nil {
		e.bytes += chunkBytes
	}
}

// serves reports whether a node with this declaration belongs to the indexes of the entry.
func (e *entry) serves(declared *core.Node) bool { return e.indexes[0].Load().serves(declared) }

// all iterates over the indexes of the entry.
func (e *entry) all() iter.Seq[*Index] {
	return func(yield func(*Index) bool) {
		for i := range e.indexes {
			if x := e.indexes[i].Load(); x != nil && !yield(x) {
				return
			}
		}
	}
}

// entry returns the indexes of a direction; nil if there is no room for those of one more restriction. Only the first call for a direction
// builds them and may wait.
func (d *division) entry(key indexKey, r *core.Restriction, now Instant, mu *writersMutex) *entry {
	e := (*d.entries.Load())[key]
	if e == nil {
		if e = d.build(key, r, now, mu); e == nil {
			return nil
		}
	}
	if now-Instant(e.lastUsed.Load()) > lastUsedPrecision {
		e.lastUsed.Store(int64(now))
	}
	return e
}

// build builds the indexes of a direction. Callers choose directions and the fleet may be large, so writers, who hold mu, do not wait for
// it: nodes that change meanwhile are checked once more. One entry is built at a time.
func (d *division) build(key indexKey, r *core.Restriction, now Instant, mu *writersMutex) *entry {
	if d.isFull(key, r, now) {
		return nil
	}
	d.buildMu.Lock()
	defer d.buildMu.Unlock()
	if e := (*d.entries.Load())[key]; e != nil {
		return e
	}
	if !d.admits(key, r, now, mu) {
		return nil
	}
	e := d.newEntry(key, r, now)
	for _, p := range d.pools {
		mu.Lock()
		p.changed = make(map[uint32]bool)
		chunks := p.table.len()
		var q *query
		if chunks > 0 {
			q = p.columns.query(&e.requirement, r)
		}
		mu.Unlock()
		if chunks == 0 || q.isEmpty() {
			continue
		}
		for chunk := range chunks {
			w := q.evaluate(chunk)
			if d.onScan != nil {
				d.onScan()
			}
			e.fill(p, chunk, &w)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	d.publish(key, e)
	return e
}

// publish applies the changes since the columns were read and makes an entry visible. The caller holds the lock of the fleet.
func (d *division) publish(key indexKey, e *entry) {
	for _, p := range d.pools {
		p.applyChanges(e)
	}
	if d.closed {
		e.close()
	}
	next := maps.Clone(*d.entries.Load())
	next[key] = e
	d.enforceLimits(next, e)
	d.entries.Store(&next)
}

// close empties the indexes of an entry that is not kept up to date any more: a selection that has begun must not choose a node that no
// longer serves the direction. The caller holds the lock of the fleet.
func (e *entry) close() {
	e.closed.Store(true) // before the members are gone: a reader that finds none checks it after that
	for x := range e.all() {
		x.members.clear()
	}
}

// evictIdle closes and removes the entries that were not used for indexIdleTimeout, and others while there are more than there may be: the
// indexes grow with the fleet.
func (d *division) evictIdle(now Instant, mu *writersMutex) {
	idle := func(e *entry) bool { return now-Instant(e.lastUsed.Load()) > Instant(indexIdleTimeout) }
	mu.Lock()
	defer mu.Unlock()
	found := d.exceedsLimits()
	for _, e := range *d.entries.Load() {
		found = found || idle(e)
	}
	if !found {
		return
	}
	next := maps.Clone(*d.entries.Load())
	maps.DeleteFunc(next, func(_ indexKey, e *entry) bool {
		if !idle(e) {
			return false
		}
		e.close()
		return true
	})
	d.enforceLimits(next, nil)
	d.entries.Store(&next)
}

// close closes all entries of a division that another one has replaced. The caller holds the lock of the fleet.
func (d *division) close() {
	d.closed = true
	for _, e := range *d.entries.Load() {
		e.close()
	}
}
