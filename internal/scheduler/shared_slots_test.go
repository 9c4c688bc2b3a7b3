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

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

var sharedJobs = flag.Int("shared-jobs", 3000, "how many jobs TestNoRefusalWhileASlotIsFree sends")

const (
	crewNodes   = 100
	crewSlots   = 4
	outstanding = crewNodes * crewSlots * 85 / 100
)

// crew is nodes in this process that confirm each job, work on it for a while and bring its result, each to any
// instance.
type crew struct {
	t     *testing.T
	world world
	life  context.Context
	work  sync.WaitGroup
	hands map[core.NodeID]*crewNode
	ended sync.Map     // by job: a channel that is closed when its result was taken
	busy  atomic.Int64 // for how long slots were taken, added up
}

// crewNode is what one of them has in hand, had at most, and had altogether.
type crewNode struct{ now, most, total atomic.Int64 }

// Deliver implements dispatch.Transport.
func (c *crew) Deliver(_ context.Context, to *core.Node, a *wire.Assignment) error {
	n := c.hands[to.ID]
	n.total.Add(1)
	now := n.now.Add(1)
	for most := n.most.Load(); now > most && !n.most.CompareAndSwap(most, now); most = n.most.Load() {
	}
	c.work.Go(func() { c.do(n, a) })
	return nil
}

// Cancel implements dispatch.Transport.
func (*crew) Cancel(context.Context, core.NodeID, core.JobID, int) {}

// do takes half a second on average.
func (c *crew) do(n *crewNode, a *wire.Assignment) {
	began := time.Now()
	r := dispatch.Report{Job: core.JobID(a.JobID), Holder: core.Holder{Attempt: a.AttemptID, Node: core.NodeID(a.NodeID)}}
	c.say("ack", func() error { return c.world.any().Jobs.Ack(c.life, r) })
	backoff.Sleep(c.life, 50*time.Millisecond+rand.N(900*time.Millisecond))
	n.now.Add(-1)
	c.say("done", func() error { return c.world.any().Jobs.Done(c.life, r, nil) })
	c.busy.Add(int64(time.Since(began)))
	if ended, ok := c.ended.LoadAndDelete(r.Job); ok {
		close(ended.(chan struct{}))
	}
}

// say repeats a report until it is answered.
func (c *crew) say(what string, report func() error) {
	for {
		err := report()
		var e *wire.Error
		if err == nil || c.life.Err() != nil {
			return
		}
		if !errors.As(err, &e) || !e.Code.Retryable() {
			c.t.Errorf("%s: %v", what, err)
			return
		}
		backoff.SleepJitter(c.life, 20*time.Millisecond, 0.5)
	}
}

// TestNoRefusalWhileASlotIsFree keeps two instances at 85 % of what the fleet can take: nobody is refused, the ledger is
// asked little more than once for each job, and equal nodes are chosen equally.
func TestNoRefusalWhileASlotIsFree(t *testing.T) {
	cfg := config.Default()
	c := &cfg.Scheduler
	c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 600_000, 600_000 // these nodes send no heartbeats
	c.Dispatch.ACKTimeoutMS, c.Dispatch.AttemptTimeoutMS, c.Dispatch.JobTimeoutMS = 60_000, 120_000, 180_000
	c.TaskBinding.ReservedTTLSeconds = 61
	team := &crew{t: t, hands: make(map[core.NodeID]*crewNode)}
	for i := range crewNodes {
		team.hands[core.NodeID(fmt.Sprintf("n%02d", i))] = &crewNode{}
	}
	var stop context.CancelFunc
	team.life, stop = context.WithCancel(context.WithoutCancel(t.Context()))
	team.world = share(t, redistest.Start(t).URL(), cfg, team)
	t.Cleanup(team.work.Wait)
	t.Cleanup(stop)
	w := team.world
	slots, url := crewSlots, "http://127.0.0.1:9/jobs"
	var ids []core.NodeID
	for id := range team.hands {
		ids = append(ids, id)
		p := nodes.Patch{Semantic: core.LangSet{"en", "zh"}, MaxJobs: &slots, Callback: &url}
		insist(t, func() error {
			_, err := w.any().Nodes.Register(t.Context(), id, p, store.Activity{})
			return err
		})
	}
	took(t, "both instances to see the fleet", patience, func() bool { return w.sees(ids...) })

	began := time.Now()
	all := team.send(*sharedJobs)
	elapsed := time.Since(began)

	reserves := 0
	verdicts := w.counted(t, "lingua_reserve_total", "verdict")
	for _, n := range verdicts {
		reserves += n
	}
	var totals []int
	most := int64(0)
	for _, n := range team.hands {
		totals = append(totals, int(n.total.Load()))
		most = max(most, n.most.Load())
	}
	chi, limit := chiSquare(totals)
	perJob := float64(reserves) / float64(max(all.accepted, 1))
	t.Logf("%d jobs in %v, %d outstanding on %d slots, %.0f %% of them taken on average: refused %v, failed %v; %.3f reservations per job (%v); χ² %.1f of at most %.1f; most in one node's hands %d of %d",
		all.accepted, elapsed.Round(time.Millisecond), outstanding, crewNodes*crewSlots,
		100*time.Duration(team.busy.Load()).Seconds()/elapsed.Seconds()/(crewNodes*crewSlots),
		all.refused, all.failed, perJob, verdicts, chi, limit, most, crewSlots)
	late := all.refused[wire.SchedulerDependencyDown] // the machine is too busy for Redis to answer in time
	delete(all.refused, wire.SchedulerDependencyDown)
	if len(all.refused) > 0 {
		t.Errorf("refused while slots were free: %v", all.refused)
	}
	if late == 0 && len(all.failed) > 0 {
		t.Errorf("accepted and given up: %v", all.failed)
	}
	if late <= all.accepted/1000 && perJob > 1.25 {
		t.Errorf("%.3f reservations per job, want at most 1.25: %v", perJob, verdicts)
	}
	if chi > limit {
		t.Errorf("equal nodes got unequal shares: χ² %.1f, want at most %.1f: %v", chi, limit, totals)
	}
	if most > crewSlots {
		t.Errorf("a node had %d jobs on %d slots", most, crewSlots)
	}
}

// sent is what became of the jobs.
type sent struct {
	mu       sync.Mutex
	accepted int
	refused  map[wire.Code]int
	failed   map[core.Reason]int // of the accepted ones
}

// send keeps as many jobs outstanding as there may be, half of them through each instance, until enough were sent. Who
// is refused tries again.
func (c *crew) send(jobs int) *sent {
	var next atomic.Int64
	all := &sent{refused: make(map[wire.Code]int), failed: make(map[core.Reason]int)}
	var clients sync.WaitGroup
	for i := range outstanding {
		in := c.world[i%len(c.world)]
		clients.Go(func() {
			for k := next.Add(1); k <= int64(jobs); k = next.Add(1) {
				c.see(in, utteranceOf(fmt.Sprintf("r%d", k)), all)
			}
		})
	}
	clients.Wait()
	return all
}

// see dispatches a job until it is accepted and waits for its end.
func (c *crew) see(in *instance, r dispatch.Request, all *sent) {
	id, ended := core.JobIDFor("", r.Request), make(chan struct{})
	c.ended.Store(id, ended)
	for {
		_, err := in.Jobs.Dispatch(c.life, r)
		if err == nil {
			break
		}
		var e *wire.Error
		errors.As(err, &e)
		all.mu.Lock()
		all.refused[e.Code]++
		all.mu.Unlock()
		backoff.SleepJitter(c.life, 20*time.Millisecond, 0.5)
	}
	reason := core.ReasonNone
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for going := true; going; {
		select {
		case <-ended:
			going = false
		case <-look.C: // no node will bring the result of a job that was given up
			job, err := in.Store.Get(c.life, id)
			if err == nil && job.State.Terminal() && job.State != core.StateDone {
				going, reason = false, job.Reason
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
