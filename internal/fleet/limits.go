package fleet

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Callers choose directions and restrictions, each entry costs memory in every pool that has nodes for it, and an event of a node checks
// all entries. So entries are limited, in groups that do not replace each other: those of directions that some node serves, of directions
// that no node serves, and those with a restriction.

// maxIndexedNames is how many services and models a restriction with an index may have. Nodes are filtered one by one for others.
const maxIndexedNames = 8

// restrictedInUse is for how long after its last use an entry with a restriction is not replaced by another one. Nodes are filtered one by
// one for the other then: building indexes that are replaced before they are used again would cost more.
const restrictedInUse = 10 * time.Second

// usage is what the entries of a group use, or may use.
type usage struct {
	entries int
	names   int // services and models of their restrictions
	bytes   int64
}

// groups has something for each group of entries.
type groups[T any] struct{ served, unserved, restricted T }

// defaultLimits are the limits of the groups. Tests have others.
var defaultLimits = groups[usage]{
	served:     usage{entries: 4096, bytes: 512 << 20},
	unserved:   usage{entries: 256, bytes: 128 << 20},
	restricted: usage{entries: 2048, names: 4096, bytes: 128 << 20},
}

// of returns what is that of the group of an entry.
func (g *groups[T]) of(e *entry) *T {
	switch {
	case !e.restriction.Empty():
		return &g.restricted
	case e.served:
		return &g.served
	}
	return &g.unserved
}

// About the memory of an entry, an index with its place in a route, a chunk of an index, and the pointer to an index.
const (
	entryBytes   = 512
	indexBytes   = 256
	chunkBytes   = chunkWords*8 + 24
	pointerBytes = 8
)

// add adds what an entry uses; a factor of -1 removes it.
func (u *usage) add(e *entry, factor int) {
	u.entries += factor
	u.names += factor * e.restriction.Names()
	u.bytes += int64(factor) * e.bytes
}

// exceeds reports whether the entries of a group use more than they may.
func (u *usage) exceeds(limit *usage) bool {
	return u.entries > limit.entries || u.names > limit.names || u.bytes > limit.bytes
}

// usageOf returns what the entries of each group use.
func usageOf(entries map[indexKey]*entry) (used groups[usage]) {
	for _, e := range entries {
		used.of(e).add(e, 1)
	}
	return used
}

// exceedsLimits reports whether there are more entries than there may be. The caller holds the lock of the fleet.
func (d *division) exceedsLimits() bool {
	used := usageOf(*d.entries.Load())
	return used.served.exceeds(&d.limits.served) || used.unserved.exceeds(&d.limits.unserved) ||
		used.restricted.exceeds(&d.limits.restricted)
}

// enforceLimits closes and removes the least recently used entries of the groups that use more than they may, apart from one entry that was
// just added. The caller holds the lock of the fleet.
func (d *division) enforceLimits(entries map[indexKey]*entry, added *entry) {
	used := usageOf(entries)
	for _, g := range []struct{ used, limit *usage }{
		{&used.served, &d.limits.served}, {&used.unserved, &d.limits.unserved}, {&used.restricted, &d.limits.restricted},
	} {
		if !g.used.exceeds(g.limit) {
			continue
		}
		for oldest := range leastRecentFirst(entries, func(e *entry) bool { return e != added && used.of(e) == g.used }) {
			e := entries[oldest]
			g.used.add(e, -1)
			e.close()
			delete(entries, oldest)
			if !g.used.exceeds(g.limit) {
				break
			}
		}
	}
}

// leastRecentFirst iterates over some entries, those first that were not used for the longest time. Mostly one is enough, so the others are
// sorted only if they are needed.
func leastRecentFirst(entries map[indexKey]*entry, among func(*entry) bool) iter.Seq[indexKey] {
	return func(yield func(indexKey) bool) {
		first, found := leastRecent(entries, among)
		if !found || !yield(first) {
			return
		}
		used := make(map[indexKey]int64)
		for key, e := range entries {
			if key != first && among(e) {
				used[key] = e.lastUsed.Load()
			}
		}
		for _, key := range slices.SortedFunc(maps.Keys(used), func(a, b indexKey) int { return cmp.Compare(used[a], used[b]) }) {
			if !yield(key) {
				return
			}
		}
	}
}

// leastRecent returns which of some entries was not used for the longest time.
func leastRecent(entries map[indexKey]*entry, among func(*entry) bool) (oldest indexKey, found bool) {
	since := int64(math.MaxInt64)
	for key, e := range entries {
		if used := e.lastUsed.Load(); used < since && among(e) {
			oldest, since, found = key, used, true
		}
	}
	return oldest, found
}

// isFull reports whether it is known without a lock that there is no room for an entry with a restriction.
func (d *division) isFull(key indexKey, r *core.Restriction, now Instant) bool {
	return key.restricted != "" && (r.Names() > maxIndexedNames || now < Instant(d.fullUntil.Load()))
}

// admits reports whether an entry may be built: it is one of a direction, there is room for it, or it replaces one that is not in use.
func (d *division) admits(key indexKey, r *core.Restriction, now Instant, mu *writersMutex) bool {
	if key.restricted == "" {
		return true
	}
	mu.Lock()
	defer mu.Unlock()
	entries := *d.entries.Load()
	used := usageOf(entries).restricted
	used.entries++
	used.names += r.Names()
	if !used.exceeds(&d.limits.restricted) {
		return true
	}
	oldest, found := leastRecent(entries, func(e *entry) bool { return !e.restriction.Empty() })
	if found && now-Instant(entries[oldest].lastUsed.Load()) > Instant(restrictedInUse) {
		return true
	}
	d.fullUntil.Store(int64(now + lastUsedPrecision)) // most requests need not count again until then
	return false
}
