package scheduler_test

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

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

var sharedJobs = flag.Int("shared-jobs", 2000, "how many jobs TestNoRefusalWhileASlotIsFree sends")

const (
	localNodeCount = 100
	localSlots     = 4
	outstanding    = localNodeCount * localSlots * 85 / 100
)

// localNodes is nodes in this process that acknowledge each job, run it for a while and report its result, each to any
// instance.
type localNodes struct {
	t       *testing.T
	cluster cluster
	ctx     context.Context
	running sync.WaitGroup
	nodes   map[core.NodeID]*localNode
	ended   sync.Map     // by job: a channel that is closed when its result was accepted
	busy    atomic.Int64 // the sum of the times for which slots were taken
}

// localNode counts the jobs of one node: current, maximum and total.
type localNode struct{ now, max, total atomic.Int64 }

// deliver is fleet.Direct.
func (c *localNodes) deliver(_ context.Context, to *core.Node, _ *wire.Assignment, r dispatch.Report) error {
	n := c.nodes[to.ID]
	n.total.Add(1)
	now := n.now.Add(1)
	for old := n.max.Load(); now > old && !n.max.CompareAndSwap(old, now); old = n.max.Load() {
	}
	c.running.Go(func() { c.runJob(n, r) })
	return nil
}

// runJob runs a job, for a second on average.
func (c *localNodes) runJob(n *localNode, r dispatch.Report) {
	began := time.Now()
	c.retryReport("ack", func() error { return c.cluster.anyInstance().Jobs.Reports.Ack(c.ctx, r) })
	run.Sleep(c.ctx, 100*time.Millisecond+rand.N(1800*time.Millisecond))
	n.now.Add(-1)
	c.retryReport("done", func() error { return c.cluster.anyInstance().Jobs.Reports.Done(c.ctx, r, nil) })
	c.busy.Add(int64(time.Since(began)))
	if ended, ok := c.ended.LoadAndDelete(r.Job); ok {
		close(ended.(chan struct{}))
	}
}

// retryReport repeats a report until it is answered.
func (c *localNodes) retryReport(what string, report func() error) {
	for pause := retryPause(); ; pause.Wait(c.ctx) {
		err := report()
		var e *wire.Error
		if err == nil || c.ctx.Err() != nil {
			return
		}
		if !errors.As(err, &e) || !e.Code.Retryable() {
			c.t.Errorf("%s: %v", what, err)
			return
		}
	}
}

// retryPause is between the tries of one of several hundred callers: on a busy machine, in which Redis does not answer all of them in time, they
// must not be the reason for it.
func retryPause() *run.Backoff {
	return &run.Backoff{Min: 20 * time.Millisecond, Max: 2 * time.Second}
}

// TestNoRefusalWhileASlotIsFree keeps 85 % of the slots taken through two instances: no request is refused, the ledger is
// called little more than once for each job, and equal nodes are chosen equally.
func TestNoRefusalWhileASlotIsFree(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	c := &cfg.Scheduler
	withoutHeartbeats(&cfg)
	c.Dispatch.ACKTimeoutMS, c.Dispatch.AttemptTimeoutMS, c.Dispatch.JobTimeoutMS = 60_000, 120_000, 180_000
	c.TaskBinding.ReservedTTLSeconds = 61
	local := &localNodes{t: t, nodes: make(map[core.NodeID]*localNode)}
	for i := range localNodeCount {
		local.nodes[core.NodeID(fmt.Sprintf("n%02d", i))] = &localNode{}
	}
	var stop context.CancelFunc
	local.ctx, stop = context.WithCancel(context.WithoutCancel(t.Context()))
	local.cluster = startCluster(t, redistest.Start(t).URL(), cfg, fleet.Direct(local.deliver))
	t.Cleanup(local.running.Wait)
	t.Cleanup(stop)
	instances := local.cluster
	slots, url := localSlots, "http://127.0.0.1:9/jobs"
	var ids []core.NodeID
	for id := range local.nodes {
		ids = append(ids, id)
		p := core.Change{Declaration: core.Declaration{Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}}, MaxJobs: slots, Callback: url}}
		retryWhileDown(t, func() error {
			_, err := instances.anyInstance().Nodes.Register(t.Context(), id, p, nodes.Caller{}, store.Activity{})
			return err
		})
	}
	waitUntil(t, "both instances to see the fleet", waitLimit, func() bool { return instances.allSee(ids...) })

	began := time.Now()
	all := local.sendJobs(*sharedJobs)
	elapsed := time.Since(began)

	reserves := 0
	verdicts := instances.sumMetric(t, "lingua_reserve_total", "verdict")
	for _, n := range verdicts {
		reserves += n
	}
	var totals []int
	maxJobs := int64(0)
	for _, n := range local.nodes {
		totals = append(totals, int(n.total.Load()))
		maxJobs = max(maxJobs, n.max.Load())
	}
	chi, limit := chiSquare(totals)
	perJob := float64(reserves) / float64(max(all.accepted, 1))
	t.Logf("%d jobs in %v, %d outstanding on %d slots, %.0f %% of them taken on average: refused %v, failed %v; %.3f reservations per job (%v); χ² %.1f of at most %.1f; at most %d jobs on a node of %d slots",
		all.accepted, elapsed.Round(time.Millisecond), outstanding, localNodeCount*localSlots,
		100*time.Duration(local.busy.Load()).Seconds()/elapsed.Seconds()/(localNodeCount*localSlots),
		all.refused, all.failed, perJob, verdicts, chi, limit, maxJobs, localSlots)
	late := all.refused[wire.SchedulerDependencyDown] // the machine is too busy for Redis to answer in time
	delete(all.refused, wire.SchedulerDependencyDown)
	if len(all.refused) > 0 {
		t.Errorf("refused while slots were free: %v", all.refused)
	}
	if late == 0 && len(all.failed) > 0 {
		t.Errorf("accepted and failed: %v", all.failed)
	}
	if late <= all.accepted/1000 && perJob > 1.25 {
		t.Errorf("%.3f reservations per job, want at most 1.25: %v", perJob, verdicts)
	}
	if chi > limit {
		t.Errorf("equal nodes got unequal shares: χ² %.1f, want at most %.1f: %v", chi, limit, totals)
	}
	if maxJobs > localSlots {
		t.Errorf("a node had %d jobs on %d slots", maxJobs, localSlots)
	}
}

// sendResult counts the outcomes of the jobs.
type sendResult struct {
	mu       sync.Mutex
	accepted int
	refused  map[wire.Code]int
	failed   map[core.Reason]int // of the accepted ones
}

// sendJobs keeps a fixed number of jobs outstanding, half of them through each instance, until enough were sent. A client that
// is refused tries again.
func (c *localNodes) sendJobs(jobs int) *sendResult {
	var next atomic.Int64
	all := &sendResult{refused: make(map[wire.Code]int), failed: make(map[core.Reason]int)}
	var clients sync.WaitGroup
	for i := range outstanding {
		in := c.cluster[i%len(c.cluster)]
		clients.Go(func() {
			for k := next.Add(1); k <= int64(jobs); k = next.Add(1) {
				c.dispatchAndWait(in, requestFor(fmt.Sprintf("r%d", k)), all)
			}
		})
	}
	clients.Wait()
	return all
}

// dispatchAndWait dispatches a job until it is accepted and waits for its end.
func (c *localNodes) dispatchAndWait(in *instance, r dispatch.Request, all *sendResult) {
	id, ended := core.JobIDFor("", r.Request), make(chan struct{})
	c.ended.Store(id, ended)
	for pause := retryPause(); ; pause.Wait(c.ctx) {
		_, err := in.Jobs.Dispatch(c.ctx, r)
		if err == nil {
			break
		}
		var e *wire.Error
		errors.As(err, &e)
		all.mu.Lock()
		all.refused[e.Code]++
		all.mu.Unlock()
	}
	reason := core.ReasonNone
	check := time.NewTicker(time.Second)
	defer check.Stop()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-check.C: // a failed job has no result
			job, err := in.Store.Get(c.ctx, id)
			if err == nil && job.State.Terminal() && job.State != core.StateDone {
				running, reason = false, job.Reason
			}
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.accepted++
	if reason != core.ReasonNone {
		all.failed[reason]++
	}
}
