package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// Outcomes of a job on a node that are not the code of an error.
const (
	accepted  = wire.Code("accepted")  // its result was accepted
	cancelled = wire.Code("cancelled") // the response to a heartbeat cancelled it
)

// httpNode does all that docs/http-nodes.md asks of a node, whatever happens to the schedulers: it lists every job until
// its result is answered, repeats every report to any instance until it is answered, and registers again when it is
// unknown. Unlike a simulated node it never gives up a job by itself, so the outcome of each job is known.
type httpNode struct {
	id      string
	slots   int
	cluster cluster
	work    func() time.Duration
	server  *httptest.Server
	ctx     context.Context
	tasks   sync.WaitGroup

	mu           sync.Mutex
	epoch        int64
	seq          uint64
	interval     time.Duration
	jobs         map[wire.ActiveJob]*nodeJob
	working      int // jobs that it runs, of those that it lists
	maxWorking   int
	refused      int // deliveries without a free slot
	outcomes     map[wire.ActiveJob]wire.Code
	reregistered int // registrations after the first
}

type nodeJob struct {
	cancel context.CancelFunc
	acked  bool
	worked bool // it is listed until its result is answered
}

// startNodes starts nodes and registers them.
func startNodes(t *testing.T, instances cluster, count, slots int, work func() time.Duration) nodeFleet {
	t.Helper()
	f := make(nodeFleet, count)
	for i := range f {
		f[i] = startNode(t, instances, fmt.Sprintf("node-%02d", i), slots, work)
	}
	waitUntil(t, "every instance to see every node", waitLimit, func() bool { return instances.allSee(f.ids()...) })
	return f
}

func startNode(t *testing.T, instances cluster, id string, slots int, work func() time.Duration) *httpNode {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	n := &httpNode{
		id: id, slots: slots, cluster: instances, work: work, ctx: ctx,
		jobs: make(map[wire.ActiveJob]*nodeJob), outcomes: make(map[wire.ActiveJob]wire.Code),
	}
	n.server = httptest.NewServer(http.HandlerFunc(n.handleDelivery))
	t.Cleanup(func() {
		stop()
		n.server.Close()
		n.tasks.Wait()
	})
	retryWhileDown(t, n.register)
	n.tasks.Go(n.sendHeartbeats)
	return n
}

// handleDelivery is the callback.
func (n *httpNode) handleDelivery(w http.ResponseWriter, r *http.Request) {
	var a wire.Assignment
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		http.Error(w, `{"error":"INVALID_REQUEST"}`, http.StatusBadRequest)
		return
	}
	job := wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}
	n.mu.Lock()
	defer n.mu.Unlock()
	_, has := n.jobs[job]
	switch {
	case n.ctx.Err() != nil:
		panic(http.ErrAbortHandler)
	case has:
		n.tasks.Go(func() { n.postUntilAnswered(n.ctx, "/v1/job/ack", n.reportOf(job)) })
		return
	case n.working >= n.slots:
		n.refused++
		http.Error(w, `{"error":"NODE_BUSY","detail":"no free slot"}`, http.StatusTooManyRequests)
		return
	}
	ctx, cancel := context.WithCancel(n.ctx)
	n.jobs[job] = &nodeJob{cancel: cancel}
	delete(n.outcomes, job)
	n.working++
	n.maxWorking = max(n.maxWorking, n.working)
	n.tasks.Go(func() { n.runJob(ctx, job) })
}

func (n *httpNode) reportOf(job wire.ActiveJob) wire.JobAckRequest {
	return wire.JobAckRequest{JobID: job.JobID, AttemptID: job.AttemptID, NodeID: n.id}
}

// runJob runs a job, acknowledges it meanwhile, and repeats its result until that is answered. The job is listed until
// then.
func (n *httpNode) runJob(ctx context.Context, job wire.ActiveJob) {
	work, drop := context.WithCancel(ctx)
	defer drop()
	dropped := make(chan wire.Code, 1)
	n.tasks.Go(func() {
		switch code := n.postUntilAnswered(work, "/v1/job/ack", n.reportOf(job)); code {
		case accepted:
			n.mu.Lock()
			if t := n.jobs[job]; t != nil {
				t.acked = true
			}
			n.mu.Unlock()
		case cancelled: // or finished before the ACK was answered
		default:
			dropped <- code // the node does not hold the job any more
			drop()
		}
	})
	done := run.Sleep(work, n.work())
	n.mu.Lock()
	n.working--
	n.jobs[job].worked = true
	n.mu.Unlock()
	if done {
		in := wire.JobDoneRequest{JobAckRequest: n.reportOf(job), Status: "ok", Result: json.RawMessage(`{"text_tgt":"…"}`)}
		n.recordOutcome(job, n.postUntilAnswered(ctx, "/v1/job/done", in))
		return
	}
	select {
	case code := <-dropped:
		n.recordOutcome(job, code)
	default:
		n.recordOutcome(job, cancelled)
	}
}

// recordOutcome records the outcome of a job and stops listing it.
func (n *httpNode) recordOutcome(job wire.ActiveJob, code wire.Code) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jobs[job].cancel()
	delete(n.jobs, job)
	n.outcomes[job] = code
}

// postUntilAnswered repeats a report until it is answered, and returns the code of the answer.
func (n *httpNode) postUntilAnswered(ctx context.Context, path string, in any) wire.Code {
	for {
		var ok wire.OKResponse
		err := n.cluster.anyInstance().peer.Post(ctx, path, in, &ok)
		var e *wire.Error
		switch {
		case err == nil:
			return accepted
		case errors.As(err, &e) && !e.Code.Retryable():
			return e.Code
		}
		if !run.SleepJitter(ctx, 100*time.Millisecond, 0.5) {
			return cancelled
		}
	}
}

func (n *httpNode) register() error {
	url := n.server.URL + "/jobs"
	in := wire.RegisterRequest{NodeID: n.id, Declaration: wire.Declaration{
		SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &n.slots, CallbackURL: &url, Active: n.activeJobs(),
	}}
	var out wire.RegisterResponse
	if err := n.cluster.anyInstance().peer.Post(n.ctx, "/v1/node/register", in, &out); err != nil {
		return err
	}
	n.mu.Lock()
	n.epoch, n.interval = out.Epoch, time.Duration(out.HeartbeatIntervalMS)*time.Millisecond
	n.mu.Unlock()
	n.cancelJobs(out.Cancel)
	return nil
}

func (n *httpNode) sendHeartbeats() {
	known := true
	for {
		n.mu.Lock()
		interval, epoch := n.interval, n.epoch
		n.seq++
		seq := n.seq
		n.mu.Unlock()
		if known && !run.SleepJitter(n.ctx, interval, 0.2) || n.ctx.Err() != nil {
			return
		}
		if !known {
			if n.register() == nil {
				known = true
				n.mu.Lock()
				n.reregistered++
				n.mu.Unlock()
			} else if !run.SleepJitter(n.ctx, interval/4, 0.5) {
				return
			}
			continue
		}
		in := wire.HeartbeatRequest{NodeID: n.id, Epoch: &epoch, HBSeq: &seq, Declaration: wire.Declaration{Active: n.activeJobs()}}
		var out wire.HeartbeatResponse
		err := n.cluster.anyInstance().peer.Post(n.ctx, "/v1/node/heartbeat", in, &out)
		var e *wire.Error
		switch {
		case err == nil:
			n.cancelJobs(out.Cancel)
		case errors.As(err, &e) && (e.Code == wire.NotFound || e.Code == wire.StaleEpoch):
			known = false
		}
	}
}

func (n *httpNode) activeJobs() []wire.ActiveAttempt {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]wire.ActiveAttempt, 0, len(n.jobs))
	for job := range n.jobs {
		list = append(list, wire.ActiveAttempt{ActiveJob: job})
	}
	return list
}

// cancelJobs stops cancelled jobs.
func (n *httpNode) cancelJobs(cancels []wire.ActiveJob) {
	for _, job := range cancels {
		n.mu.Lock()
		t := n.jobs[job]
		n.mu.Unlock()
		if t != nil {
			t.cancel()
		}
	}
}

// nodeFleet is all nodes of a test.
type nodeFleet []*httpNode

func (f nodeFleet) ids() []core.NodeID {
	ids := make([]core.NodeID, len(f))
	for i, n := range f {
		ids[i] = core.NodeID(n.id)
	}
	return ids
}

// heldJob is a job that a node has.
type heldJob struct {
	node  *httpNode
	job   wire.ActiveJob
	acked bool
}

// heldJobs returns every job that the nodes list now.
func (f nodeFleet) heldJobs() []heldJob {
	var all []heldJob
	for _, n := range f {
		n.mu.Lock()
		for job, t := range n.jobs {
			all = append(all, heldJob{n, job, t.acked})
		}
		n.mu.Unlock()
	}
	return all
}

// outcome returns the outcome of a job on its node; empty while the node has it.
func (h heldJob) outcome() wire.Code {
	h.node.mu.Lock()
	defer h.node.mu.Unlock()
	return h.node.outcomes[h.job]
}

// working reports whether the node works on a job.
func (h heldJob) working() bool {
	h.node.mu.Lock()
	defer h.node.mu.Unlock()
	job := h.node.jobs[h.job]
	return job != nil && !job.worked
}

func (h heldJob) String() string {
	return fmt.Sprintf("attempt %d of %s: %s; it was on %s, acknowledged: %v", h.job.AttemptID, h.job.JobID, h.outcome(), h.node.id, h.acked)
}

// formatAttempts formats the attempts of a job.
func formatAttempts(job *wire.Job) string {
	history := ""
	for _, a := range job.Attempts {
		history += fmt.Sprintf("[%d at %s %s]", a.AttemptID, a.NodeID, a.Reason)
	}
	return history
}

// countOutcomes counts the outcomes of jobs.
func countOutcomes(held []heldJob) map[wire.Code]int {
	counts := make(map[wire.Code]int)
	for _, h := range held {
		counts[h.outcome()]++
	}
	return counts
}

// refusedDeliveries returns how many deliveries came to nodes without a free slot. It also checks that no node ran more jobs
// than it has slots, which the node itself prevents.
func (f nodeFleet) refusedDeliveries(t *testing.T) int {
	t.Helper()
	refused := 0
	for _, n := range f {
		n.mu.Lock()
		refused += n.refused
		if n.maxWorking > n.slots {
			t.Errorf("%s ran %d jobs on %d slots", n.id, n.maxWorking, n.slots)
		}
		n.mu.Unlock()
	}
	return refused
}

// historyOf returns what the nodes know of a job.
func (f nodeFleet) historyOf(id string) string {
	history := ""
	for _, n := range f {
		n.mu.Lock()
		for job, code := range n.outcomes {
			if job.JobID == id {
				history += fmt.Sprintf(" attempt %d at %s: %s;", job.AttemptID, n.id, code)
			}
		}
		n.mu.Unlock()
	}
	return history
}
