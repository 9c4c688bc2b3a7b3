package fleet

import (
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const presence = 15 * time.Second

// agedFleet returns a view that started an hour ago.
func agedFleet() *Fleet {
	f := New(presence)
	f.base = f.base.Add(-time.Hour)
	return f
}

// declared builds a declaration: ready, reachable, four slots, English and German in both directions.
func declared(id core.NodeID, changes ...func(*core.Node)) *core.Node {
	n := &core.Node{
		ID: id, Epoch: 1, Revision: 1, Version: 1,
		Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Callback: "http://" + string(id),
			Capability: core.Capability{Semantic: core.NewLangSet("de", "en"), AnyPair: true}},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

// successor builds the next declaration in the same epoch, numbered as a store does.
func successor(old *core.Node, changes ...func(*core.Node)) *core.Node {
	n := *old
	for _, change := range changes {
		change(&n)
	}
	n.Supersede(old)
	return &n
}

// nextEpoch builds the declaration of a known node that registers again.
func nextEpoch(old *core.Node, changes ...func(*core.Node)) *core.Node {
	n := *old
	n.Epoch, n.Revision, n.Version = old.Epoch+1, old.Revision+1, old.Version+1
	for _, change := range changes {
		change(&n)
	}
	return &n
}

func speaks(langs ...core.Lang) func(*core.Node) {
	return func(n *core.Node) { n.Capability = core.Capability{Semantic: core.NewLangSet(langs...), AnyPair: true} }
}

func health(h core.Health) func(*core.Node) { return func(n *core.Node) { n.Health = h } }

func slots(n int) func(*core.Node) { return func(node *core.Node) { node.MaxJobs = n } }

// limitedTo limits the slots that may be granted.
func limitedTo(n int) func(*core.Node) {
	return func(node *core.Node) {
		node.Admission = core.Admission{Limited: true, Slots: n, Reason: core.AdmissionFailing, Times: 1}
	}
}

// status builds the status of a node in a store: just seen, idle, load unknown.
func status(n *core.Node, changes ...func(*store.NodeStatus)) store.NodeStatus {
	s := store.NodeStatus{Node: n, Load: core.UnknownLoad, Occupancy: store.Occupancy{Max: n.MaxJobs, Withheld: n.MaxJobs - n.Slots()}}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func seenAgo(age time.Duration) func(*store.NodeStatus) {
	return func(s *store.NodeStatus) { s.Age = age }
}

func loaded(l core.Load) func(*store.NodeStatus) { return func(s *store.NodeStatus) { s.Load = l } }

func running(jobs int) func(*store.NodeStatus) { return func(s *store.NodeStatus) { s.Running = jobs } }

func direction(src, tgt core.Lang) core.Direction { return core.Direction{Src: src, Tgt: tgt} }

// revisions returns the revisions of the members of an index.
func revisions(x *Index) map[core.NodeID]core.Revision {
	found := make(map[core.NodeID]core.Revision, x.Len())
	for one := range x.All() {
		found[one.ID()] = one.Revision
	}
	return found
}

// structure holds every part of a view that a writer replaces as a whole, and the members of the indexes. Two are equal if nothing was
// rebuilt in between.
type structure struct {
	shards  [shardCount]*map[core.NodeID]*Node
	entries *map[indexKey]*entry
	members map[indexKey]map[core.NodeID]core.Revision
}

func structureOf(f *Fleet) structure {
	s := structure{entries: f.division.Load().entries.Load(), members: make(map[indexKey]map[core.NodeID]core.Revision)}
	for i := range f.nodes.shards {
		s.shards[i] = f.nodes.shards[i].Load()
	}
	for key, e := range *s.entries {
		s.members[key] = revisions(e.indexes[0].Load())
	}
	return s
}

// noHandle is a store.Handle that does nothing.
type noHandle struct{ _ byte }

func (*noHandle) Hint() *atomic.Int64 { return nil }

// Index returns the index of a direction among the nodes that belong to no capability pool: without definitions, of all.
func (f *Fleet) Index(d core.Direction, tts bool) *Index {
	return f.division.Load().entry(indexKey{Direction: d, tts: tts}, &noRestriction, f.Now(), &f.mu).indexes[0].Load()
}
