package fleet

import (
	"maps"
	"math"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// entry has the indexes of one requirement and restriction: one for each pool of a division.
//
// Entries are made for the directions that jobs require, not for those that nodes declare: a node with thirty languages declares 870
// directions, and few are ever used.
type entry struct {
	requirement core.Requirement
	restriction core.Restriction
	indexes     []*Index     // by the number of the pool
	lastUsed    atomic.Int64 // Instant of the last read, with a precision of lastUsedPrecision
	route       atomic.Pointer[Route]
	closed      atomic.Bool // it is not kept up to date any more, and its indexes are empty
}

// indexKey identifies an entry.
type indexKey struct {
	core.Direction
	tts        bool
	restricted string // Key of the restriction
}

const (
	maxEntries        = 4096 // without a restriction
	maxRestricted     = 256  // with one
	indexIdleTimeout  = 10 * time.Minute
	lastUsedPrecision = Instant(time.Second)
)

// entry returns the indexes of a direction. Only the first call for a direction builds them and may wait.
func (d *division) entry(key indexKey, r *core.Restriction, now Instant, mu *writersMutex) *entry {
	e := (*d.entries.Load())[key]
	if e == nil {
		e = d.build(key, r, now, mu)
	}
	if now-Instant(e.lastUsed.Load()) > lastUsedPrecision {
		e.lastUsed.Store(int64(now))
	}
	return e
}

// build builds the indexes of a direction. Callers choose directions and the fleet may be large, so writers, who hold mu, do not wait for it:
// nodes that change meanwhile are checked once more. One entry is built at a time.
func (d *division) build(key indexKey, r *core.Restriction, now Instant, mu *writersMutex) *entry {
	d.buildMu.Lock()
	defer d.buildMu.Unlock()
	if e := (*d.entries.Load())[key]; e != nil {
		return e
	}
	e := &entry{requirement: core.NewRequirement(key.Direction, key.tts), restriction: *r, indexes: make([]*Index, len(d.pools))}
	e.lastUsed.Store(int64(now))
	queries, chunks := make([]*query, len(d.pools)), make([]int, len(d.pools))
	mu.Lock()
	for i, p := range d.pools {
		e.indexes[i] = &Index{Requirement: &e.requirement, Restriction: &e.restriction, pool: p, table: &p.table}
		p.changed = make(map[uint32]bool)
		queries[i], chunks[i] = p.columns.query(&e.requirement, r), p.table.len()
	}
	mu.Unlock()
	for i, x := range e.indexes {
		for chunk := range chunks[i] {
			if d.onScan != nil {
				d.onScan()
			}
			w := queries[i].evaluate(chunk)
			x.members.fill(chunk, &w)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	d.publish(key, e)
	return e
}

// publish applies the changes since the columns were read and makes an entry visible. The caller holds the lock of the fleet.
func (d *division) publish(key indexKey, e *entry) {
	for i, p := range d.pools {
		p.applyChanges(e.indexes[i])
	}
	if d.closed {
		e.close()
	}
	next := maps.Clone(*d.entries.Load())
	evictOldest(next, key.restricted != "")
	next[key] = e
	d.entries.Store(&next)
}

// close empties the indexes of an entry that is not kept up to date any more: a selection that has begun must not choose a node that no longer
// serves the direction. The caller holds the lock of the fleet.
func (e *entry) close() {
	e.closed.Store(true) // before the members are gone: who finds none can tell why
	for _, x := range e.indexes {
		x.members.clear()
	}
}

// evictOldest closes and removes the least recently used entry of those with or without a restriction, if there are as many as there may be.
// Callers choose restrictions freely, so the entries with one do not replace the others.
func evictOldest(entries map[indexKey]*entry, restricted bool) {
	limit := maxEntries
	if restricted {
		limit = maxRestricted
	}
	if len(entries) < limit {
		return
	}
	var oldest indexKey
	count, since := 0, int64(math.MaxInt64)
	for key, e := range entries {
		if (key.restricted != "") != restricted {
			continue
		}
		count++
		if used := e.lastUsed.Load(); used < since {
			oldest, since = key, used
		}
	}
	if count >= limit {
		entries[oldest].close()
		delete(entries, oldest)
	}
}

// evictIdle closes and removes the entries that were not used for indexIdleTimeout.
func (d *division) evictIdle(now Instant, mu *writersMutex) {
	idle := func(e *entry) bool { return now-Instant(e.lastUsed.Load()) > Instant(indexIdleTimeout) }
	found := false
	for _, e := range *d.entries.Load() {
		found = found || idle(e)
	}
	if !found {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	next := maps.Clone(*d.entries.Load())
	maps.DeleteFunc(next, func(_ indexKey, e *entry) bool {
		if !idle(e) {
			return false
		}
		e.close()
		return true
	})
	d.entries.Store(&next)
}

// close closes all entries of a division that another one has replaced. The caller holds the lock of the fleet.
func (d *division) close() {
	d.closed = true
	for _, e := range *d.entries.Load() {
		e.close()
	}
}
