package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

var (
	stressOperations = flag.Int64("stress-operations", 12_000, "the minimum number of store calls of TestStressWithKilledSchedulers")
	stressKills      = flag.Int("stress-kills", 12, "the minimum number of schedulers that TestStressWithKilledSchedulers kills")
)

const (
	stressNodes   = 16
	stressClients = 24
)

// stressTest is the state of the test process: it runs the clients and the nodes, kills schedulers, and audits.
type stressTest struct {
	t           *testing.T
	server      *redistest.Server
	prefix      string
	store       *redisstore.Store // for reads, and for heartbeats while there is no scheduler
	processes   *processGroup
	audit       *auditor
	nodes       []*stressNode
	faultless   atomic.Bool     // nodes finish every job
	phase       context.Context // outcomes when the schedulers of the phase are stopped
	jobsOnNodes sync.WaitGroup

	mu       sync.Mutex
	jobs     []core.JobID // that were submitted
	accepted map[core.JobID]bool
}

// TestStressWithKilledSchedulers runs schedulers in processes of their own, which share nodes and jobs, and kills them at random times: no
// node may be oversold, no slot may leak, and no job may have two outcomes. It does not run in parallel with other tests, because it
// depends on real time. In full:
//
//	go test -v -run TestStressWithKilledSchedulers ./internal/store/redisstore -stress-operations 1000000 -stress-kills 500 -timeout 60m
func TestStressWithKilledSchedulers(t *testing.T) {
	began := time.Now()
	c := newStressTest(t)
	kills := c.killSchedulers()
	c.waitForFreeSlots("all schedulers were killed")
	c.finishJobs()
	outcomes := c.verify()
	c.waitForFreeSlots("every job has ended")
	for job, e := range c.verify() {
		if outcomes[job] != e {
			c.audit.reportDouble("%s had the outcome %+v and later %+v", job, outcomes[job], e)
		}
	}
	c.report(kills, outcomes, time.Since(began))
}

func newStressTest(t *testing.T) *stressTest {
	c := &stressTest{t: t, server: redistest.Start(t), audit: newAuditor(t), accepted: make(map[core.JobID]bool)}
	c.store = open(t, c.server.URL(), func(o *redisstore.Options) {
		o.Timing, o.Timeout = stressTiming, 10*time.Second
		c.prefix = o.Prefix
	})
	c.processes = newProcessGroup(t, c.server.URL(), c.prefix, c.onMessage, c.onAssign)
	for i := range stressNodes {
		n := &stressNode{test: c, id: core.NodeID(fmt.Sprintf("node-%d", i)), slots: 1 + i%5, jobs: make(map[store.ActiveJob]*runningJob)}
		r, err := c.store.Register(t.Context(), store.RegisterParams{
			Node: declaredNode(n.id, n.slots), Load: core.UnknownLoad, Activity: store.Activity{Lists: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		n.epoch = r.Node.Epoch
		c.nodes = append(c.nodes, n)
	}
	return c
}

func (c *stressTest) node(id core.NodeID) *stressNode {
	for _, n := range c.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// onMessage handles a report of a scheduler.
func (c *stressTest) onMessage(_ *schedulerProcess, n rpcMessage) {
	switch n.Kind {
	case "ended":
		c.audit.recordOutcome(n.Job, outcome{State: n.Result, Node: n.Node, Attempt: n.Attempt, Version: n.Version}, n.Decided)
	case "stop":
		c.node(n.Node).stop(store.ActiveJob{Job: n.Job, Attempt: n.Attempt})
	case "error":
		c.t.Error(n.Result)
	}
}

// onAssign handles the delivery of a job to a node.
func (c *stressTest) onAssign(n rpcMessage) rpcMessage {
	return rpcMessage{Result: c.node(n.Node).assign(n)}
}

// killSchedulers runs the clients until there were enough operations and kills, and outcomes by killing all schedulers at once. It returns how
// many were killed.
func (c *stressTest) killSchedulers() (kills int) {
	ctx, stop := c.beginPhase()
	defer stop()
	var clients sync.WaitGroup
	for i := range stressClients {
		clients.Go(func() { c.runClient(ctx, i) })
	}
	gap := float64(*stressOperations) / float64(*stressKills)
	for next := gap * rand.Float64(); c.processes.operations() < *stressOperations || kills < *stressKills; {
		if !run.Sleep(c.t.Context(), rand.N(4*time.Millisecond)) || c.t.Failed() {
			break
		}
		if float64(c.processes.operations()) >= next {
			c.processes.kill(c.processes.pick())
			kills++
			next += gap * (0.5 + rand.Float64())
		}
	}
	c.processes.stopAll()
	stop()
	clients.Wait()
	return kills + processCount
}

// beginPhase starts a phase with schedulers. The returned function outcomes it, after the schedulers were stopped.
func (c *stressTest) beginPhase() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	c.phase = ctx
	c.processes.start()
	var others sync.WaitGroup
	others.Go(func() { c.auditNodes(ctx) })
	for _, n := range c.nodes {
		others.Go(func() { n.sendHeartbeats(ctx) })
	}
	return ctx, sync.OnceFunc(func() {
		cancel()
		c.processes.stopAll()
		others.Wait()
		c.jobsOnNodes.Wait()
	})
}

// runClient submits one job after the other. When its scheduler is killed it repeats the request; some requests go to two schedulers at
// once, and some jobs are cancelled.
func (c *stressTest) runClient(ctx context.Context, number int) {
	for i := 0; ctx.Err() == nil; i++ {
		id := core.JobID(fmt.Sprintf("job-%d-%d", number, i))
		c.mu.Lock()
		c.jobs = append(c.jobs, id)
		c.mu.Unlock()
		var duplicate sync.WaitGroup
		if rand.IntN(8) == 0 {
			duplicate.Go(func() { c.submit(ctx, id) })
		}
		accepted := c.submit(ctx, id)
		if accepted && rand.IntN(12) == 0 {
			run.Sleep(ctx, rand.N(5*time.Millisecond))
			c.processes.call(rpcMessage{Kind: "cancel", Job: id})
		}
		duplicate.Wait()
	}
}

func (c *stressTest) submit(ctx context.Context, id core.JobID) bool {
	for ctx.Err() == nil {
		a, ok := c.processes.call(rpcMessage{Kind: "submit", Job: id})
		if ok && a.Result == "accepted" {
			c.mu.Lock()
			c.accepted[id] = true
			c.mu.Unlock()
			return true
		}
		run.Sleep(ctx, rand.N(30*time.Millisecond))
	}
	return false
}

// waitForFreeSlots checks that slots do not leak: without schedulers, the nodes list no jobs, and within one TTL and a second every slot
// must be free. If the machine is so busy that a heartbeat is late, what it renews is kept longer by that time.
func (c *stressTest) waitForFreeSlots(when string) {
	for _, n := range c.nodes {
		n.mu.Lock()
		clear(n.jobs)
		clear(n.unheld)
		n.registering = false
		n.mu.Unlock()
	}
	const every = 50 * time.Millisecond
	until := time.Now().Add(stressTiming.Presence + time.Second)
	for last := time.Now(); time.Now().Before(until); last = time.Now() {
		run.Sleep(c.t.Context(), every)
		for _, n := range c.nodes {
			c.emptyHeartbeat(n)
		}
		if c.checkFreeSlots(func(*stressNode, string) {}) {
			return
		}
		until = until.Add(max(0, time.Since(last)-2*every))
	}
	c.checkFreeSlots(func(n *stressNode, slot string) {
		c.audit.reportLeak("%s, %v after %s: %s", n.id, stressTiming.Presence+time.Second, when, slot)
	})
}

// checkFreeSlots reports whether every slot is free, and calls report for each that is not.
func (c *stressTest) checkFreeSlots(report func(n *stressNode, slot string)) bool {
	free := true
	for _, n := range c.nodes {
		live, err := liveLeases(c.server, c.prefix, n.id)
		status, err2 := store.ReadNode(c.t.Context(), c.store, n.id)
		if err := errors.Join(err, err2); err != nil {
			c.t.Fatal(err)
		}
		for range max(len(live), status.Reserved+status.Running) {
			free = false
			report(n, fmt.Sprintf("%+v, %v", status.Occupancy, live))
		}
	}
	return free
}

// emptyHeartbeat sends a heartbeat without jobs and ignores the result.
func (c *stressTest) emptyHeartbeat(n *stressNode) {
	n.seq++
	p, err := c.store.Heartbeat(c.t.Context(), store.HeartbeatParams{
		Node: n.id, Seq: n.seq, Load: core.UnknownLoad, Activity: store.Activity{Lists: true},
	})
	if err != nil || p.Verdict != store.OK {
		c.t.Fatalf("heartbeat of %s: %v, %v", n.id, p.Verdict, err)
	}
	n.epoch = p.Node.Epoch
}

// finishJobs runs new schedulers until every job has ended. They find the jobs only through the nodes' heartbeats.
func (c *stressTest) finishJobs() {
	c.t.Helper()
	c.faultless.Store(true)
	_, stop := c.beginPhase()
	defer stop()
	deadline := time.Now().Add(time.Minute)
	open := c.jobs
	for {
		open = c.unfinished(open)
		busy := 0
		for _, n := range c.nodes {
			n.mu.Lock()
			busy += len(n.jobs)
			n.mu.Unlock()
		}
		if len(open) == 0 && busy == 0 {
			return
		}
		if !run.Sleep(c.t.Context(), 100*time.Millisecond) || time.Now().After(deadline) {
			c.t.Errorf("%d jobs do not end, such as %v; the nodes have %d", len(open), open[:min(5, len(open))], busy)
			return
		}
	}
}

// unfinished returns the jobs whose records are not terminal.
func (c *stressTest) unfinished(jobs []core.JobID) []core.JobID {
	var open []core.JobID
	for id, job := range c.records(jobs) {
		if !job.State.Terminal() {
			open = append(open, id)
		}
	}
	return open
}

// records reads the records of jobs that have one.
func (c *stressTest) records(jobs []core.JobID) map[core.JobID]*core.Job {
	c.t.Helper()
	var mu sync.Mutex
	found := make(map[core.JobID]*core.Job)
	var readers sync.WaitGroup
	for chunk := range slices.Chunk(jobs, max(1, (len(jobs)+31)/32)) {
		readers.Go(func() {
			for _, id := range chunk {
				job, err := c.store.Get(c.t.Context(), id)
				if errors.Is(err, store.ErrNoJob) {
					continue
				}
				if err != nil {
					c.t.Errorf("record of %s: %v", id, err)
					return
				}
				mu.Lock()
				found[id] = job
				mu.Unlock()
			}
		})
	}
	readers.Wait()
	return found
}

// verify compares every record with what the schedulers and the nodes have reported, and returns the outcomes.
func (c *stressTest) verify() map[core.JobID]outcome {
	c.t.Helper()
	jobs := c.records(c.jobs)
	outcomes := make(map[core.JobID]outcome, len(jobs))
	for id, job := range jobs {
		e := outcome{State: job.State.String(), Node: job.Node, Attempt: job.Attempt, Version: job.Version}
		outcomes[id] = e
		c.audit.recordOutcome(id, e, false)
		reported, acknowledged := c.audit.results[id]
		got := strings.Trim(string(job.Result), `"`)
		switch {
		case !job.State.Terminal():
			c.t.Errorf("%s is still %s", id, job.State)
		case acknowledged && (job.State != core.StateDone || got != reported):
			c.audit.reportDouble("the result of %s was accepted from %s, and its outcome is %+v with %q", id, reported, e, got)
		case job.State == core.StateDone && got != resultOf(job.Node, job.Attempt):
			c.audit.reportDouble("%s has the outcome %+v with the result of %q", id, e, got)
		}
	}
	for _, id := range c.jobs {
		if _, kept := outcomes[id]; !kept && (c.accepted[id] || c.audit.outcomes[id] != outcome{}) {
			c.t.Errorf("%s was accepted and has no record", id)
		}
	}
	return outcomes
}

// report logs the numbers, and fails the test if it proves nothing.
func (c *stressTest) report(kills int, outcomes map[core.JobID]outcome, took time.Duration) {
	c.t.Helper()
	states := make(map[string]int)
	attempts := 0
	for _, e := range outcomes {
		states[e.State]++
		if e.Attempt > 1 {
			attempts++
		}
	}
	var counts []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		counts = append(counts, fmt.Sprintf("%d %s", states[state], state))
	}
	operations := c.processes.operations()
	c.t.Logf("%d operations, %d kills, %d oversold, %d leaked, %d double; %d schedulers, %d jobs (%s; %d moved) in %v",
		operations, kills, c.audit.oversold, c.audit.leaked, c.audit.double, processCount, len(outcomes), strings.Join(counts, ", "), attempts, took.Round(time.Second))
	if operations < *stressOperations || kills < *stressKills {
		c.t.Errorf("%d operations and %d kills, want %d and %d", operations, kills, *stressOperations, *stressKills)
	}
	full := 0
	for _, n := range c.nodes {
		if n.maxRunning == n.slots {
			full++
		}
	}
	if full < len(c.nodes)/2 {
		c.t.Errorf("only %d of %d nodes were ever full: the test proves nothing", full, len(c.nodes))
	}
}
