package redisstore_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// requestKind is the kind of a call of the ledger.
type requestKind uint8

const (
	doRegister requestKind = iota
	doHeartbeat
	doReserve
	doCommit
	doRelease
	doPark
	doRevoke
	doRemove
	doList
	doAdmit
)

var kindNames = [...]string{"register", "heartbeat", "reserve", "commit", "release", "park", "revoke", "remove", "list", "admit"}

func (k requestKind) String() string { return kindNames[k] }

// request is one call.
type request struct {
	kind     requestKind
	lease    core.LeaseRef // every kind of request uses its node
	epoch    core.Epoch
	revision core.Revision
	seq      uint64
	max      int
	returns  bool // RegisterParams.Returning
	activity store.Activity
	limit    modelLimit // admit
	fence    int64      // admit
}

// modelLimit is how many slots may be granted.
type modelLimit struct {
	limited bool
	slots   int
}

func (l modelLimit) admitted(declared int) int {
	if l.limited && l.slots < declared {
		return l.slots
	}
	return declared
}

// answer is the whole result of a call. It is comparable with ==, so lists are formatted.
type answer struct {
	now       int64 // the server's time of the call, 0 for a release, whose reply does not contain it
	verdict   store.Verdict
	ok        bool // commit: the lease is live; release: it existed; remove: the node is removed; admit: it is not fenced
	free      int
	epoch     core.Epoch
	revision  core.Revision
	known     bool
	occupancy store.Occupancy
	limit     modelLimit // admit: the decision in force
	lists     string
}

func (q *request) String() string {
	text := fmt.Sprintf("%s %s", q.lease.Node, q.kind)
	switch q.kind {
	case doRegister:
		return fmt.Sprintf("%s with %d slots, returns %t, %+v", text, q.max, q.returns, q.activity)
	case doHeartbeat:
		return fmt.Sprintf("%s in epoch %d, seq %d, %+v", text, q.epoch, q.seq, q.activity)
	case doReserve:
		return fmt.Sprintf("%s %s in epoch %d, revision %d", text, leaseName(q.lease), q.epoch, q.revision)
	case doCommit, doRelease, doPark, doRevoke:
		return text + " " + leaseName(q.lease)
	case doAdmit:
		return fmt.Sprintf("%s %+v with fence %d", text, q.limit, q.fence)
	}
	return text
}

func (a *answer) String() string {
	return fmt.Sprintf("(at %d: %s %t, %d free, epoch %d, revision %d, known %t, %+v, %+v, %s)",
		a.now, a.verdict, a.ok, a.free, a.epoch, a.revision, a.known, a.occupancy, a.limit, a.lists)
}

// formatLeases formats leases, independently of their order.
func formatLeases(title string, leases []core.Lease) string {
	lines := make([]string, len(leases))
	for i, l := range leases {
		lines[i] = fmt.Sprintf("%s %s %t", leaseName(l.LeaseRef), l.State, l.Young)
	}
	slices.Sort(lines)
	return title + "[" + strings.Join(lines, ", ") + "] "
}

func formatCancels(jobs []store.ActiveJob) string {
	lines := make([]string, len(jobs))
	for i, j := range jobs {
		lines[i] = jobName(j.Job, j.Attempt)
	}
	slices.Sort(lines)
	return "cancels" + fmt.Sprint(lines)
}

func leaseName(l core.LeaseRef) string           { return jobName(l.Job, l.Attempt) + "|" + string(l.Token) }
func jobName(job core.JobID, attempt int) string { return fmt.Sprintf("%s|%d", job, attempt) }

// modelLease is a lease in the model.
type modelLease struct {
	ref               core.LeaseRef
	state             core.LeaseState
	reserved, expires int64 // in ticks
	omitted           int   // by how many lists in a row; more than one makes an orphan
}

func (s *modelLease) job() store.ActiveJob {
	return store.ActiveJob{Job: s.ref.Job, Attempt: s.ref.Attempt}
}

// isAdopted reports whether the lease comes from a node's list and was never reserved.
func (s *modelLease) isAdopted() bool { return s.ref.Token == "" }

// The model has its own definition of ticks. A lease that is written now is live through the tick in which the presence that is written
// now ends.
const tickMS = 100

func tickOf(now int64) int64 { return now / tickMS }

func ms(d time.Duration) int64 { return d.Milliseconds() }

func expiry(now int64) int64 { return tickOf(now) + (ms(linearTiming.Presence)+tickMS-1)/tickMS + 1 }

func (s *modelLease) isLive(now int64) bool { return s.expires > tickOf(now) }

// age returns the shortest time for which the lease can have been reserved.
func (s *modelLease) age(now int64) int64 { return (tickOf(now) - s.reserved - 1) * tickMS }

func (s *modelLease) isYoung(now int64) bool {
	return s.state == core.LeaseReserved && s.inTransit(now)
}

func (s *modelLease) inTransit(now int64) bool { return s.age(now) < ms(linearTiming.ReservedTTL) }

// extendUnlisted renews a lease about which the node says nothing for as long as it may be working on the job.
func (s *modelLease) extendUnlisted(now int64) {
	if extended := min(expiry(now), s.reserved+(ms(linearTiming.ReservedTTL+linearTiming.Attempt)+tickMS-1)/tickMS+1); extended > tickOf(now) {
		s.expires = max(s.expires, extended)
	}
}

// arrived is the value of omitted for a revoked lease that no list has omitted and whose node has acknowledged the job.
const arrived = 2

func (s *modelLease) export(now int64) core.Lease {
	return core.Lease{LeaseRef: s.ref, State: s.state, Young: s.isYoung(now)}
}

// modelLedger is the state of the model: one node and its leases.
type modelLedger struct {
	modelNode
	leases []modelLease // in the order of their names
}

type modelNode struct {
	now       int64      // the time of the last call: the server's clock does not run backwards
	maxEpoch  core.Epoch // the highest so far
	epoch     core.Epoch // 0: not registered
	revision  core.Revision
	max       int
	foreign   int
	lastSeen  int64 // when the node was last seen
	heldUntil int64 // until then it gets no new jobs
	seq       uint64
	limit     modelLimit
	fence     int64 // of the last decision on the limit
}

// ledgerModel is the specification of the ledger of one node; histories are partitioned by node.
func ledgerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return &modelLedger{} },
		Step: func(state, input, output any) (bool, any) {
			next, q, a := state.(*modelLedger).clone(), input.(*request), output.(*answer)
			if q.kind != doRelease && a.now < next.now {
				return false, nil
			}
			next.now = max(next.now, a.now)
			want := next.apply(q, a)
			return want == *a, next
		},
		Equal: func(one, other any) bool {
			a, b := one.(*modelLedger), other.(*modelLedger)
			return a.modelNode == b.modelNode && slices.Equal(a.leases, b.leases)
		},
		Partition: byNode,
	}
}

func byNode(history []porcupine.Operation) [][]porcupine.Operation {
	parts := make(map[core.NodeID][]porcupine.Operation)
	for _, o := range history {
		node := o.Input.(*request).lease.Node
		parts[node] = append(parts[node], o)
	}
	var all [][]porcupine.Operation
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

func (m *modelLedger) clone() *modelLedger {
	c := *m
	c.leases = slices.Clone(m.leases)
	return &c
}

// find returns a lease and its index, or nil and the index at which to insert it.
func (m *modelLedger) find(ref core.LeaseRef) (*modelLease, int) {
	i, ok := slices.BinarySearchFunc(m.leases, ref, func(s modelLease, ref core.LeaseRef) int {
		return cmp.Or(cmp.Compare(s.ref.Job, ref.Job), cmp.Compare(s.ref.Attempt, ref.Attempt), cmp.Compare(s.ref.Token, ref.Token))
	})
	if !ok {
		return nil, i
	}
	return &m.leases[i], i
}

// put inserts or replaces a lease.
func (m *modelLedger) put(s modelLease) {
	if old, i := m.find(s.ref); old != nil {
		*old = s
	} else {
		m.leases = slices.Insert(m.leases, i, s)
	}
}

func (m *modelLedger) liveCount(now int64) int {
	n := 0
	for i := range m.leases {
		if m.leases[i].isLive(now) {
			n++
		}
	}
	return n
}

func (m *modelLedger) isClosed(now int64) bool {
	return now-m.lastSeen >= ms(linearTiming.Presence) || m.heldUntil > now
}

func (m *modelLedger) occupancy(now int64) store.Occupancy {
	o := store.Occupancy{Max: m.max, Withheld: m.max - m.limit.admitted(m.max), Foreign: m.foreign, Closed: m.isClosed(now), Held: m.heldUntil > now}
	for i := range m.leases {
		switch s := &m.leases[i]; {
		case !s.isLive(now):
		case s.state == core.LeaseReserved:
			o.Reserved++
		default:
			o.Running++
		}
	}
	return o
}

// apply executes a request and returns the answer that is required. What only the server decides, the time and the number of a new
// epoch, is taken from the answer that was given.
func (m *modelLedger) apply(q *request, given *answer) answer {
	now := given.now
	a := answer{now: now}
	own, at := m.find(q.lease)
	switch q.kind {
	case doRegister:
		m.register(q, &a, given.epoch)
	case doHeartbeat:
		m.heartbeat(q, &a)
	case doReserve:
		m.reserve(q, &a, given.free)
	case doCommit:
		if own == nil || !own.isLive(now) || own.state == core.LeaseRevoked {
			break
		}
		own.state, own.expires, a.ok = core.LeaseRunning, expiry(now), true
	case doRelease:
		if own != nil {
			m.leases = slices.Delete(m.leases, at, at+1)
			a.ok = true
		}
	case doPark:
		if own != nil {
			own.state, own.expires = core.LeaseParked, tickOf(now)
		}
	case doRevoke:
		switch {
		case own == nil:
		case own.state == core.LeaseParked:
			m.leases = slices.Delete(m.leases, at, at+1)
		default:
			switch {
			case own.isAdopted(), own.state != core.LeaseRevoked && own.omitted > 0:
				own.omitted = 1
			case own.state == core.LeaseRunning:
				own.omitted = arrived
			}
			own.state = core.LeaseRevoked
		}
	case doRemove:
		if a.ok = m.epoch == 0 || now-m.lastSeen >= ms(linearTiming.Presence); a.ok {
			*m = modelLedger{modelNode: modelNode{now: m.now, maxEpoch: m.maxEpoch}}
		}
	case doList:
		var all []core.Lease
		for i := range m.leases {
			all = append(all, m.leases[i].export(now))
		}
		a.lists = formatLeases("leases", all)
	case doAdmit:
		m.admit(q, &a)
	}
	return a
}

// reserve takes a slot. The number of free slots in the answer may be too low, by the expired leases in the set.
func (m *modelLedger) reserve(q *request, a *answer, givenFree int) {
	if m.epoch == 0 {
		a.verdict = store.UnknownNode
		return
	}
	capacity := m.limit.admitted(m.max) - m.foreign
	free := capacity - m.liveCount(a.now)
	own, _ := m.find(q.lease)
	switch {
	case own != nil && own.isLive(a.now):
		a.verdict = store.OK
	case q.epoch != m.epoch:
		a.verdict = store.StaleEpoch
	case q.revision != m.revision:
		a.verdict = store.StaleRevision
	case m.isClosed(a.now):
		a.verdict = store.NotReady
	case m.max <= 0:
		a.verdict = store.NoCapacity
	case free <= 0:
		a.verdict = store.Full
	default:
		a.verdict = store.OK
		m.put(modelLease{ref: q.lease, state: core.LeaseReserved, reserved: tickOf(a.now), expires: expiry(a.now)})
		if free--; givenFree >= capacity-len(m.leases) {
			free = min(free, givenFree)
		}
	}
	a.free = max(0, free)
}
