package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// The jobs of a node whose connection is lost, or that is silent, continue, because it may come back with them. Meanwhile each instance
// looks for another node for the jobs that it runs there: a job moves if it gets a slot at once, and otherwise nothing changes. So it is
// not noticed by a job whose node comes back, and costs no attempt of a job that cannot move.
const (
	// lostMoveAfter is the time from the loss to the first try: nodes whose connections end together are seen as lost then, and those that
	// reconnect at once are not.
	lostMoveAfter = 50 * time.Millisecond
	lostInterval  = 250 * time.Millisecond // between two tries, which are at the same times for all nodes
	lostStoreRest = time.Second            // nothing is tried within this time after the store did not answer
)

// lostNodes are the nodes whose connection is lost or silent, whichever instance has it.
type lostNodes struct {
	mu      sync.Mutex
	nodes   map[core.NodeID]*lostNode
	added   chan struct{} // holds one element if a node was added since the loop looked
	running bool          // the loop runs
}

func newLostNodes() lostNodes {
	return lostNodes{nodes: make(map[core.NodeID]*lostNode), added: make(chan struct{}, 1)}
}

// lostNode is one node whose connection is lost.
type lostNode struct {
	since  time.Time     // when this instance learned of it
	due    fleet.Instant // when its jobs are tried next
	moving bool          // they are being tried
}

// ConnectionChanged records that a node has lost its connection, or has one again. It does not block.
func (d *Dispatcher) ConnectionChanged(id core.NodeID, lost bool) {
	d.runner.connectionChanged(id, lost)
}

func (r *runner) connectionChanged(id core.NodeID, lost bool) {
	l := &r.lost
	l.mu.Lock()
	defer l.mu.Unlock()
	if !lost {
		delete(l.nodes, id)
		return
	}
	l.nodes[id] = &lostNode{since: time.Now(), due: r.fleet.Now() + fleet.Instant(lostMoveAfter)}
	if l.running {
		select {
		case l.added <- struct{}{}:
		default:
		}
		return
	}
	l.running = r.tasks.Go(r.moveFromLost)
}

// since returns when this instance learned that the connection of a node is lost; zero if it is not.
func (l *lostNodes) since(id core.NodeID) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.nodes[id]; n != nil {
		return n.since
	}
	return time.Time{}
}

// moveFromLost tries to move the jobs of lost nodes until none is lost.
func (r *runner) moveFromLost(ctx context.Context) {
	for {
		due, next := r.dueLost()
		if len(due) > 0 {
			r.moveJobsOf(due)
		}
		if next == 0 {
			return
		}
		timer := time.NewTimer(time.Duration(next - r.fleet.Now()))
		select {
		case <-timer.C:
		case <-r.lost.added:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// dueLost returns the lost nodes whose jobs are to be tried now, and when it is to be called next; 0 if no node is lost.
func (r *runner) dueLost() (due map[core.NodeID][]*inFlightJob, next fleet.Instant) {
	l := &r.lost
	l.mu.Lock()
	defer l.mu.Unlock()
	due = make(map[core.NodeID][]*inFlightJob)
	now := r.fleet.Now()
	for id, n := range l.nodes {
		if !r.isLost(id) {
			delete(l.nodes, id)
			continue
		}
		if now >= n.due {
			n.due = (now/fleet.Instant(lostInterval) + 1) * fleet.Instant(lostInterval)
			if !n.moving {
				n.moving, due[id] = true, nil
			}
		}
		if next == 0 || n.due < next {
			next = n.due
		}
	}
	l.running = next != 0
	return due, next
}

// isLost reports whether a node counts as disconnected, so that its jobs may move early: after the grace period, or when the node is gone
// or removed, they move anyway.
func (r *runner) isLost(id core.NodeID) bool {
	n := r.fleet.Node(id)
	return n != nil && n.Declared().Disconnected && n.Declared().Health != core.HealthOffline
}

// moved records that the jobs of a node were tried.
func (l *lostNodes) moved(id core.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.nodes[id]; n != nil {
		n.moving = false
	}
}

// moveJobsOf tries to move the jobs of nodes, those of different nodes beside each other.
func (r *runner) moveJobsOf(lost map[core.NodeID][]*inFlightJob) {
	r.inFlight.each(func(f *inFlightJob) {
		if job := f.onNode(); job != nil {
			if jobs, due := lost[job.Node]; due {
				lost[job.Node] = append(jobs, f)
			}
		}
	})
	for id, jobs := range lost {
		if len(jobs) == 0 {
			r.lost.moved(id)
			continue
		}
		r.tasks.Go(func(ctx context.Context) {
			defer r.lost.moved(id)
			r.moveJobs(ctx, id, jobs)
		})
	}
}

// onNode returns the record of a job that was delivered to a node; nil if there is none now.
func (f *inFlightJob) onNode() *core.Job {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.selecting || f.phase == phasePlacing {
		return nil
	}
	return f.job
}

// moveJobs tries to move jobs of a lost node, each once. After one was refused, no other with the same requirements is tried.
func (r *runner) moveJobs(ctx context.Context, id core.NodeID, jobs []*inFlightJob) {
	moved, sign := 0, r.lastSign(id)
	defer func() {
		if moved > 0 && !sign.IsZero() {
			r.cfg.Events.Record(store.Event{
				Kind: store.EventJobsMoved, Node: id, Tenant: r.fleet.TenantOf(id), Jobs: moved,
				Detail: time.Since(sign).Round(time.Millisecond).String() + " after its last sign",
			})
		}
	}()
	refused := make(map[string]bool) // by the class in which a job would wait
	for _, f := range jobs {
		if ctx.Err() != nil || r.draining.Load() || !r.isLost(id) || r.store.SinceError() < lostStoreRest {
			return
		}
		job := f.onNode()
		if job == nil || job.Node != id || !r.mayMove(job) {
			continue
		}
		j := r.resumeEntry(job, f)
		j.exclude(job.Holder, core.ReasonDisconnected)
		tried := append(j.excluded(), id)
		class := r.waiting.ClassID(&job.Spec, tried)
		if refused[class] {
			continue
		}
		done, free := j.moveIfFree(ctx, tried, sign)
		refused[class] = !free
		if done {
			moved++
		}
	}
}

// mayMove reports whether a job may leave a node that might still finish it.
func (r *runner) mayMove(job *core.Job) bool {
	return job.State == core.StateDispatched && !job.TestJob && job.Options.OnlyNode() == "" && job.Attempt <= r.cfg.MaxRetry &&
		r.cfg.HasAudio(job)
}

// lastSign returns when the last sign of life of a silent node came, or when this instance learned that the connection is lost; zero if the
// node is back.
func (r *runner) lastSign(id core.NodeID) time.Time {
	since := r.lost.since(id)
	n := r.fleet.Node(id)
	if n == nil || n.Declared().SilentSince == 0 {
		return since
	}
	if now := n.StoreTime(r.fleet.Now()); !now.IsZero() {
		return time.Now().Add(time.UnixMilli(n.Declared().SilentSince).Sub(now))
	}
	return since
}

// moveIfFree moves a job to another node than those that were tried, if one has a free slot that nobody waits for, and delivers it in the
// background. It reports whether it did, and whether there was such a slot. The slot is reserved before the record changes, in one step:
// until then the job stays with its node, whose result stands.
func (j *jobRun) moveIfFree(ctx context.Context, tried []core.NodeID, lastSign time.Time) (moved, free bool) {
	r, old := j.runner, j.job
	steps := j.trace.Steps()
	slot := slotRequest{
		job: old.ID, spec: &old.Spec, attempt: old.Attempt + 1, token: r.tokens.next(), tried: tried, firstPool: old.Pool.ID,
		recorded: true, steps: steps,
	}
	to, refusal := r.selector.selectNode(r.decide.Context(), &slot)
	if refusal != nil {
		return false, false
	}
	if steps != nil {
		defer steps.Export(j.trace.Retry(old.Token))
	}
	failure := attemptFailure{reason: core.ReasonDisconnected}
	if !j.moveTo(ctx, failure, old.Holder, to) {
		return false, true
	}
	r.metrics.Retries.WithLabelValues(string(failure.reason)).Inc()
	r.log.Info("job moved from a node that lost its connection, or is silent",
		"job_id", old.ID, "node_id", old.Node, "attempt_id", old.Attempt, "to", j.job.Node)
	r.tasks.Go(func(ctx context.Context) {
		if _, e := j.run(ctx); e == nil && !lastSign.IsZero() {
			r.metrics.MoveDelay.Observe(time.Since(lastSign).Seconds())
		}
	})
	return true, true
}

// StoreFailedRecently reports whether the store did not answer a moment ago: jobs of lost nodes are not moved then.
func (d *Dispatcher) StoreFailedRecently() bool { return d.store.SinceError() < lostStoreRest }
