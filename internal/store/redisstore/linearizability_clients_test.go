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

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// linear is so short that leases and presences lapse many times in a run.
var linear = store.Timing{
	Presence: 300 * time.Millisecond, ReservedTTL: 150 * time.Millisecond, Attempt: time.Second, Job: 2 * time.Second, Retention: 2 * time.Second,
}

const (
	dispatchers = 6 // clients of each node, each a scheduler of its own
	burst       = 5 // calls a client makes without a pause
	jobsOfNode  = 6 // few, so that dispatchers meet over the same one

	answerWithin = 30 * time.Second // longer than any machine stalls: an answer that is given up is no history
	lineTries    = 4
)

// silences are how long a node is left alone between bursts. After a long one all its leases have lapsed.
var silences = []time.Duration{0, 80 * time.Millisecond, long, 0, 200 * time.Millisecond, long}

// long outlasts a lease, which ends with a tick.
const long = 520 * time.Millisecond

// tappedStore is one of the schedulers that share the store.
type tappedStore struct {
	store *redisstore.Store
	tap   *redisstore.Tap
}

// schedulers opens a store for each dispatcher, all on the same keys.
func schedulers(t *testing.T, url string, instead redisstore.Instead) []tappedStore {
	t.Helper()
	prefix := fmt.Sprintf("linear%d", prefixes.Add(1))
	all := make([]tappedStore, dispatchers)
	for i := range all {
		s := open(t, url, func(o *redisstore.Options) {
			o.Prefix, o.Timing, o.Timeout = prefix, linear, answerWithin
		})
		all[i].store, all[i].tap = redisstore.Tapped(s, answerWithin, instead)
	}
	return all
}

// perNode is how many calls a node gets.
func perNode(rounds int) int { return rounds * dispatchers * burst }

// recordHistory lets the schedulers work on some nodes at once and returns what happened.
func recordHistory(t *testing.T, all []tappedStore, nodes, rounds int) []porcupine.Operation {
	t.Helper()
	seed, began := rand.Uint64(), time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			var failure error
			// Where a connection broke, nobody knows whether the last call was made: such a history proves nothing.
			for try := range lineTries {
				n := &playground{id: core.NodeID(fmt.Sprintf("node-%d-%d", i, try)), began: began, holders: make(map[store.ActiveJob]int)}
				ops, err := n.run(t.Context(), all, rounds, rand.New(rand.NewPCG(seed, uint64(i))))
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					history = append(history, ops...)
					return
				}
				failure = errors.Join(failure, err)
			}
			t.Errorf("node %d: no history without a broken connection: %v", i, failure)
		})
	}
	wg.Wait()
	return history
}

// playground is one node, and what its dispatchers know of each other.
type playground struct {
	id    core.NodeID
	began time.Time
	seq   atomic.Uint64

	mu       sync.Mutex
	epoch    core.Epoch
	revision core.Revision
	holders  map[store.ActiveJob]int
}

func (n *playground) run(ctx context.Context, all []tappedStore, rounds int, rng *rand.Rand) ([]porcupine.Operation, error) {
	clients := make([]*dispatcher, len(all))
	for i, one := range all {
		clients[i] = &dispatcher{
			playground: n, tappedStore: one, number: i, token: core.Token(fmt.Sprintf("t%d", i)), heard: one.tap.Of(n.id),
			rng: rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())), mine: make(map[core.JobID]bool),
		}
	}
	clients[0].must(doRegister)
	for round := range rounds {
		if round > 0 {
			n.rest(ctx, clients, silences[(round-1)%len(silences)])
		}
		var wg sync.WaitGroup
		for _, c := range clients {
			wg.Go(func() { c.burst(ctx) })
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

// rest leaves the node alone.
func (n *playground) rest(ctx context.Context, clients []*dispatcher, silence time.Duration) {
	backoff.Sleep(ctx, silence)
	for _, c := range clients {
		if silence == long && c.chance(80) {
			c.must(doCommit) // it slept as well, and does not know that its leases have lapsed
		}
	}
}

// dispatcher is what one scheduler does on one node.
type dispatcher struct {
	*playground
	tappedStore
	number  int
	token   core.Token
	heard   <-chan redisstore.Overheard
	rng     *rand.Rand
	mine    map[core.JobID]bool // reserved and not released
	next    *kind               // what the last answer calls for
	ops     []porcupine.Operation
	failure error
}

func (c *dispatcher) must(k kind) { c.next = &k }

func (c *dispatcher) burst(ctx context.Context) {
	for range burst {
		q := c.think()
		call := time.Since(c.began)
		a, err := c.call(ctx, q)
		if err != nil {
			c.failure = err
			return
		}
		c.ops = append(c.ops, porcupine.Operation{
			ClientId: c.number, Input: q, Call: call.Nanoseconds(), Output: a, Return: time.Since(c.began).Nanoseconds(),
		})
		c.learn(q, a)
	}
}

// Of a hundred calls so many are of each kind.
var mix = []struct {
	kind kind
	of   int
}{{doReserve, 40}, {doCommit, 16}, {doRelease, 15}, {doRenew, 12}, {doList, 7}, {doRevoke, 4}, {doPark, 3}, {doRegister, 2}, {doRemove, 1}}

// think makes up the next call.
func (c *dispatcher) think() *request {
	q := &request{lease: core.LeaseRef{Node: c.id, Job: c.anyJob(), Attempt: 1, Token: c.token}}
	if c.next != nil {
		q.kind, c.next = *c.next, nil
	} else {
		at := c.rng.IntN(100)
		for _, m := range mix {
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
		c.stale(q)
	case doCommit, doRelease, doPark, doRevoke:
		for job := range c.mine {
			q.lease.Job = job
			break
		}
	case doRegister:
		q.max, q.returns, q.epoch = 3+c.rng.IntN(6), c.chance(10), 0
		q.activity = c.activity()
	case doRenew:
		c.stale(q)
		if c.chance(20) {
			q.epoch = 0 // does not say
		}
		if c.chance(80) { // counts
			q.seq = c.seq.Add(1) - uint64(c.rng.IntN(2)) // some as the one before, or too late
		}
		q.activity = c.activity()
	}
	return q
}

// stale makes some calls be of a node that was.
func (c *dispatcher) stale(q *request) {
	switch {
	case c.chance(12):
		q.epoch--
	case c.chance(6):
		q.revision--
	}
}

func (c *dispatcher) chance(percent int) bool { return c.rng.IntN(100) < percent }

func (c *dispatcher) anyJob() core.JobID {
	return core.JobID(fmt.Sprintf("j%d", c.rng.IntN(jobsOfNode)))
}

// activity is what the node says it does: mostly what it was given.
func (c *dispatcher) activity() store.Activity {
	a := store.Activity{Lists: c.chance(75), Counts: c.chance(30)}
	for i := range jobsOfNode {
		job := store.ActiveJob{Job: core.JobID(fmt.Sprintf("j%d", i)), Attempt: 1}
		if a.Lists && (c.holders[job] > 0 && c.chance(70) || c.chance(4)) {
			a.Active = append(a.Active, job)
		}
	}
	a.Current = len(a.Active) + c.rng.IntN(2)
	return a
}

// learn takes in an answer, as a scheduler would.
func (c *dispatcher) learn(q *request, a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	job := store.ActiveJob{Job: q.lease.Job, Attempt: q.lease.Attempt}
	switch {
	case a.verdict == store.UnknownNode:
		c.must(doRegister)
	case a.verdict == store.NotReady && c.chance(50):
		c.must(doRenew)
	case q.kind == doReserve && a.verdict == store.OK && !c.mine[q.lease.Job]:
		c.mine[q.lease.Job] = true
		c.holders[job]++
	case q.kind == doRelease && c.mine[q.lease.Job]:
		delete(c.mine, q.lease.Job)
		c.holders[job]--
	case q.kind == doRegister && a.epoch > c.epoch:
		c.epoch, c.revision = a.epoch, a.revision
	}
}

// call makes a call and waits for its answer, also where nobody else would.
func (c *dispatcher) call(ctx context.Context, q *request) (*answer, error) {
	a := new(answer)
	var err error
	switch q.kind {
	case doReserve:
		var r store.Reservation
		r, err = c.store.Reserve(ctx, store.ReserveParams{Lease: q.lease, Epoch: q.epoch, Revision: q.revision})
		a.verdict, a.free = r.Verdict, r.Free
	case doCommit:
		a.yes, err = c.store.Commit(ctx, q.lease)
	case doRelease, doPark:
		err = c.store.Release(ctx, store.ReleaseParams{Lease: q.lease, Park: q.kind == doPark})
	case doRevoke:
		err = c.store.Revoke(ctx, q.lease)
	case doRemove:
		err = c.store.Remove(ctx, store.RemoveParams{Node: c.id, SilentFor: linear.Presence})
	case doList:
		var leases []core.Lease
		leases, err = c.store.Orphans(ctx, c.id)
		a.lists = rolled("names", leases)
	case doRegister:
		err = c.register(ctx, q, a)
	case doRenew:
		err = c.renew(ctx, q, a)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.kind, err)
	}
	o, err := c.listen()
	if a.now = o.Now; q.kind == doRelease || q.kind == doRemove {
		a.yes = o.Value == 1
	}
	return a, err
}

// listen returns what Redis last answered.
func (c *dispatcher) listen() (last redisstore.Overheard, err error) {
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case last = <-c.heard:
	case <-timer.C:
		return last, errors.New("no answer was heard")
	}
	for {
		select {
		case last = <-c.heard:
		default:
			return last, last.Err
		}
	}
}

func (c *dispatcher) register(ctx context.Context, q *request, a *answer) error {
	n := core.Node{ID: c.id, Health: core.HealthReady, MaxJobs: q.max, Callback: "http://127.0.0.1:9/jobs"}
	r, err := c.store.Register(ctx, store.RegisterParams{Node: n, Load: core.UnknownLoad, Activity: q.activity, Returning: q.returns})
	if err != nil {
		return err
	}
	a.epoch, a.revision, a.known, a.occupancy = r.Node.Epoch, r.Node.Revision, r.Known, r.Occupancy
	a.lists = rolled("kept", r.Kept) + rolled("orphans", r.Orphans) + rolled("strays", r.Strays)
	return nil
}

func (c *dispatcher) renew(ctx context.Context, q *request, a *answer) error {
	p, err := c.store.Heartbeat(ctx, store.HeartbeatParams{
		Node: c.id, Epoch: q.epoch, Seq: q.seq, Load: core.UnknownLoad, Activity: q.activity,
	})
	if a.verdict = p.Verdict; err != nil || p.Verdict != store.OK {
		return err
	}
	a.epoch, a.revision, a.occupancy = p.Node.Epoch, p.Node.Revision, p.Occupancy
	a.lists = rolled("orphans", p.Orphans) + rolled("overdue", p.Overdue) + rolled("strays", p.Strays) + cancelled(p.Cancels)
	return nil
}
