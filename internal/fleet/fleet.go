// Package fleet is the view that one instance has of all nodes: a copy in memory that follows the store and that every
// dispatch reads.
//
// Reads take no lock. The maps of nodes by shard and the declaration of a node are immutable and replaced as a whole; the indexes of
// directions are bitmaps that change bit by bit. What changes with every heartbeat (last seen, load, occupancy) are atomics on
// the node, so that a heartbeat without a change rebuilds nothing. Writers share one lock.
//
// The view may be stale. No slot is granted on it: the ledger of the store decides.
package fleet

import (
	"context"
	"hash/maphash"
	"iter"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Instant is a time on the monotonic clock of this process.
type Instant int64

// Fleet is the view of one instance.
type Fleet struct {
	presence time.Duration
	base     time.Time

	nodes  shardedMap[core.NodeID, *Node]
	count  atomic.Int64
	silent shardedMap[core.NodeID, *silentNode]
	occupancy

	partial  atomic.Bool // nodes of the store may be missing
	onDrain  func(core.NodeID, bool)
	onLost   func(core.NodeID, bool)
	division atomic.Pointer[division]
	divideMu run.Mutex // held while another division is made; taken before mu

	mu          writersMutex         // held by writers
	marksUnread map[core.NodeID]bool // nodes whose marks were not read yet
	changed     map[*Node]bool       // nodes that changed while a division is made; nil: none is made
}

// New makes an empty view. A node without a heartbeat for presence is removed from it.
func New(presence time.Duration) *Fleet {
	f := &Fleet{presence: presence, base: time.Now(), onDrain: func(core.NodeID, bool) {}, onLost: func(core.NodeID, bool) {},
		divideMu: run.NewMutex("fleet_dividing"), mu: run.NewMutex("fleet_writers"), marksUnread: make(map[core.NodeID]bool)}
	seed := maphash.MakeSeed()
	f.nodes.init(seed)
	f.silent.init(seed)
	f.division.Store(newDivision(nil))
	f.initOccupancy()
	return f
}

// OnDrain makes fn be called when a known node is drained or resumed. It must be called before the first update. fn must not block, and
// must not call the fleet's methods.
func (f *Fleet) OnDrain(fn func(id core.NodeID, drained bool)) { f.onDrain = fn }

// OnLost makes fn be called when a node in view loses its connection or has one again, like that of OnDrain.
func (f *Fleet) OnLost(fn func(id core.NodeID, lost bool)) { f.onLost = fn }

// Now returns the current time of the view.
func (f *Fleet) Now() Instant { return Instant(time.Since(f.base)) }

// Len returns the number of nodes in view.
func (f *Fleet) Len() int { return int(f.count.Load()) }

// Node returns a node; nil if it is not in view.
func (f *Fleet) Node(id core.NodeID) *Node { return f.nodes.get(id) }

// All iterates over the nodes in view, in no order.
func (f *Fleet) All() iter.Seq[*Node] { return f.nodes.values() }

// Update applies the status of a node from the store. A status older than the known one changes nothing.
func (f *Fleet) Update(s store.NodeStatus) {
	now := f.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.Node(s.Node.ID)
	was := f.silent.get(s.Node.ID)
	if was != nil && isNewer(s.Node, was.declared) && was.declared.Drained != s.Node.Drained {
		f.onDrain(s.Node.ID, s.Node.Drained)
	}
	if s.Age >= f.presence {
		if n == nil && (was == nil || !isNewer(was.declared, s.Node)) {
			f.silent.put(s.Node.ID, &silentNode{s.Node, now - Instant(s.Age)})
		}
		return
	}
	known := n != nil
	if !known {
		n = newNode(s)
		n.lastSeen.Store(int64(now - Instant(s.Age))) // before it is in view, or it would count as silent
	}
	old := n.Declared()
	if isNewer(old, s.Node) {
		return
	}
	n.recordSeen(now - Instant(s.Age))
	n.recordClock(s.At, now)
	n.load.Store(packLoad(s.Load))
	f.Observe(n, s.InFlight(), s.Slots(), now)
	switch {
	case !known:
		f.marksUnread[s.Node.ID] = true
		f.addToView(n)
	case isNewer(s.Node, old):
		f.redeclare(n, s.Node)
	}
}

// Redeclare applies a newer declaration of a node in view. It does not change its occupancy, nor when it was last seen.
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
	f.noteChange(n)
	f.division.Load().redeclare(n, declared)
	if declared.Drained != old.Drained {
		f.onDrain(declared.ID, declared.Drained)
	}
	if declared.Disconnected != old.Disconnected {
		f.onLost(declared.ID, declared.Disconnected)
	}
	if declared.Epoch != old.Epoch {
		n.ClearMissedACKs() // missed ACKs of an earlier epoch do not count
		n.dropMarks(f.Now())
	}
}

// Admit is Update for nodes that may be new to the view: it also reads the marks of those that are. Marks that could not be
// read are read when the node is admitted the next time.
func (f *Fleet) Admit(ctx context.Context, marks store.Marks, statuses ...store.NodeStatus) error {
	for _, s := range statuses {
		f.Update(s)
	}
	ids := make([]core.NodeID, len(statuses))
	for i := range statuses {
		ids[i] = statuses[i].Node.ID
	}
	return f.readMarks(ctx, marks, ids)
}

// readMarks reads the marks of those of some nodes whose marks were not read yet.
func (f *Fleet) readMarks(ctx context.Context, marks store.Marks, ids []core.NodeID) error {
	f.mu.Lock()
	var unmarked []core.NodeID
	for _, id := range ids {
		if f.marksUnread[id] {
			unmarked = append(unmarked, id)
		}
	}
	f.mu.Unlock()
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

// forgetReadMarks makes Admit read the marks of every node again.
func (f *Fleet) forgetReadMarks() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.All() {
		f.marksUnread[n.id] = true
	}
}

// SetPartial sets whether nodes may be missing from the view. Until the whole fleet was read once, an empty selection does
// not mean that no node is capable. A new view counts as complete.
func (f *Fleet) SetPartial(partial bool) { f.partial.Store(partial) }

// Partial reports whether nodes may be missing from the view.
func (f *Fleet) Partial() bool { return f.partial.Load() }

func isNewer(a, b *core.Node) bool {
	return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Version > b.Version
}

// RecordHeartbeat records a heartbeat that did not change the declaration of the node.
func (f *Fleet) RecordHeartbeat(id core.NodeID, load core.Load, o store.Occupancy) {
	n := f.Node(id)
	if n == nil {
		return
	}
	now := f.Now()
	n.recordSeen(now)
	n.load.Store(packLoad(load))
	f.Observe(n, o.InFlight(), o.Slots(), now)
}

// RecordSeen records that some instance received a heartbeat of a node, age ago.
func (f *Fleet) RecordSeen(id core.NodeID, age time.Duration) {
	if n := f.Node(id); n != nil {
		n.recordSeen(f.Now() - Instant(age))
	}
}

// Remove removes a node from the view.
func (f *Fleet) Remove(id core.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent.remove(id)
	f.remove(id)
}

func (f *Fleet) remove(id core.NodeID) {
	if n := f.Node(id); n != nil {
		f.removeFromView(n)
	}
}

func (f *Fleet) removeFromView(n *Node) {
	delete(f.marksUnread, n.id)
	f.nodes.remove(n.id)
	f.count.Add(-1)
	f.noteChange(n)
	f.division.Load().remove(n.place())
}

func (f *Fleet) addToView(n *Node) {
	f.nodes.put(n.id, n)
	f.silent.remove(n.id)
	f.count.Add(1)
	f.noteChange(n)
	p := f.division.Load().add(n)
	n.pool, n.slot = p.pool, p.slot
}

// ExpireSilent removes the nodes without a heartbeat for the presence time. However many there are, other writers wait for one at most.
func (f *Fleet) ExpireSilent() {
	now := f.Now()
	for n := range f.All() {
		if n.SinceSeen(now) >= f.presence {
			f.expire(n, now)
		}
	}
}

// expire removes a node if it is still silent.
func (f *Fleet) expire(n *Node, now Instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Node(n.id) == n && n.SinceSeen(now) >= f.presence {
		f.removeFromView(n)
		f.silent.put(n.id, &silentNode{n.Declared(), Instant(n.lastSeen.Load())})
	}
}

// Indexes iterates over the indexes of all pools.
func (f *Fleet) Indexes() iter.Seq[*Index] {
	return func(yield func(*Index) bool) {
		for _, p := range f.division.Load().pools {
			for x := range p.Indexes() {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// EvictIdleIndexes removes the indexes that were not used for indexIdleTimeout.
func (f *Fleet) EvictIdleIndexes() { f.division.Load().evictIdle(f.Now(), &f.mu) }

// Silent nodes are registered and have no recent heartbeat. They are not in view and never selected, but a refusal must not
// report that no node is capable if a silent one is.

// silentNode is a silent node.
type silentNode struct {
	declared *core.Node
	seen     Instant
}

// Silent iterates over the last declarations of the silent nodes, in no order.
func (f *Fleet) Silent() iter.Seq[*core.Node] {
	return func(yield func(*core.Node) bool) {
		for n := range f.silent.values() {
			if !yield(n.declared) {
				return
			}
		}
	}
}

// SilentSince iterates over the last declarations of the silent nodes and the times of their last heartbeats, in no order.
func (f *Fleet) SilentSince() iter.Seq2[*core.Node, Instant] {
	return func(yield func(*core.Node, Instant) bool) {
		for n := range f.silent.values() {
			if !yield(n.declared, n.seen) {
				return
			}
		}
	}
}

// SilentAtStart reports whether a silent node was silent already when this instance started.
func (f *Fleet) SilentAtStart(id core.NodeID) bool {
	n := f.silent.get(id)
	return n != nil && n.seen < -Instant(f.presence)
}

// TenantOf returns the tenant of a node in view, or of a silent one; empty if neither is known.
func (f *Fleet) TenantOf(id core.NodeID) core.TenantID {
	if n := f.Node(id); n != nil {
		return n.Declared().Tenant
	}
	if declared := f.SilentNode(id); declared != nil {
		return declared.Tenant
	}
	return ""
}
