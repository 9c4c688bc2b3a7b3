package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

var (
	crowdOperations = flag.Int64("crowd-operations", 20_000, "how many calls to the store TestCrowd makes at least")
	crowdKills      = flag.Int("crowd-kills", 20, "how many schedulers TestCrowd kills at least")
)

const (
	crowdNodes   = 16
	crowdClients = 24
)

// crowd is the test's own process: it plays the clients and the nodes, kills schedulers, and audits.
type crowd struct {
	t      *testing.T
	server *redistest.Server
	prefix string
	store  *redisstore.Store // for what is looked at and kept alive while there is no scheduler
	crew   *crew
	book   *book
	nodes  []*crowdNode
	calm   atomic.Bool     // nodes do their jobs well
	phase  context.Context // ends with the schedulers of the phase
	works  sync.WaitGroup  // jobs on nodes

	mu     sync.Mutex
	jobs   []core.JobID // that were asked for
	placed map[core.JobID]bool
}

// TestCrowd lets schedulers, each a process of its own, share nodes and jobs, and kills them at random moments: no slot
// may be sold twice or lost, and no job may end twice. It runs alone, because what it waits for it waits for in
// earnest. In full:
//
//	go test -v -run TestCrowd ./internal/store/redisstore -crowd-operations 1000000 -crowd-kills 500 -timeout 60m
func TestCrowd(t *testing.T) {
	began := time.Now()
	c := newCrowd(t)
	kills := c.storm()
	c.silence("everybody was killed")
	c.recover()
	ends := c.verify()
	c.silence("every job has ended")
	for job, e := range c.verify() {
		if ends[job] != e {
			c.book.twice("%s ended as %+v and later as %+v", job, ends[job], e)
		}
	}
	c.report(kills, ends, time.Since(began))
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, server: redistest.Start(t), book: newBook(t), placed: make(map[core.JobID]bool)}
	c.store = open(t, c.server.URL(), func(o *redisstore.Options) {
		o.Timing, o.Timeout = crowdTiming, 10*time.Second
		c.prefix = o.Prefix
	})
	c.crew = newCrew(t, c.server.URL(), c.prefix, c.heard, c.answer)
	for i := range crowdNodes {
		n := &crowdNode{crowd: c, id: core.NodeID(fmt.Sprintf("node-%d", i)), slots: 1 + i%5, jobs: make(map[store.ActiveJob]*work)}
		r, err := c.store.Register(t.Context(), store.RegisterParams{
			Node: crowdDeclared(n.id, n.slots), Load: core.UnknownLoad, Activity: store.Activity{Lists: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.epoch = r.Node.Epoch
		c.nodes = append(c.nodes, n)
	}
	return c
}

func (c *crowd) node(id core.NodeID) *crowdNode {
	for _, n := range c.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// heard takes in what a scheduler tells.
func (c *crowd) heard(_ *member, n note) {
	switch n.Kind {
	case "ended":
		c.book.ended(n.Job, ending{State: n.Said, Node: n.Node, Attempt: n.Attempt, Version: n.Version}, n.Decided)
	case "stop":
		c.node(n.Node).stop(store.ActiveJob{Job: n.Job, Attempt: n.Attempt})
	case "trouble":
		c.t.Error(n.Said)
	}
}

// answer is what a node says to an assignment.
func (c *crowd) answer(n note) note { return note{Said: c.node(n.Node).assigned(n)} }

// storm runs until enough was done and enough schedulers were killed, and ends by killing all of them in the middle
// of what they do. It returns how many were killed.
func (c *crowd) storm() (kills int) {
	ctx, stop := c.begin()
	defer stop()
	var clients sync.WaitGroup
	for i := range crowdClients {
		clients.Go(func() { c.client(ctx, i) })
	}
	gap := float64(*crowdOperations) / float64(*crowdKills)
	for next := gap * rand.Float64(); c.crew.operations() < *crowdOperations || kills < *crowdKills; {
		if !backoff.Sleep(c.t.Context(), rand.N(4*time.Millisecond)) || c.t.Failed() {
			break
		}
		if float64(c.crew.operations()) >= next {
			c.crew.kill(c.crew.pick())
			kills++
			next += gap * (0.5 + rand.Float64())
		}
	}
	c.crew.dismiss()
	stop()
	clients.Wait()
	return kills + crewSize
}

// begin starts a phase in which there are schedulers. The returned function ends it, after they were dismissed.
func (c *crowd) begin() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	c.phase = ctx
	c.crew.fill()
	var others sync.WaitGroup
	others.Go(func() { c.audits(ctx) })
	for _, n := range c.nodes {
		others.Go(func() { n.beats(ctx) })
	}
	return ctx, sync.OnceFunc(func() {
		cancel()
		c.crew.dismiss()
		others.Wait()
		c.works.Wait()
	})
}

// client asks for one job after the other. One whose scheduler dies asks again, with the same request; some ask two
// schedulers at once; some change their minds.
func (c *crowd) client(ctx context.Context, number int) {
	for i := 0; ctx.Err() == nil; i++ {
		id := core.JobID(fmt.Sprintf("job-%d-%d", number, i))
		c.mu.Lock()
		c.jobs = append(c.jobs, id)
		c.mu.Unlock()
		var twin sync.WaitGroup
		if rand.IntN(8) == 0 {
			twin.Go(func() { c.submit(ctx, id) })
		}
		placed := c.submit(ctx, id)
		if placed && rand.IntN(12) == 0 {
			backoff.Sleep(ctx, rand.N(5*time.Millisecond))
			c.crew.ask(note{Kind: "cancel", Job: id})
		}
		twin.Wait()
	}
}

func (c *crowd) submit(ctx context.Context, id core.JobID) bool {
	for ctx.Err() == nil {
		a, ok := c.crew.ask(note{Kind: "submit", Job: id})
		if ok && a.Said == "placed" {
			c.mu.Lock()
			c.placed[id] = true
			c.mu.Unlock()
			return true
		}
		backoff.Sleep(ctx, rand.N(30*time.Millisecond))
	}
	return false
}

// silence is what comes after everybody was killed: the nodes say honestly that they have nothing, nobody does
// anything about it, and a second after the leases' time every slot is free. Should this machine be so busy that a
// heartbeat is late, what it renews lives longer by so much.
func (c *crowd) silence(when string) {
	for _, n := range c.nodes {
		n.mu.Lock()
		clear(n.jobs)
		clear(n.idle)
		n.away = false
		n.mu.Unlock()
	}
	const every = 50 * time.Millisecond
	until := time.Now().Add(crowdTiming.Presence + time.Second)
	for last := time.Now(); time.Now().Before(until); last = time.Now() {
		backoff.Sleep(c.t.Context(), every)
		for _, n := range c.nodes {
			c.aloneBeat(n)
		}
		until = until.Add(max(0, time.Since(last)-2*every))
	}
	for _, n := range c.nodes {
		living, err := livingLeases(c.server, c.prefix, n.id)
		status, err2 := c.store.Node(c.t.Context(), n.id)
		if err := errors.Join(err, err2); err != nil {
			c.t.Fatal(err)
		}
		if taken := max(len(living), status.Reserved+status.Running); taken > 0 {
			for range taken {
				c.book.leak("%s, %v after %s: %+v, %v", n.id, crowdTiming.Presence+time.Second, when, status.Occupancy, living)
			}
		}
	}
}

// aloneBeat is a heartbeat that nobody does anything about.
func (c *crowd) aloneBeat(n *crowdNode) {
	n.seq++
	p, err := c.store.Heartbeat(c.t.Context(), store.HeartbeatParams{
		Node: n.id, Seq: n.seq, Load: core.UnknownLoad, Activity: store.Activity{Lists: true},
	})
	if err != nil || p.Verdict != store.OK {
		c.t.Fatalf("heartbeat of %s: %v, %v", n.id, p.Verdict, err)
	}
	n.epoch = p.Node.Epoch
}
