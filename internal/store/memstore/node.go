package memstore

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// node is one node with its set of leases. Its lock orders everything that happens to it. What a
// reservation needs fills the first cache line, and the first lease the next: with many nodes, a reservation
// costs what it misses in the cache.
type node struct {
	mu       sync.Mutex
	epoch    core.Epoch
	revision core.Revision
	seen     atomic.Int64 // moment of the last heartbeat; atomic so that Fetch may look at it
	leases   []lease
	max      int16
	foreign  int16
	ready    bool // health and drain allow a grant
	gone     bool // removed: whoever still has a pointer must look again
	onHold   bool // granted nothing before held

	first  [1]lease      // where leases begin
	second atomic.Uint32 // in the second line, for Fetch to look at

	now   *core.Node
	held  moment
	load  core.Load
	seq   uint64 // of the last heartbeat that counted
	marks map[string]moment
	conn  uint64 // the connection that was made last; it fills the last cache line, so that the first stays one
}

// Fetch implements store.Handle.
func (n *node) Fetch() {
	n.seen.Load()
	n.second.Load()
}

func (n *node) silence(now moment) time.Duration { return now.since(moment(n.seen.Load())) }

func newNode() *node {
	n := &node{}
	n.leases = n.first[:0]
	return n
}

// declare takes over what the node declares.
func (n *node) declare(declared *core.Node) {
	n.now = declared
	n.epoch, n.revision = declared.Epoch, declared.Revision
	n.max = int16(min(declared.MaxJobs, math.MaxInt16))
	n.ready = declared.AcceptsJobs()
}

// lease is a member of a node's set.
type lease struct {
	job     core.JobID
	token   core.Token
	since   moment
	expires moment
	attempt int32
	state   core.LeaseState
	omitted omission
}

// omission says how often in a row the node's list has left a lease out.
type omission uint8

const (
	never  omission = iota
	once            // the heartbeat may have been written before the job arrived
	orphan          // the node does not have it

	// arrived is of a revoked lease: it was never left out, and its node has confirmed the job.
	arrived = orphan
)

// export is the lease as it leaves the store.
func (s *Store) export(n *node, l *lease) core.Lease {
	return core.Lease{
		LeaseRef: core.LeaseRef{Node: n.now.ID, Job: l.job, Attempt: int(l.attempt), Token: l.token},
		State:    l.state,
		Young:    s.young(l, s.now()),
	}
}

// young reports whether a reservation may still be on its way to the node.
func (s *Store) young(l *lease, now moment) bool {
	return l.state == core.LeaseReserved && s.early(l, now)
}

// early reports whether the lease was reserved so lately that its job may still be on its way to the node.
func (s *Store) early(l *lease, now moment) bool { return now.since(l.since) < s.timing.ReservedTTL }

// stray reports whether the lease was adopted from a node's list: nobody reserved it.
func (l *lease) stray() bool { return l.token == "" }

// counts reports whether the lease takes a slot.
func (l *lease) counts(now moment) bool {
	return l.state != core.LeaseParked && !expired(l.expires, now)
}

func (l *lease) is(ref *core.LeaseRef) bool {
	return int(l.attempt) == ref.Attempt && l.token == ref.Token && l.job == ref.Job
}

// isOf reports whether the lease is for a job that a node lists.
func (l *lease) isOf(job *store.ActiveJob) bool {
	return int(l.attempt) == job.Attempt && l.job == job.Job
}

// find returns the index of a lease in the set, -1 when it is not there. Sets are as small as a node's
// maximum, so a walk is cheaper than an index.
func (n *node) find(ref *core.LeaseRef) int {
	for i := range n.leases {
		if n.leases[i].is(ref) {
			return i
		}
	}
	return -1
}

// remove takes the lease at i out of the set.
func (n *node) remove(i int) {
	last := len(n.leases) - 1
	n.leases[i] = n.leases[last]
	n.leases[last] = lease{}
	n.leases = n.leases[:last]
}

func (s *Store) occupancy(n *node, now moment) store.Occupancy {
	o := store.Occupancy{Max: int(n.max), Foreign: int(n.foreign), Closed: s.closed(n, now), Held: s.held(n, now)}
	for i := range n.leases {
		l := &n.leases[i]
		switch {
		case !l.counts(now):
		case l.state == core.LeaseReserved:
			o.Reserved++
		default:
			o.Running++
		}
	}
	return o
}

// closed reports whether the node may be granted nothing, whatever is free.
func (s *Store) closed(n *node, now moment) bool {
	return !n.ready || n.silence(now) >= s.timing.Presence || s.held(n, now)
}

func (s *Store) held(n *node, now moment) bool { return n.onHold && !expired(n.held, now) }

func (s *Store) status(n *node, now moment) store.NodeStatus {
	return store.NodeStatus{Node: n.now, Handle: n, Load: n.load, Age: n.silence(now), Occupancy: s.occupancy(n, now)}
}

// setForeign works out how much of what the node reports is not ours. A node that lists its jobs counted
// and listed in the same breath; for one that does not, the leases have to stand in for the list.
func (s *Store) setForeign(n *node, a *store.Activity, now moment) {
	ours := len(a.Active)
	if !a.Lists {
		o := s.occupancy(n, now)
		ours = o.Reserved + o.Running
	}
	n.foreign = 0
	if a.Counts && a.Current > ours {
		n.foreign = int16(min(a.Current-ours, math.MaxInt16))
	}
}
