package redisstore_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// stressNode is a node with the jobs that it really has. Its reports are true, and the auditor compares with them.
type stressNode struct {
	test  *stressTest
	id    core.NodeID
	slots int

	mu          sync.Mutex
	epoch       core.Epoch
	seq         uint64
	registering bool // a registration is in progress
	jobs        map[store.ActiveJob]*runningJob
	maxRunning  int                    // the highest number of running jobs so far
	unheld      map[string]unheldLease // live leases of jobs that it does not have, by member
	events      eventLog

	lastHeartbeat rpcMessage
}

// runningJob is one job on a node. A finished job is listed until its result is acknowledged.
type runningJob struct{ finished bool }

// running returns how many unfinished jobs the node has.
func (n *stressNode) running() int {
	count := 0
	for _, w := range n.jobs {
		if !w.finished {
			count++
		}
	}
	return count
}

// assign accepts or refuses a job. A job that arrives so late that its lease may be an orphan by now is refused: a real delivery has an
// earlier deadline, too.
func (n *stressNode) assign(a rpcMessage) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	job := store.ActiveJob{Job: a.Job, Attempt: a.Attempt}
	switch age := time.Since(time.UnixMilli(a.At)); {
	case n.registering || n.epoch != a.Epoch || age > stressTiming.ReservedTTL-200*time.Millisecond:
		return "refused"
	case n.jobs[job] != nil:
		n.test.audit.reportDouble("%s was assigned attempt %d of %s twice", n.id, a.Attempt, a.Job)
		return "refused"
	case n.running() >= n.slots:
		n.test.audit.reportOversold("%s was assigned %s beside %d running jobs on %d slots:\n%s", n.id, a.Job, n.running(), n.slots, &n.events)
		return "busy"
	case !n.test.faultless.Load() && rand.IntN(50) == 0:
		return "busy"
	}
	w := &runningJob{}
	n.jobs[job] = w
	n.events.add("accepts %v, requested at %s", job, time.UnixMilli(a.At).Format("05.000"))
	n.maxRunning = max(n.maxRunning, n.running())
	n.test.jobsOnNodes.Go(func() { n.runJob(job, w) })
	if !n.test.faultless.Load() && rand.IntN(100) == 0 {
		return "no_reply"
	}
	return "acked"
}

// removeJob removes a job.
func (n *stressNode) removeJob(job store.ActiveJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.jobs, job)
	n.events.add("removes %v", job)
}

// finish marks a job as finished, unless it was removed.
func (n *stressNode) finish(job store.ActiveJob, w *runningJob) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.jobs[job] != w {
		return false
	}
	w.finished = true
	n.events.add("finishes %v", job)
	return true
}

// stop removes cancelled jobs, after a delay as on a busy node.
func (n *stressNode) stop(jobs ...store.ActiveJob) {
	for _, job := range jobs {
		n.mu.Lock()
		n.events.add("has to cancel %v", job)
		n.mu.Unlock()
		n.test.jobsOnNodes.Go(func() {
			run.Sleep(n.test.phase, rand.N(300*time.Millisecond))
			n.removeJob(job)
		})
	}
}

// jobBehaviour is what a node does with a job: how long it takes, and what the node then reports.
type jobBehaviour struct {
	duration time.Duration
	report   string // empty: the node loses the job
}

// drawBehaviour returns a random behaviour. Some jobs fail, some are lost, some take longer than the TTL of leases, and some never end.
func (c *stressTest) drawBehaviour() jobBehaviour {
	f := jobBehaviour{duration: rand.N(12 * time.Millisecond), report: "done"}
	if c.faultless.Load() {
		return f
	}
	switch n := rand.IntN(1000); {
	case n < 1:
		f.duration = time.Hour
	case n < 6:
		f.duration = stressTiming.Presence + rand.N(stressTiming.Presence)
	case n < 26:
		f.duration = rand.N(stressTiming.Presence / 2)
	case n < 33:
		f.report = ""
	case n < 80:
		f.report = "fail"
	}
	return f
}

// runJob runs a job on the node and reports its result.
func (n *stressNode) runJob(job store.ActiveJob, w *runningJob) {
	ctx, f := n.test.phase, n.test.drawBehaviour()
	if !run.Sleep(ctx, f.duration) {
		return
	}
	if f.report == "" {
		n.removeJob(job)
		return
	}
	if !n.finish(job, w) {
		return
	}
	for {
		n.mu.Lock()
		epoch := n.epoch
		n.mu.Unlock()
		a, ok := n.test.processes.call(rpcMessage{Kind: f.report, Node: n.id, Epoch: epoch, Job: job.Job, Attempt: job.Attempt})
		switch {
		case !ok:
			return
		case a.Result == store.HolderStaleEpoch.String():
			if !run.Sleep(ctx, 20*time.Millisecond) { // until the reply to the registration arrives
				return
			}
			continue
		case a.Result == "stored" && f.report == "done":
			n.test.audit.recordResult(n.id, job)
		}
		n.removeJob(job)
		return
	}
}

// activeJobs lists every job of the node.
func (n *stressNode) activeJobs() []store.ActiveJob {
	list := make([]store.ActiveJob, 0, len(n.jobs))
	for job := range n.jobs {
		list = append(list, job)
	}
	return list
}

// sendHeartbeats sends heartbeats to random schedulers, and sometimes registers again.
func (n *stressNode) sendHeartbeats(ctx context.Context) {
	for run.SleepJitter(ctx, stressTiming.Presence/20, 0.3) {
		stale := false
		if n.test.faultless.Load() || rand.IntN(100) > 0 {
			var ok bool
			if stale, ok = n.sendHeartbeat(); !ok {
				return
			}
			if !stale {
				continue
			}
		}
		// A scheduler may be killed during a registration, and its command may arrive after the next registration: then the next
		// heartbeat is answered with STALE_EPOCH.
		if !n.registerAgain(!stale && rand.IntN(2) == 0) {
			return
		}
	}
}

// sendHeartbeat sends one heartbeat until a scheduler answers it. A scheduler that was killed may have sent it to the store, so the next
// one gets the same heartbeat. It reports whether the epoch is stale, and false when there are no schedulers.
func (n *stressNode) sendHeartbeat() (stale, ok bool) {
	var b rpcMessage
	var made time.Time
	for {
		m := n.test.processes.pick()
		if m == nil {
			return false, false
		}
		if time.Since(made) > stressTiming.Presence/3 {
			made = time.Now()
			n.mu.Lock()
			n.seq++
			b = rpcMessage{Kind: "heartbeat", Node: n.id, Epoch: n.epoch, Seq: n.seq, Jobs: n.activeJobs()}
			n.events.add("heartbeat %d of epoch %d lists %v", b.Seq, b.Epoch, b.Jobs)
			n.mu.Unlock()
			if rand.IntN(5) == 0 { // jobs that arrive meanwhile are not on its list
				run.Sleep(n.test.phase, rand.N(stressTiming.Presence/15))
			}
		}
		a, answered := m.call(b)
		n.mu.Lock()
		n.events.add("heartbeat %d is answered (%v): %s, cancel %v", b.Seq, answered, a.Result, a.Jobs)
		n.mu.Unlock()
		if !answered {
			continue
		}
		switch a.Result {
		case store.OK.String():
			n.recordList(b.Jobs, made)
			n.stop(a.Jobs...)
			if old := n.lastHeartbeat; rand.IntN(20) == 0 && old.Seq > 0 { // the last heartbeat is repeated, too late
				n.test.jobsOnNodes.Go(func() { n.test.processes.call(old) })
			}
			n.lastHeartbeat = b
		case store.StaleEpoch.String():
			return true, true
		default:
			n.test.t.Errorf("heartbeat %d of %s: %q", b.Seq, n.id, a.Result)
		}
		return false, true
	}
}

// registerAgain registers the node again, with its jobs or after it lost them all.
func (n *stressNode) registerAgain(losesJobs bool) bool {
	n.mu.Lock()
	n.registering = true
	if losesJobs {
		clear(n.jobs)
	}
	b := rpcMessage{Kind: "register", Node: n.id, Slots: n.slots, Jobs: n.activeJobs()}
	n.events.add("registers again with %v", b.Jobs)
	n.mu.Unlock()
	a, ok := n.test.processes.call(b)
	if !ok {
		return false
	}
	n.stop(a.Jobs...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events.add("is registered as epoch %d, cancel %v", a.Epoch, a.Jobs)
	n.registering, n.epoch = false, a.Epoch
	return true
}
