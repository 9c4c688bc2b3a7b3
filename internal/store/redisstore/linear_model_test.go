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

// kind is what a client of the ledger does.
type kind uint8

const (
	doRegister kind = iota
	doRenew
	doReserve
	doCommit
	doRelease
	doPark
	doRevoke
	doRemove
	doList
)

var kindNames = [...]string{"register", "renew", "reserve", "commit", "release", "park", "revoke", "remove", "list"}

func (k kind) String() string { return kindNames[k] }

// request is one call.
type request struct {
	kind     kind
	lease    core.LeaseRef // its node is the node of every request
	epoch    core.Epoch
	revision core.Revision
	seq      uint64
	max      int
	returns  bool // registers as one that was there before
	activity store.Activity
}

// answer is all that a call brought back. It can be compared with ==, so lists are written out.
type answer struct {
	now       int64 // when it happened by the server's clock, 0 for a release, which does not tell
	verdict   store.Verdict
	yes       bool // it lives, it was there, it is gone
	free      int
	epoch     core.Epoch
	revision  core.Revision
	known     bool
	occupancy store.Occupancy
	lists     string
}

func (q *request) String() string {
	what := fmt.Sprintf("%s %s", q.lease.Node, q.kind)
	switch q.kind {
	case doRegister:
		return fmt.Sprintf("%s with %d slots, returns %t, %+v", what, q.max, q.returns, q.activity)
	case doRenew:
		return fmt.Sprintf("%s in epoch %d, seq %d, %+v", what, q.epoch, q.seq, q.activity)
	case doReserve:
		return fmt.Sprintf("%s %s in epoch %d, revision %d", what, nameOf(q.lease), q.epoch, q.revision)
	case doCommit, doRelease, doPark, doRevoke:
		return what + " " + nameOf(q.lease)
	}
	return what
}

func (a *answer) String() string {
	return fmt.Sprintf("(at %d: %s %t, %d left, epoch %d, revision %d, known %t, %+v, %s)",
		a.now, a.verdict, a.yes, a.free, a.epoch, a.revision, a.known, a.occupancy, a.lists)
}

// rolled writes leases out, whatever their order.
func rolled(title string, leases []core.Lease) string {
	lines := make([]string, len(leases))
	for i, l := range leases {
		lines[i] = fmt.Sprintf("%s %s %t", nameOf(l.LeaseRef), l.State, l.Young)
	}
	slices.Sort(lines)
	return title + "[" + strings.Join(lines, ", ") + "] "
}

func cancelled(jobs []store.ActiveJob) string {
	lines := make([]string, len(jobs))
	for i, j := range jobs {
		lines[i] = jobName(j.Job, j.Attempt)
	}
	slices.Sort(lines)
	return "cancels" + fmt.Sprint(lines)
}

func nameOf(l core.LeaseRef) string              { return jobName(l.Job, l.Attempt) + "|" + string(l.Token) }
func jobName(job core.JobID, attempt int) string { return fmt.Sprintf("%s|%d", job, attempt) }

// span is a lease in the model.
type span struct {
	ref            core.LeaseRef
	state          core.LeaseState
	since, expires int64 // in ticks
	omitted        int   // by how many lists in a row: more than one makes an orphan
}

func (s *span) job() store.ActiveJob { return store.ActiveJob{Job: s.ref.Job, Attempt: s.ref.Attempt} }

// adopted leases were made of what a node listed: no dispatcher has put its token on them.
func (s *span) adopted() bool { return s.ref.Token == "" }

// The model's own idea of time. Leases are counted in ticks, and one that is written now lives through the tick in
// which the presence that is written now ends.
const tickMS = 100

func tickOf(now int64) int64 { return now / tickMS }

func ms(d time.Duration) int64 { return d.Milliseconds() }

func expiry(now int64) int64 { return tickOf(now) + (ms(linear.Presence)+tickMS-1)/tickMS + 1 }

func (s *span) lives(now int64) bool { return s.expires > tickOf(now) }

func (s *span) age(now int64) int64 { return (tickOf(now) - s.since) * tickMS }

func (s *span) young(now int64) bool { return s.state == core.LeaseReserved && s.early(now) }

func (s *span) early(now int64) bool { return s.age(now) < ms(linear.ReservedTTL) }

// keep renews a lease for as long as a node that does not list its jobs may be working on this one.
func (s *span) keep(now int64) {
	if kept := min(expiry(now), s.since+(ms(linear.ReservedTTL+linear.Attempt)+tickMS-1)/tickMS+1); kept > tickOf(now) {
		s.expires = max(s.expires, kept)
	}
}

// arrived stands in omitted for a revoked lease that was never left out and whose node has confirmed the job.
const arrived = 2

func (s *span) seen(now int64) core.Lease {
	return core.Lease{LeaseRef: s.ref, State: s.state, Young: s.young(now)}
}

// ledger is what there is to know about one node: the state of the model.
type ledger struct {
	facts
	leases []span // by name
}

type facts struct {
	now      int64      // when the last step was made: the server's clock does not run backwards
	newest   core.Epoch // that ever was
	epoch    core.Epoch // 0: not registered
	revision core.Revision
	max      int
	foreign  int
	heard    int64 // when it spoke last
	held     int64 // until when it is granted nothing
	seq      uint64
}

// ledgerModel is the ledger of one node as it should be; histories are divided by node.
func ledgerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return &ledger{} },
		Step: func(state, input, output any) (bool, any) {
			next, q, a := state.(*ledger).copied(), input.(*request), output.(*answer)
			if q.kind != doRelease && a.now < next.now {
				return false, nil
			}
			next.now = max(next.now, a.now)
			want := next.step(q, a)
			return want == *a, next
		},
		Equal: func(one, other any) bool {
			a, b := one.(*ledger), other.(*ledger)
			return a.facts == b.facts && slices.Equal(a.leases, b.leases)
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

func (b *ledger) copied() *ledger {
	c := *b
	c.leases = slices.Clone(b.leases)
	return &c
}

// find returns a lease, and where it is or would be.
func (b *ledger) find(ref core.LeaseRef) (*span, int) {
	i, ok := slices.BinarySearchFunc(b.leases, ref, func(s span, ref core.LeaseRef) int {
		return cmp.Or(cmp.Compare(s.ref.Job, ref.Job), cmp.Compare(s.ref.Attempt, ref.Attempt), cmp.Compare(s.ref.Token, ref.Token))
	})
	if !ok {
		return nil, i
	}
	return &b.leases[i], i
}

// put writes a lease, over the one of that name if there is one.
func (b *ledger) put(s span) {
	if old, i := b.find(s.ref); old != nil {
		*old = s
	} else {
		b.leases = slices.Insert(b.leases, i, s)
	}
}

func (b *ledger) living(now int64) int {
	n := 0
	for i := range b.leases {
		if b.leases[i].lives(now) {
			n++
		}
	}
	return n
}

func (b *ledger) closed(now int64) bool { return now-b.heard >= ms(linear.Presence) || b.held > now }

func (b *ledger) occupancy(now int64) store.Occupancy {
	o := store.Occupancy{Max: b.max, Foreign: b.foreign, Closed: b.closed(now), Held: b.held > now}
	for i := range b.leases {
		switch s := &b.leases[i]; {
		case !s.lives(now):
		case s.state == core.LeaseReserved:
			o.Reserved++
		default:
			o.Running++
		}
	}
	return o
}

// step carries out a request and returns what the answer must be. What the server alone decides, the time and the
// name of a new epoch, it takes from the answer that was given.
func (b *ledger) step(q *request, given *answer) answer {
	now := given.now
	a := answer{now: now}
	own, at := b.find(q.lease)
	switch q.kind {
	case doRegister:
		b.register(q, &a, given.epoch)
	case doRenew:
		b.renew(q, &a)
	case doReserve:
		b.reserve(q, &a, given.free)
	case doCommit:
		if own == nil || !own.lives(now) || own.state == core.LeaseRevoked {
			break
		}
		own.state, own.expires, a.yes = core.LeaseRunning, expiry(now), true
	case doRelease:
		if own != nil {
			b.leases = slices.Delete(b.leases, at, at+1)
			a.yes = true
		}
	case doPark:
		if own != nil {
			own.state, own.expires = core.LeaseParked, tickOf(now)
		}
	case doRevoke:
		switch {
		case own == nil:
		case own.state == core.LeaseParked:
			b.leases = slices.Delete(b.leases, at, at+1)
		default:
			switch {
			case own.adopted(), own.state != core.LeaseRevoked && own.omitted > 0:
				own.omitted = 1
			case own.state == core.LeaseRunning:
				own.omitted = arrived
			}
			own.state = core.LeaseRevoked
		}
	case doRemove:
		if a.yes = b.epoch == 0 || now-b.heard >= ms(linear.Presence); a.yes {
			*b = ledger{facts: facts{now: b.now, newest: b.newest}}
		}
	case doList:
		var all []core.Lease
		for i := range b.leases {
			all = append(all, b.leases[i].seen(now))
		}
		a.lists = rolled("names", all)
	}
	return a
}

// reserve takes a slot. What it says is left may be less than there is, by names in the set that do not count any more.
func (b *ledger) reserve(q *request, a *answer, said int) {
	if b.epoch == 0 {
		a.verdict = store.UnknownNode
		return
	}
	left := b.max - b.foreign - b.living(a.now)
	own, _ := b.find(q.lease)
	switch {
	case own != nil && own.lives(a.now):
		a.verdict = store.OK
	case q.epoch != b.epoch:
		a.verdict = store.StaleEpoch
	case q.revision != b.revision:
		a.verdict = store.StaleRevision
	case b.closed(a.now):
		a.verdict = store.NotReady
	case b.max <= 0:
		a.verdict = store.NoCapacity
	case left <= 0:
		a.verdict = store.Full
	default:
		a.verdict = store.OK
		b.put(span{ref: q.lease, state: core.LeaseReserved, since: tickOf(a.now), expires: expiry(a.now)})
		if left--; said >= b.max-b.foreign-len(b.leases) {
			left = min(left, said)
		}
	}
	a.free = max(0, left)
}
