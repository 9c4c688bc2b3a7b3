package fleet

import (
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// recordOverdue records when overdue nodes were last seen, and of all others that they were seen since the oldest of them was. It does
// nothing and reports false if the nodes in view are not the registered ones, as far as their number shows.
func (f *Fleet) recordOverdue(overdue store.Overdue) bool {
	now := f.Now()
	registered, inView := overdue.Registered, f.Len()
	ages := make(map[core.NodeID]Instant, len(overdue.Nodes))
	for _, s := range overdue.Nodes {
		ages[s.Node] = Instant(s.Age)
		if s.Age >= f.presence { // it may be in view or not
			registered--
			if f.Node(s.Node) != nil {
				inView--
			}
		}
	}
	if registered != inView {
		return false
	}
	for n := range f.All() {
		age, found := ages[n.id]
		if !found {
			age = Instant(overdue.Oldest)
		}
		n.recordSeen(now - age)
	}
	return true
}

// refresh applies the digest of a node, and reports whether the view has the version of the node that the digest names, or a later one: a
// digest is as old as the last heartbeat, and the next one shows every change. Otherwise the node has to be read.
func (f *Fleet) refresh(d *store.NodeDigest) bool {
	n := f.Node(d.Node)
	if n == nil {
		declared := f.SilentNode(d.Node)
		return declared != nil && d.Age >= f.presence && hasVersion(declared, d)
	}
	if !hasVersion(n.Declared(), d) {
		return false
	}
	at := f.Now() - Instant(d.Age)
	if int64(at) >= n.lastSeen.Load() { // else this instance has received a later heartbeat
		n.load.Store(packLoad(d.Load))
	}
	n.recordSeen(at)
	if at > observedAt(n.others.Load()) {
		f.Observe(n, d.InFlight, d.Slots, at)
	}
	return true
}

func hasVersion(declared *core.Node, d *store.NodeDigest) bool {
	return d.Epoch != 0 && !isNewer(&core.Node{Epoch: d.Epoch, Version: d.Version}, declared)
}
