// Package fleet is the runtime view of the nodes: what one scheduler instance believes about the fleet,
// kept in step with the store and read by every dispatch.
//
// Reads take no lock. Each piece is immutable and replaced whole: the maps of nodes by shard, the member
// lists of the pools by chunk, what a node declares. What changes with every heartbeat (freshness, load, how
// full a node was last seen) are atomics on the node itself, so a heartbeat that changes nothing rebuilds
// nothing. Writers share one lock.
//
// What it says may be old. Nothing is granted on its word: the ledger decides.
package fleet

import (
	"context"
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Instant is a moment on this process's monotonic clock.
type Instant int64

// Fleet is one instance's view.
type Fleet struct {
	presence time.Duration
	base     time.Time

	nodes    shardedMap[*Node]
	count    atomic.Int64
	silent   shardedMap[*core.Node]
	pools    atomic.Pointer[map[poolKey]*Pool]
	occupancy occupancy

	onScan func()      // called for each node that is looked at for a new pool; for tests
	partial atomic.Bool // not every node of the store is known yet

	buildMu sync.Mutex // held by whoever finds the members of a new pool; before mu

	mu       sync.Mutex           // held by writers
	marksUnread map[core.NodeID]bool // whose marks were not read yet
	changed  map[core.NodeID]bool // who changed while a pool is being built; nil: none is
}

// New makes an empty view. A node that is silent for presence falls out of it.
func New(presence time.Duration) *Fleet {
	f := &Fleet{presence: presence, base: time.Now(), marksUnread: make(map[core.NodeID]bool)}
	seed := maphash.MakeSeed()
	f.nodes.init(seed)
	f.silent.init(seed)
	f.pools.Store(&map[poolKey]*Pool{})
	f.occupancy.init()
	return f
}

// Now reads the clock that freshness is measured by.
func (f *Fleet) Now() Instant { return Instant(time.Since(f.base)) }

// Len is how many nodes are in view.
func (f *Fleet) Len() int { return int(f.count.Load()) }

// Node finds a node; nil when it is not in view.
func (f *Fleet) Node(id core.NodeID) *Node { return f.nodes.get(id) }

// All walks the nodes in view, in no order.
func (f *Fleet) All() iter.Seq[*Node] { return f.nodes.values() }

// Update takes over what the store says of a node. Older news than what is known changes nothing.
func (f *Fleet) Update(s store.NodeStatus) {
	now := f.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.Node(s.Node.ID)
	if s.Age >= f.presence {
		if n == nil {
			f.setSilent(s.Node.ID, s.Node)
		}
		return
	}
	known := n != nil
	if !known {
		n = newNode(s)
		n.lastSeen.Store(int64(now - Instant(s.Age))) // before it is in view: nobody may take it for silent
	}
	old := n.Declared()
	if isNewer(old, s.Node) {
		return
	}
	n.recordSeen(now - Instant(s.Age))
	n.load.Store(packLoad(s.Load))
	f.Observe(n, s.InFlight(), s.Max, now)
	switch {
	case !known:
		f.marksUnread[s.Node.ID] = true
		f.addToView(n)
		f.updatePools(n, s.Node)
	case isNewer(s.Node, old):
		f.redeclare(n, s.Node)
	}
}

// Redeclare takes over what the store says of a node that is in view, if it is newer: not how full it is, nor when it
// was heard.
func (f *Fleet) Redeclare(declared *core.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.Node(declared.ID)
	if n == nil || !isNewer(declared, n.Declared()) {
		return
	}
	f.redeclare(n, declared)
}

func (f *Fleet) redeclare(n *Node, declared *core.Node) {
	old := n.Declared()
	n.setDeclared(declared)
	if declared.Revision != old.Revision || declared.Epoch != old.Epoch {
		f.updatePools(n, declared)
	}
	if declared.Epoch != old.Epoch {
		n.ClearMissedACKs() // a new epoch starts with a clean slate
	}
}

// Admit is Update for whoever may be the first to hear of nodes: those that were not in view bring their marks. Marks that
// could not be read are read when the node is admitted the next time.
func (f *Fleet) Admit(ctx context.Context, marks store.Marks, statuses ...store.NodeStatus) error {
	for _, s := range statuses {
		f.Update(s)
	}
	unmarked := f.withUnreadMarks(statuses)
	if len(unmarked) == 0 {
		return nil
	}
	found, err := marks.Marked(ctx, unmarked...)
	if err != nil {
		return err
	}
	for _, m := range found {
		f.Mark(m)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range unmarked {
		delete(f.marksUnread, id)
	}
	return nil
}

// unread is whose marks are still to be read.
func (f *Fleet) withUnreadMarks(statuses []store.NodeStatus) []core.NodeID {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []core.NodeID
	for _, s := range statuses {
		if f.marksUnread[s.Node.ID] {
			ids = append(ids, s.Node.ID)
		}
	}
	return ids
}

// SetPartial says whether nodes may be missing from the view: until the whole fleet was read once, that nobody is found
// says nothing. A view is complete unless somebody says that it is not.
func (f *Fleet) SetPartial(partial bool) { f.partial.Store(partial) }

// Partial reports whether nodes may be missing from the view.
func (f *Fleet) Partial() bool { return f.partial.Load() }

func isNewer(a, b *core.Node) bool {
	return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Version > b.Version
}

// Beat notes a heartbeat that changed nothing the node declares.
func (f *Fleet) RecordHeartbeat(id core.NodeID, load core.Load, o store.Occupancy) {
	n := f.Node(id)
	if n == nil {
		return
	}
	now := f.Now()
	n.recordSeen(now)
	n.load.Store(packLoad(load))
	f.Observe(n, o.InFlight(), o.Max, now)
}

// Seen notes that a node was heard by somebody, age ago.
func (f *Fleet) RecordSeen(id core.NodeID, age time.Duration) {
	if n := f.Node(id); n != nil {
		n.recordSeen(f.Now() - Instant(age))
	}
}

// Remove takes a node out of view.
func (f *Fleet) Remove(id core.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setSilent(id, nil)
	f.remove(id)
}

func (f *Fleet) remove(id core.NodeID) {
	if n := f.Node(id); n != nil {
		f.removeFromView(n)
		f.removeFromPools(n)
	}
}

// hide takes a node out of the map of those in view. It may be in pools until it leaves them.
func (f *Fleet) removeFromView(n *Node) {
	delete(f.marksUnread, n.id)
	f.nodes.remove(n.id)
	f.count.Add(-1)
	f.noteChange(n.id)
}

func (f *Fleet) addToView(n *Node) {
	f.nodes.put(n.id, n)
	f.setSilent(n.id, nil)
	f.count.Add(1)
}

// Expire takes out of view whoever has been silent for the presence time. However many they are, each pool is written
// once, and other writers wait for one pool at most.
func (f *Fleet) ExpireSilent() {
	var silent []*Node
	now := f.Now()
	for n := range f.All() {
		if n.SinceSeen(now) >= f.presence {
			silent = append(silent, n)
		}
	}
	if len(silent) == 0 {
		return
	}
	f.removeSilent(silent, now)
	for p := range f.Pools() {
		f.mu.Lock()
		p.removeWhere(func(n *Node) bool { return f.Node(n.id) != n })
		f.mu.Unlock()
	}
}

func (f *Fleet) removeSilent(silent []*Node, now Instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range silent {
		if f.Node(n.id) == n && n.SinceSeen(now) >= f.presence {
			f.removeFromView(n)
			f.setSilent(n.id, n.Declared())
		}
	}
}

// Mark notes that a service of a node is not to be relied on for a while.
func (f *Fleet) Mark(m store.Mark) {
	n := f.Node(m.Node)
	if n == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Now()
	next := map[string]Instant{m.Service: now + Instant(m.For)}
	if old := n.marks.Load(); old != nil {
		for service, until := range *old {
			if until > now && service != m.Service {
				next[service] = until
			}
		}
	}
	n.marks.Store(&next)
	n.updateSummary()
}
