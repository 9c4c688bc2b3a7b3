package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// linearTiming is so short that leases and presences expire many times in a run.
var linearTiming = store.Timing{
	Presence: 300 * time.Millisecond, ReservedTTL: 150 * time.Millisecond, Attempt: time.Second, Job: 2 * time.Second, Retention: 2 * time.Second,
}

const (
	clientsPerNode = 6 // each with a store of its own
	callsPerBurst  = 5 // calls of a client without a break
	jobsPerNode    = 6 // few, so that clients use the same jobs

	replyTimeout = 30 * time.Second // longer than any machine stalls: a call without a reply would make the history useless
	historyTries = 4
)

// idleTimes are the times between bursts on a node. After a long one all its leases have expired.
var idleTimes = []time.Duration{0, 80 * time.Millisecond, longIdle, 0, 200 * time.Millisecond, longIdle}

// longIdle is longer than the TTL of a lease, rounded up to ticks.
const longIdle = 520 * time.Millisecond

// recordedStore is the store of one client, and the recorder of its replies.
type recordedStore struct {
	store    *redisstore.Store
	recorder *redisstore.Recorder
}

// openRecordedStores opens a store for each client of a node, all with the same prefix.
func openRecordedStores(t *testing.T, url string, rewrite redisstore.Rewrite) []recordedStore {
	t.Helper()
	prefix := fmt.Sprintf("linear%d", prefixes.Add(1))
	all := make([]recordedStore, clientsPerNode)
	for i := range all {
		s := open(t, url, func(o *redisstore.Options) {
			o.Prefix, o.Timing, o.Timeout = prefix, linearTiming, replyTimeout
		})
		all[i].store, all[i].recorder = redisstore.Recorded(s, replyTimeout, rewrite)
	}
	return all
}

// callsPerNode returns the number of calls on a node.
func callsPerNode(rounds int) int { return rounds * clientsPerNode * callsPerBurst }

// recordHistory runs the clients on several nodes concurrently and returns the history of their calls.
func recordHistory(t *testing.T, all []recordedStore, nodes, rounds int) []porcupine.Operation {
	t.Helper()
	seed, began := rand.Uint64(), time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			var failure error
			// When a connection breaks, it is unknown whether the last call was executed: such a history proves nothing.
			for try := range historyTries {
				n := &sharedNode{id: core.NodeID(fmt.Sprintf("node-%d-%d", i, try)), began: began, holders: make(map[store.ActiveJob]int)}
				ops, err := n.run(t.Context(), all, rounds, rand.New(rand.NewPCG(seed, uint64(i))))
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					history = append(history, ops...)
					return
				}
				failure = errors.Join(failure, err)
			}
			t.Errorf("node %d: the connection broke in every try: %v", i, failure)
		})
	}
	wg.Wait()
	return history
}

// sharedNode is one node, and the state that its clients share.
type sharedNode struct {
	id    core.NodeID
	began time.Time
	seq   atomic.Uint64
	fence atomic.Int64

	mu       sync.Mutex
	epoch    core.Epoch
	revision core.Revision
	holders  map[store.ActiveJob]int
}

func (n *sharedNode) run(ctx context.Context, all []recordedStore, rounds int, rng *rand.Rand) ([]porcupine.Operation, error) {
	clients := make([]*ledgerClient, len(all))
	for i, s := range all {
		clients[i] = &ledgerClient{
			sharedNode: n, recordedStore: s, number: i, token: core.Token(fmt.Sprintf("t%d", i)), replies: s.recorder.Replies(n.id),
			rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())), held: make(map[core.JobID]bool),
		}
	}
	clients[0].doNext(doRegister)
	for round := range rounds {
		if round > 0 {
			n.idle(ctx, clients, idleTimes[(round-1)%len(idleTimes)])
		}
		var wg sync.WaitGroup
		for _, c := range clients {
			wg.Go(func() { c.runBurst(ctx) })
		}
		wg.Wait()
		for _, c := range clients {
			if c.failure != nil {
				return nil, c.failure
			}
		}
	}
	var ops []porcupine.Operation
	for _, c := range clients {
		ops = append(ops, c.ops...)
	}
	return ops, nil
}

// idle waits between two bursts.
func (n *sharedNode) idle(ctx context.Context, clients []*ledgerClient, silence time.Duration) {
	run.Sleep(ctx, silence)
	for _, c := range clients {
		if silence == longIdle && c.chance(80) {
			c.doNext(doCommit) // a client that does not know that its leases have expired
		}
	}
}

// ledgerClient is one client of one node.
type ledgerClient struct {
	*sharedNode
	recordedStore
	number  int
	token   core.Token
	replies <-chan redisstore.RecordedReply
	rng     *rand.Rand
	held    map[core.JobID]bool // reserved and not released
	next    *requestKind        // the reaction to the last answer; nil: none
	ops     []porcupine.Operation
	failure error
}

func (c *ledgerClient) doNext(k requestKind) { c.next = &k }

func (c *ledgerClient) runBurst(ctx context.Context) {
	for range callsPerBurst {
		q := c.nextRequest()
		call := time.Since(c.began)
		a, err := c.call(ctx, q)
		if err != nil {
			c.failure = err
			return
		}
		c.ops = append(c.ops, porcupine.Operation{
			ClientId: c.number, Input: q, Call: call.Nanoseconds(), Output: a, Return: time.Since(c.began).Nanoseconds(),
		})
		c.updateState(q, a)
	}
}

// requestMix is how many of a hundred requests are of each kind.
var requestMix = []struct {
	kind requestKind
	of   int
}{{doReserve, 38}, {doCommit, 15}, {doRelease, 14}, {doHeartbeat, 12}, {doList, 6}, {doAdmit, 5}, {doRevoke, 4}, {doPark, 3}, {doRegister, 2}, {doRemove, 1}}

// nextRequest makes a random request.
func (c *ledgerClient) nextRequest() *request {
	q := &request{lease: core.LeaseRef{Node: c.id, Job: c.anyJob(), Attempt: 1, Token: c.token}}
	if c.next != nil {
		q.kind, c.next = *c.next, nil
	} else {
		at := c.rng.IntN(100)
		for _, m := range requestMix {
			if q.kind = m.kind; at < m.of {
				break
			}
			at -= m.of
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q.epoch, q.revision = c.epoch, c.revision
	switch q.kind {
	case doReserve:
		c.maybeStale(q)
	case doCommit, doRelease, doPark, doRevoke:
		for job := range c.held {
			q.lease.Job = job
			break
		}
	case doRegister:
		q.max, q.returns, q.epoch = 3+c.rng.IntN(6), c.chance(10), 0
		q.activity = c.activity()
	case doHeartbeat:
		c.maybeStale(q)
		if c.chance(20) {
			q.epoch = 0 // not sent
		}
		if c.chance(80) { // numbered
			q.seq = c.seq.Add(1) - uint64(c.rng.IntN(2)) // some are repeated, or late
		}
		q.activity = c.activity()
	case doAdmit:
		q.limit = modelLimit{limited: c.chance(40)}
		if q.limit.limited {
			q.limit.slots = c.rng.IntN(6)
		}
		q.fence = 10 + c.fence.Add(1) - int64(c.rng.IntN(8)) // some leaders are stale
	}
	return q
}

// maybeStale makes some requests refer to an earlier epoch or revision.
func (c *ledgerClient) maybeStale(q *request) {
	switch {
	case c.chance(12):
		q.epoch--
	case c.chance(6):
		q.revision--
	}
}

func (c *ledgerClient) chance(percent int) bool { return c.rng.IntN(100) < percent }

func (c *ledgerClient) anyJob() core.JobID {
	return core.JobID(fmt.Sprintf("j%d", c.rng.IntN(jobsPerNode)))
}

// activity returns what the node reports: mostly the jobs that it was given.
func (c *ledgerClient) activity() store.Activity {
	a := store.Activity{Lists: c.chance(75), Counts: c.chance(30)}
	for i := range jobsPerNode {
		job := store.ActiveJob{Job: core.JobID(fmt.Sprintf("j%d", i)), Attempt: 1}
		if a.Lists && (c.holders[job] > 0 && c.chance(70) || c.chance(4)) {
			a.Active = append(a.Active, job)
		}
	}
	a.Current = len(a.Active) + c.rng.IntN(2)
	return a
}

// updateState updates the state of the client after an answer.
func (c *ledgerClient) updateState(q *request, a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	job := store.ActiveJob{Job: q.lease.Job, Attempt: q.lease.Attempt}
	switch {
	case a.verdict == store.UnknownNode:
		c.doNext(doRegister)
	case a.verdict == store.NotReady && c.chance(50):
		c.doNext(doHeartbeat)
	case q.kind == doReserve && a.verdict == store.OK && !c.held[q.lease.Job]:
		c.held[q.lease.Job] = true
		c.holders[job]++
	case q.kind == doRelease && c.held[q.lease.Job]:
		delete(c.held, q.lease.Job)
		c.holders[job]--
	case q.kind == doRegister && a.epoch > c.epoch:
		c.epoch, c.revision = a.epoch, a.revision
	}
}

// call makes a call and waits for its reply, also for releases.
func (c *ledgerClient) call(ctx context.Context, q *request) (*answer, error) {
	a := new(answer)
	var err error
	switch q.kind {
	case doReserve:
		var r store.Reservation
		r, err = c.store.Reserve(ctx, store.ReserveParams{Lease: q.lease, Epoch: q.epoch, Revision: q.revision})
		a.verdict, a.free = r.Verdict, r.Free
	case doCommit:
		a.ok, err = c.store.Commit(ctx, q.lease)
	case doRelease, doPark:
		err = c.store.Release(ctx, store.ReleaseParams{Lease: q.lease, Park: q.kind == doPark})
	case doRevoke:
		err = c.store.Revoke(ctx, q.lease)
	case doRemove:
		_, err = c.store.Remove(ctx, store.RemoveParams{Node: c.id, SilentFor: linearTiming.Presence})
	case doList:
		var leases []core.Lease
		leases, err = c.store.Orphans(ctx, c.id)
		a.lists = formatLeases("leases", leases)
	case doRegister:
		err = c.register(ctx, q, a)
	case doHeartbeat:
		err = c.heartbeat(ctx, q, a)
	case doAdmit:
		err = c.admit(ctx, q, a)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.kind, err)
	}
	o, err := c.lastReply()
	if a.now = o.Now; q.kind == doRelease || q.kind == doRemove {
		a.ok = o.Value == 1
	}
	return a, err
}

// lastReply waits for a reply of Redis and returns the last one.
func (c *ledgerClient) lastReply() (last redisstore.RecordedReply, err error) {
	timer := time.NewTimer(replyTimeout)
	defer timer.Stop()
	select {
	case last = <-c.replies:
	case <-timer.C:
		return last, errors.New("no reply was recorded")
	}
	for {
		select {
		case last = <-c.replies:
		default:
			return last, last.Err
		}
	}
}

func (c *ledgerClient) register(ctx context.Context, q *request, a *answer) error {
	n := core.Node{ID: c.id, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: q.max, Callback: "http://127.0.0.1:9/jobs"}}
	r, err := c.store.Register(ctx, store.RegisterParams{Node: n, Load: core.UnknownLoad, Activity: q.activity, Returning: q.returns})
	if err != nil {
		return err
	}
	a.epoch, a.revision, a.known, a.occupancy = r.Node.Epoch, r.Node.Revision, r.Known, r.Occupancy
	a.lists = formatLeases("kept", r.Kept) + formatLeases("orphans", r.Orphans) + formatLeases("strays", r.Strays)
	return nil
}

func (c *ledgerClient) heartbeat(ctx context.Context, q *request, a *answer) error {
	p, err := c.store.Heartbeat(ctx, store.HeartbeatParams{
		Node: c.id, Epoch: q.epoch, Seq: q.seq, Load: core.UnknownLoad, Activity: q.activity,
	})
	if a.verdict = p.Verdict; err != nil || p.Verdict != store.OK {
		return err
	}
	a.epoch, a.revision, a.occupancy = p.Node.Epoch, p.Node.Revision, p.Occupancy
	a.lists = formatLeases("orphans", p.Orphans) + formatLeases("overdue", p.Overdue) + formatLeases("strays", p.Strays) + formatCancels(p.Cancels)
	return nil
}

func (c *ledgerClient) admit(ctx context.Context, q *request, a *answer) error {
	p := store.AdmitParams{Node: c.id, Fence: q.fence, Admission: core.Admission{Limited: q.limit.limited, Slots: q.limit.slots, Reason: core.AdmissionFailing}}
	n, admitted, err := c.store.Admit(ctx, p)
	if errors.Is(err, store.ErrNoNode) {
		a.verdict = store.UnknownNode
		return nil
	}
	if err != nil {
		return err
	}
	a.ok, a.epoch, a.revision = admitted, n.Epoch, n.Revision
	a.limit = modelLimit{limited: n.Admission.Limited, slots: n.Admission.Slots}
	return nil
}
