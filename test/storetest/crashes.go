package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// crashBehaviours is the specification of the store as a whole: concurrent dispatchers and nodes make random calls and crash at many
// points, and an auditor that shares nothing with the store checks that no node is oversold, no slot leaks and no job has two outcomes.
var crashBehaviours = []behaviour{
	{"the promises hold with nodes that list their jobs", func(t *testing.T, h *Harness) { newCrashTest(h, true).run(t) }},
	{"the promises hold with nodes that never list their jobs", func(t *testing.T, h *Harness) { newCrashTest(h, false).run(t) }},
}

// crashTest is the state of one crash test.
type crashTest struct {
	h     *Harness
	nodes []*crashNode

	mu       sync.Mutex
	outcomes map[core.JobID]int // how many outcomes of each job were decided
	ended    int
}

// crashNode is a node as a store knows it, without a scheduler: its own state, and the auditor's view of it.
type crashNode struct {
	id    core.NodeID
	slots int
	lists bool

	mu      sync.Mutex
	node    *core.Node
	seq     uint64
	running map[store.ActiveJob]bool    // the jobs that the node really has
	grants  map[core.LeaseRef]time.Time // live grants, as far as the auditor knows, and when each was last written
}

func newCrashTest(h *Harness, lists bool) *crashTest {
	c := &crashTest{h: h, outcomes: make(map[core.JobID]int)}
	for i := range 5 {
		c.nodes = append(c.nodes, &crashNode{
			id: core.NodeID(fmt.Sprintf("node-%d", i)), slots: 1 + i%3, lists: lists,
			running: make(map[store.ActiveJob]bool), grants: make(map[core.LeaseRef]time.Time),
		})
	}
	return c
}

func (c *crashTest) run(t *testing.T) {
	for _, n := range c.nodes {
		n.node = c.h.register(t, n.id, n.slots)
	}
	stop := make(chan struct{})
	var background, workers sync.WaitGroup
	for _, n := range c.nodes {
		background.Go(func() { c.sendHeartbeats(t, n, stop) })
	}
	for w := range c.h.Workers {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 42))
			for i := range c.h.Rounds {
				c.runJob(t, rng, core.JobID(fmt.Sprintf("job-%d-%d", w, i)), (w*c.h.Rounds+i)%crashPoints)
			}
		})
	}
	workers.Wait()
	close(stop)
	background.Wait()

	// No process is left. Within the TTL and a second, every slot is free.
	c.h.Wait(c.h.Timing.Presence + time.Second)
	for _, n := range c.nodes {
		if o := c.h.occupancy(t, n.id); o.Reserved+o.Running != 0 {
			t.Errorf("%s still has taken slots after all processes have ended: %+v", n.id, o)
		}
	}
	for job, n := range c.outcomes {
		if n != 1 {
			t.Errorf("%s has %d outcomes", job, n)
		}
	}
	if c.ended < c.h.Workers*c.h.Rounds/2 {
		t.Errorf("only %d of %d jobs ended: the test proves nothing", c.ended, c.h.Workers*c.h.Rounds)
	}
}

// sendHeartbeats sends the heartbeats of a node and handles the answers.
func (c *crashTest) sendHeartbeats(t *testing.T, n *crashNode, stop <-chan struct{}) {
	rng := rand.New(rand.NewPCG(uint64(n.slots), 7))
	for {
		select {
		case <-stop:
			return
		default:
		}
		c.h.Wait(c.h.Timing.Presence/6 + time.Duration(rng.Int64N(int64(c.h.Timing.Presence/6))))
		n.mu.Lock()
		n.seq++
		p := store.HeartbeatParams{Node: n.id, Seq: n.seq, Known: n.node, Load: core.UnknownLoad}
		if n.lists {
			p.Activity.Lists = true
			for job := range n.running {
				p.Activity.Active = append(p.Activity.Active, job)
			}
		}
		n.mu.Unlock()
		result, err := c.h.Store.Heartbeat(t.Context(), p)
		if err != nil || result.Verdict != store.OK {
			t.Errorf("heartbeat %s: %v, %v", n.id, result.Verdict, err)
			return
		}
		// A list that was sent before a release takes the slot again, as a stray.
		o := result.Occupancy
		o.Running -= len(result.Strays)
		c.audit(t, n, o)
		n.mu.Lock()
		for _, job := range result.Cancels {
			delete(n.running, job)
		}
		n.mu.Unlock()
		for _, l := range append(result.Orphans, result.Overdue...) {
			if rng.IntN(3) > 0 { // sometimes the instance that should handle it crashes
				c.failJob(t, n, l.LeaseRef)
			}
		}
	}
}

// audit compares the occupancy with the maximum.
func (c *crashTest) audit(t *testing.T, n *crashNode, o store.Occupancy) {
	if o.InFlight() > n.slots {
		t.Errorf("%s is oversold: %+v on %d slots", n.id, o, n.slots)
	}
}

// failJob ends an unfinished job and releases its slot.
func (c *crashTest) failJob(t *testing.T, n *crashNode, r core.LeaseRef) {
	a, err := c.h.Store.Apply(t.Context(),
		store.ApplyParams{Job: r.Job, Event: core.EventFail, AnyHolder: true, Reason: core.ReasonNodeLost})
	if err != nil {
		t.Errorf("fail %s: %v", r.Job, err)
		return
	}
	c.countOutcome(a.Outcome, r.Job)
	c.release(t, n, r)
}

// release releases a slot. It removes the grant from the auditor's view first, because the slot may be granted again from then on.
func (c *crashTest) release(t *testing.T, n *crashNode, r core.LeaseRef) {
	n.mu.Lock()
	delete(n.grants, r)
	delete(n.running, store.ActiveJob{Job: r.Job, Attempt: r.Attempt})
	n.mu.Unlock()
	if err := c.h.Store.Release(t.Context(), store.ReleaseParams{Lease: r}); err != nil {
		t.Errorf("release %v: %v", r, err)
	}
}

// countOutcome counts a decided outcome of a job.
func (c *crashTest) countOutcome(o store.Outcome, job core.JobID) {
	if o != store.Decided && (!c.h.Repeats || o != store.Repeated) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended++
	if o == store.Decided {
		c.outcomes[job]++
	}
}

// crashPoints is in how many places a dispatcher can crash, in equal parts of the jobs. Most are past the end: no crash.
const crashPoints = 12

// runJob dispatches one job, with a crash at a point.
func (c *crashTest) runJob(t *testing.T, rng *rand.Rand, id core.JobID, crash int) {
	for range 1000 {
		if c.tryNode(t, rng, id, c.nodes[rng.IntN(len(c.nodes))], crash) {
			return
		}
		c.h.Wait(time.Duration(rng.Int64N(int64(c.h.Timing.Presence / 20))))
	}
	t.Errorf("%s found no slot in 1000 tries: slots are leaking", id)
}

// tryNode tries one node and reports whether it had a slot.
func (c *crashTest) tryNode(t *testing.T, rng *rand.Rand, id core.JobID, n *crashNode, crash int) bool {
	n.mu.Lock()
	node := n.node
	n.mu.Unlock()
	r := core.LeaseRef{Node: n.id, Job: id, Attempt: 1, Token: core.Token("t." + string(id))}

	began := time.Now()
	got, err := c.h.Store.Reserve(t.Context(), store.ReserveParams{
		Lease: r, Epoch: node.Epoch, Revision: node.Revision,
	})
	if err != nil {
		t.Errorf("reserve: %v", err)
		return true
	}
	if got.Verdict != store.OK {
		return false
	}
	c.recordGrant(t, n, r, began)
	if crash > 0 {
		c.runAttempt(t, rng, n, r, core.Holder{Attempt: 1, Node: n.id, Epoch: node.Epoch}, crash)
	}
	return true
}

// runAttempt records, delivers and ends a job that has a slot.
func (c *crashTest) runAttempt(t *testing.T, rng *rand.Rand, n *crashNode, r core.LeaseRef, holder core.Holder, crash int) {
	id := r.Job
	if _, created, err := c.h.Store.Create(t.Context(), store.CreateParams{
		ID: id, Spec: core.Spec{Request: core.RequestID(id), Session: "s"}, Fingerprint: "p", Holder: holder, Token: r.Token,
	}); err != nil || !created {
		t.Errorf("create %s: %v, %v", id, created, err)
		return
	}
	if crash == 1 {
		return
	}
	n.mu.Lock() // the job is delivered
	n.running[store.ActiveJob{Job: id, Attempt: 1}] = true
	n.mu.Unlock()
	if crash == 2 {
		c.loseJob(n, id, rng)
		return
	}
	if held, err := c.h.Store.Commit(t.Context(), r); err != nil {
		t.Errorf("commit: %v", err)
	} else if held {
		n.mu.Lock()
		if _, live := n.grants[r]; live {
			n.grants[r] = time.Now()
		}
		n.mu.Unlock()
	}
	c.h.Wait(time.Duration(rng.Int64N(int64(c.h.Timing.Presence / 3))))
	if crash == 3 {
		c.loseJob(n, id, rng)
		return
	}
	a, err := c.h.Store.Apply(t.Context(), store.ApplyParams{Job: id, Event: core.EventDone, Holder: holder})
	if err != nil {
		t.Errorf("done: %v", err)
		return
	}
	c.countOutcome(a.Outcome, id)
	n.mu.Lock()
	delete(n.running, store.ActiveJob{Job: id, Attempt: 1})
	n.mu.Unlock()
	if crash == 4 {
		return
	}
	c.release(t, n, r)
	if crash == 5 {
		c.release(t, n, r) // a repeated release
	}
}

// recordGrant adds a grant to the auditor's view and checks that there was a free slot. A grant is in the view from its reservation
// until its release begins or its TTL has passed since its last write, so the view never has more grants than the store may have.
func (c *crashTest) recordGrant(t *testing.T, n *crashNode, r core.LeaseRef, began time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	live := 0
	for other, at := range n.grants {
		job := store.ActiveJob{Job: other.Job, Attempt: other.Attempt}
		switch {
		case now.Sub(at) < c.h.Timing.Presence-c.h.Slack && at.Before(began):
			live++
		case n.lists && n.running[job]:
			live++ // the node lists it: it cannot expire
		}
	}
	if live >= n.slots {
		t.Errorf("%s was granted a lease beside %d live ones on %d slots", n.id, live, n.slots)
	}
	n.grants[r] = now
}

// loseJob lets the node lose a job, or not.
func (c *crashTest) loseJob(n *crashNode, id core.JobID, rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		n.mu.Lock()
		delete(n.running, store.ActiveJob{Job: id, Attempt: 1})
		n.mu.Unlock()
	}
}
