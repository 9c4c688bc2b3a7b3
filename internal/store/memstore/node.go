package memstore

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// node is one node with its lease set. Its lock orders everything that happens to the node. The fields that a reservation needs fill
// the first cache line, and the first lease is in the second: with many nodes, the cost of a reservation is its cache misses. A node of the
// fleet has the same size and is made at the same time, so that both are mostly in one page of memory.
type node struct {
	mu       run.Mutex
	epoch    core.Epoch
	revision core.Revision
	seen     atomic.Int64 // moment of the last heartbeat; atomic, because it is the hint
	leases   []lease
	slots    int16 // that may be granted: the declared ones, with the admission applied
	foreign  int16
	ready    bool // health, drain and connection allow new jobs
	removed  bool // a caller that still has a pointer must find the node again
	onHold   bool // no new jobs before heldUntil

	first [1]lease // the initial backing array of leases
	*details
}

// details are the parts of a node that a reservation mostly does not need. They have the lock of the node.
type details struct {
	current    *core.Node
	heldUntil  moment
	load       core.Load
	seq        uint64 // of the last accepted heartbeat
	marks      map[markKey]mark
	connection uint64 // the last connection
	fence      int64  // of the last decision on its admission
}

// Hint implements store.Handle.
func (n *node) Hint() *atomic.Int64 { return &n.seen }

func (n *node) silence(now moment) time.Duration { return now.since(moment(n.seen.Load())) }

func newNode() *node {
	n := &node{mu: run.NewMutex("memstore_node"), details: new(details)}
	n.leases = n.first[:0]
	return n
}

// setCurrent replaces the node and derives the fields that reservations use.
func (n *node) setCurrent(next *core.Node) {
	n.current = next
	n.epoch, n.revision = next.Epoch, next.Revision
	n.slots = int16(min(next.Slots(), math.MaxInt16))
	n.ready = next.AcceptsJobs()
}

// lease is an element of a node's lease set.
type lease struct {
	job        core.JobID
	token      core.Token
	reservedAt moment
	expires    moment
	attempt    int32
	state      core.LeaseState
	omitted    omission
}

// omission says how often in a row the node's list has omitted a lease.
type omission uint8

const (
	never  omission = iota
	once            // that heartbeat may have been written before the job arrived
	orphan          // the node does not have the job

	// arrived is for revoked leases: no list has omitted the job, and the node has acknowledged it.
	arrived = orphan
)

// exportLease converts a lease for callers of the store.
func (s *Store) exportLease(n *node, l *lease) core.Lease {
	return core.Lease{
		LeaseRef: core.LeaseRef{Node: n.current.ID, Job: l.job, Attempt: int(l.attempt), Token: l.token},
		State:    l.state,
		Young:    s.isYoungReservation(l, s.now()),
	}
}

// isYoungReservation reports whether the job of a reservation may still be on its way to the node.
func (s *Store) isYoungReservation(l *lease, now moment) bool {
	return l.state == core.LeaseReserved && s.inTransit(l, now)
}

// inTransit reports whether the lease was reserved so recently that its job may still be on its way to the node.
func (s *Store) inTransit(l *lease, now moment) bool {
	return now.since(l.reservedAt) < s.timing.ReservedTTL
}

// adopted reports whether the lease comes from a node's list and was never reserved.
func (l *lease) adopted() bool { return l.token == "" }

// takesSlot reports whether the lease takes a slot.
func (l *lease) takesSlot(now moment) bool {
	return l.state != core.LeaseParked && !expired(l.expires, now)
}

func (l *lease) matches(ref *core.LeaseRef) bool {
	return int(l.attempt) == ref.Attempt && l.token == ref.Token && l.job == ref.Job
}

// isFor reports whether the lease is for a job of a node's list.
func (l *lease) isFor(job *store.ActiveJob) bool {
	return int(l.attempt) == job.Attempt && l.job == job.Job
}

// find returns the index of a lease in the set, -1 when it is not there. Sets are as small as a node's maximum, so a scan is cheaper
// than an index.
func (n *node) find(ref *core.LeaseRef) int {
	for i := range n.leases {
		if n.leases[i].matches(ref) {
			return i
		}
	}
	return -1
}

// remove removes the lease at i from the set.
func (n *node) remove(i int) {
	last := len(n.leases) - 1
	n.leases[i] = n.leases[last]
	n.leases[last] = lease{}
	n.leases = n.leases[:last]
}

func (s *Store) occupancy(n *node, now moment) store.Occupancy {
	o := store.Occupancy{Max: n.current.MaxJobs, Foreign: int(n.foreign), Closed: s.isClosed(n, now), Held: s.isHeld(n, now)}
	o.Withheld = max(0, o.Max-int(n.slots))
	for i := range n.leases {
		l := &n.leases[i]
		switch {
		case !l.takesSlot(now):
		case l.state == core.LeaseReserved:
			o.Reserved++
		default:
			o.Running++
		}
	}
	return o
}

// isClosed reports whether the node gets no new jobs, however many slots are free.
func (s *Store) isClosed(n *node, now moment) bool {
	return !n.ready || n.silence(now) >= s.timing.Presence || s.isHeld(n, now)
}

// isClosedToProbes is isClosed for probes, which a drain does not refuse.
func (s *Store) isClosedToProbes(n *node, now moment) bool {
	return n.current.Health != core.HealthReady || n.current.Disconnected || n.silence(now) >= s.timing.Presence || s.isHeld(n, now)
}

func (s *Store) isHeld(n *node, now moment) bool { return n.onHold && !expired(n.heldUntil, now) }

func (s *Store) status(n *node, now moment) store.NodeStatus {
	return store.NodeStatus{Node: n.current, Handle: n, Load: n.load, Age: n.silence(now), At: s.time(now), Occupancy: s.occupancy(n, now)}
}

// updateForeign computes how much of the work that the node reports is not ours. A node that lists its jobs counts and lists them in
// the same message; for one that does not, the live leases take the place of the list.
func (s *Store) updateForeign(n *node, a *store.Activity, now moment) {
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
