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

// exerciseChaos lets many dispatchers and nodes do what they do, at random and with crashes at random points,
// while an auditor that shares nothing with the store watches the promises.
func exerciseChaos(_ *testing.T, run runner) {
	run("nodes that list", func(t *testing.T, h *Harness) { newChaos(h, true).run(t) })
	run("nodes that never list", func(t *testing.T, h *Harness) { newChaos(h, false).run(t) })
}

type chaos struct {
	h     *Harness
	nodes []*chaosNode

	mu      sync.Mutex
	decided map[core.JobID]int // how often each job was seen to end
	ended   int
}

// chaosNode is a node's own memory, and the auditor's.
type chaosNode struct {
	id    core.NodeID
	slots int
	lists bool

	mu     sync.Mutex
	node   *core.Node
	seq    uint64
	has    map[store.ActiveJob]bool    // what the node is really doing
	grants map[core.LeaseRef]time.Time // live grants by the auditor's book: when each was last written
}

func newChaos(h *Harness, lists bool) *chaos {
	c := &chaos{h: h, decided: make(map[core.JobID]int)}
	for i := range 5 {
		c.nodes = append(c.nodes, &chaosNode{
			id: core.NodeID(fmt.Sprintf("node-%d", i)), slots: 1 + i%3, lists: lists,
			has: make(map[store.ActiveJob]bool), grants: make(map[core.LeaseRef]time.Time),
		})
	}
	return c
}

func (c *chaos) run(t *testing.T) {
	for _, n := range c.nodes {
		n.node = c.h.register(t, n.id, n.slots)
	}
	stop := make(chan struct{})
	var background, workers sync.WaitGroup
	for _, n := range c.nodes {
		background.Go(func() { c.heartbeats(t, n, stop) })
	}
	for w := range c.h.Workers {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 42))
			for i := range c.h.Rounds {
				c.job(t, rng, core.JobID(fmt.Sprintf("job-%d-%d", w, i)))
			}
		})
	}
	workers.Wait()
	close(stop)
	background.Wait()

	// Everybody is gone now. Within the TTL and a second, with nobody's help, every slot is free.
	c.h.Wait(c.h.Timing.Presence + time.Second)
	for _, n := range c.nodes {
		if o := c.h.occupancy(t, n.id); o.Reserved+o.Running != 0 {
			t.Errorf("%s still counts %+v after everybody vanished", n.id, o)
		}
	}
	for job, times := range c.decided {
		if times != 1 {
			t.Errorf("%s ended %d times", job, times)
		}
	}
	if c.ended < c.h.Workers*c.h.Rounds/2 {
		t.Errorf("only %d of %d jobs ended: the test did not do what it should", c.ended, c.h.Workers*c.h.Rounds)
	}
}

// heartbeats keeps a node alive and sees to what the answers say.
func (c *chaos) heartbeats(t *testing.T, n *chaosNode, stop <-chan struct{}) {
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
			for job := range n.has {
				p.Activity.Active = append(p.Activity.Active, job)
			}
		}
		n.mu.Unlock()
		pulse, err := c.h.Store.Heartbeat(t.Context(), p)
		if err != nil || pulse.Verdict != store.OK {
			t.Errorf("heartbeat %s: %v, %v", n.id, pulse.Verdict, err)
			return
		}
		// A list that crossed a release brings a slot back that was given away: the node is right about itself.
		o := pulse.Occupancy
		o.Running -= len(pulse.Strays)
		c.audit(t, n, o)
		n.mu.Lock()
		for _, job := range pulse.Cancels {
			delete(n.has, job)
		}
		n.mu.Unlock()
		for _, l := range append(pulse.Orphans, pulse.Overdue...) {
			if rng.IntN(3) > 0 { // sometimes whoever should see to it dies over it
				c.giveUp(t, n, l.LeaseRef)
			}
		}
	}
}

// audit holds what the store says against the maximum.
func (c *chaos) audit(t *testing.T, n *chaosNode, o store.Occupancy) {
	if o.InFlight() > n.slots {
		t.Errorf("%s is oversold: %+v on %d slots", n.id, o, n.slots)
	}
}

// giveUp is what whoever finds an unfinished job does: end it, then free its slot.
func (c *chaos) giveUp(t *testing.T, n *chaosNode, r core.LeaseRef) {
	a, err := c.h.Store.Apply(t.Context(), store.ApplyParams{Job: r.Job, Event: core.EventFail, AnyHolder: true, Reason: core.ReasonNodeLost})
	if err != nil {
		t.Errorf("give up %s: %v", r.Job, err)
		return
	}
	c.count(a.Outcome, r.Job)
	c.free(t, n, r)
}

// free releases a slot, striking it off the auditor's book first: from then on it may be granted again.
func (c *chaos) free(t *testing.T, n *chaosNode, r core.LeaseRef) {
	n.mu.Lock()
	delete(n.grants, r)
	delete(n.has, store.ActiveJob{Job: r.Job, Attempt: r.Attempt})
	n.mu.Unlock()
	if err := c.h.Store.Release(t.Context(), store.ReleaseParams{Lease: r}); err != nil {
		t.Errorf("release %v: %v", r, err)
	}
}

func (c *chaos) count(o store.Outcome, job core.JobID) {
	if o != store.Decided && (!c.h.Repeats || o != store.Repeated) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended++
	if o == store.Decided {
		c.decided[job]++
	}
}

// job is the life of one job as a dispatcher sees it, with a crash at a random point.
func (c *chaos) job(t *testing.T, rng *rand.Rand, id core.JobID) {
	crash := rng.IntN(12) // most points are past the end: no crash
	for range 1000 {
		if c.attempt(t, rng, id, c.nodes[rng.IntN(len(c.nodes))], crash) {
			return
		}
		c.h.Wait(time.Duration(rng.Int64N(int64(c.h.Timing.Presence / 20))))
	}
	t.Errorf("%s found no slot in a long time: slots are leaking", id)
}

// attempt tries one node and reports whether it had a slot.
func (c *chaos) attempt(t *testing.T, rng *rand.Rand, id core.JobID, n *chaosNode, crash int) bool {
	n.mu.Lock()
	on := n.node
	n.mu.Unlock()
	r := core.LeaseRef{Node: n.id, Job: id, Attempt: 1, Token: core.Token("t." + string(id))}

	began := time.Now()
	got, err := c.h.Store.Reserve(t.Context(), store.ReserveParams{
		Lease: r, Epoch: on.Epoch, Revision: on.Revision,
	})
	if err != nil {
		t.Errorf("reserve: %v", err)
		return true
	}
	if got.Verdict != store.OK {
		return false
	}
	c.granted(t, n, r, began)
	if crash > 0 {
		c.live(t, rng, n, r, core.Holder{Attempt: 1, Node: n.id, Epoch: on.Epoch}, crash)
	}
	return true
}

// live is what happens to a job that has a slot.
func (c *chaos) live(t *testing.T, rng *rand.Rand, n *chaosNode, r core.LeaseRef, holder core.Holder, crash int) {
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
	n.mu.Lock() // the node has it now
	n.has[store.ActiveJob{Job: id, Attempt: 1}] = true
	n.mu.Unlock()
	if crash == 2 {
		c.forget(n, id, rng)
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
		c.forget(n, id, rng)
		return
	}
	a, err := c.h.Store.Apply(t.Context(), store.ApplyParams{Job: id, Event: core.EventDone, Holder: holder})
	if err != nil {
		t.Errorf("done: %v", err)
		return
	}
	c.count(a.Outcome, id)
	n.mu.Lock()
	delete(n.has, store.ActiveJob{Job: id, Attempt: 1})
	n.mu.Unlock()
	if crash == 4 {
		return
	}
	c.free(t, n, r)
	if crash == 5 {
		c.free(t, n, r) // and once more
	}
}

// granted enters a grant into the auditor's book and checks that there was room for it. A grant is in the
// book from when it was made until its release begins or its TTL has passed since its last write, so the
// book never holds more than the store may.
func (c *chaos) granted(t *testing.T, n *chaosNode, r core.LeaseRef, began time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	live := 0
	for other, at := range n.grants {
		job := store.ActiveJob{Job: other.Job, Attempt: other.Attempt}
		switch {
		case now.Sub(at) < c.h.Timing.Presence-c.h.Slack && at.Before(began):
			live++
		case n.lists && n.has[job]:
			live++ // the node says it has it: no clock can free it
		}
	}
	if live >= n.slots {
		t.Errorf("%s was granted a lease beside %d live ones on %d slots", n.id, live, n.slots)
	}
	n.grants[r] = now
}

// forget is a node that loses a job, or finishes it when nobody is there to hear.
func (c *chaos) forget(n *chaosNode, id core.JobID, rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		n.mu.Lock()
		delete(n.has, store.ActiveJob{Job: id, Attempt: 1})
		n.mu.Unlock()
	}
}
