package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// CallbackOptions describes a callback node.
type CallbackOptions struct {
	ID          string
	API         func() *lab.API  // of the instance to which the next request goes
	Declaration wire.Declaration // MaxConcurrentJobs must be set

	// Work does a job and returns its text_tgt. A JobError is the reason of a job that fails. nil: a job takes no time.
	Work func(context.Context, *wire.Assignment) (string, error)
	// Busy makes the node reject a job as if it had no free slot. nil: it never does.
	Busy func(*wire.Assignment) bool
	// Intercept deals with a delivery in place of the node, and returns false if it did not. nil: it never does.
	Intercept func(http.ResponseWriter, *http.Request, *wire.Assignment) bool
	// OnEvent is called for what the node sees, with the lock of the node held. nil: nobody wants to know.
	OnEvent func(CallbackEvent)

	OmitsActive bool // it never lists its jobs
	Minimal     bool // it sends neither its load nor, with a report, its epoch
	// Patient makes the node work on a job before its acknowledgement is answered, and after the time of the attempt is over: then the
	// outcome of every job is known, whatever happens to the schedulers.
	Patient bool
}

// JobError is the reason for which a callback node fails a job.
type JobError string

func (e JobError) Error() string { return string(e) }

// The kinds of events of a callback node.
const (
	EventRegistered = "registered"
	EventAssigned   = "assigned"
	EventRejected   = "rejected"
	EventAcked      = "acked" // the acknowledgement was answered
	EventEnded      = "ended"
)

// CallbackEvent is what a callback node saw.
type CallbackEvent struct {
	Kind    string
	Job     wire.ActiveJob
	Working int   // at EventAssigned: the jobs that it works on, without this one
	Err     error // at EventEnded: why the result was not accepted
}

// CallbackStats is what a callback node has counted.
type CallbackStats struct {
	Registrations       int
	Accepted            int // jobs
	Rejected            int // jobs for which no slot was free, or that Busy rejected
	Working, MaxWorking int // jobs that it works on, now and at most
}

// HeldJob is a job whose result was not answered.
type HeldJob struct {
	wire.ActiveJob
	Acked   bool // the acknowledgement was answered
	Working bool
	cancel  context.CancelFunc
}

// CallbackNode is a node that receives its jobs over HTTP, and does all that docs/http-nodes.md asks of one: it lists each job until its
// result is answered, repeats a report until it is answered, and registers again when it is unknown.
type CallbackNode struct {
	CallbackOptions
	server       *http.Server
	ctx          context.Context
	stop         context.CancelFunc
	tasks        sync.WaitGroup
	heartbeatNow chan struct{} // requests a heartbeat before the next is due

	mu       sync.Mutex
	interval time.Duration
	epoch    int64
	seq      uint64
	draining bool
	held     map[wire.ActiveJob]*HeldJob
	outcomes map[wire.ActiveJob]error // of jobs that are not held any more
	stats    CallbackStats
}

// StartCallbackNode starts a node and registers it. It is an error if a scheduler refuses it.
func StartCallbackNode(ctx context.Context, options CallbackOptions) (*CallbackNode, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &CallbackNode{
		CallbackOptions: options, heartbeatNow: make(chan struct{}, 1),
		held: make(map[wire.ActiveJob]*HeldJob), outcomes: make(map[wire.ActiveJob]error),
	}
	n.ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	n.server = &http.Server{Handler: http.HandlerFunc(n.serveAssignment), ReadHeaderTimeout: 5 * time.Second}
	n.tasks.Go(func() { _ = n.server.Serve(l) }) // until Kill closes it
	n.Declaration.CallbackURL = new("http://" + l.Addr().String() + "/jobs")
	if err := n.register(ctx); err != nil {
		n.Kill()
		return nil, fmt.Errorf("register %s: %w", n.ID, err)
	}
	n.tasks.Go(n.sendHeartbeats)
	return n, nil
}

// Kill ends the node without a notice to the scheduler.
func (n *CallbackNode) Kill() {
	n.mu.Lock()
	n.stop() // no job starts after this
	n.mu.Unlock()
	_ = n.server.Close()
	n.tasks.Wait()
}

// Drain tells the scheduler that the node takes no more jobs, and waits until it has none. It is an error if it still has some after a
// time.
func (n *CallbackNode) Drain(timeout time.Duration) error {
	n.mu.Lock()
	n.draining = true
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(n.ctx, timeout)
	defer cancel()
	for {
		held := len(n.Held())
		if held == 0 {
			return nil
		}
		if !run.Sleep(ctx, 10*time.Millisecond) {
			return fmt.Errorf("%s still has %d jobs", n.ID, held)
		}
	}
}

// Stats returns what the node has counted so far.
func (n *CallbackNode) Stats() CallbackStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

// Held returns every job whose result was not answered.
func (n *CallbackNode) Held() []HeldJob {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]HeldJob, 0, len(n.held))
	for _, job := range n.held {
		list = append(list, *job)
	}
	return list
}

// Outcomes returns the outcome of every job that is not held any more: nil if its result was accepted.
func (n *CallbackNode) Outcomes() map[wire.ActiveJob]error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.outcomes)
}

// record passes an event on. The caller holds the lock.
func (n *CallbackNode) record(e CallbackEvent) {
	if n.OnEvent != nil {
		n.OnEvent(e)
	}
}

// serveAssignment is the callback: it receives a job.
func (n *CallbackNode) serveAssignment(w http.ResponseWriter, r *http.Request) {
	a := new(wire.Assignment)
	if err := json.NewDecoder(io.LimitReader(r.Body, wire.MaxBody)).Decode(a); err != nil {
		http.Error(w, `{"error":"INVALID_REQUEST"}`, http.StatusBadRequest)
		return
	}
	if n.Intercept != nil && n.Intercept(w, r, a) {
		return
	}
	key := wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}
	n.mu.Lock()
	defer n.mu.Unlock()
	job := n.held[key]
	working := n.stats.Working
	if job != nil && job.Working {
		working--
	}
	n.record(CallbackEvent{Kind: EventAssigned, Job: key, Working: working})
	switch {
	case n.ctx.Err() != nil:
		w.WriteHeader(http.StatusGone)
	case job != nil: // a repeated delivery is acknowledged again, and not started again
		n.tasks.Go(func() { _ = n.report(n.ctx, "ack", n.ack(key)) })
	case working >= *n.Declaration.MaxConcurrentJobs || n.Busy != nil && n.Busy(a):
		n.stats.Rejected++
		n.record(CallbackEvent{Kind: EventRejected, Job: key})
		http.Error(w, `{"error":"NODE_BUSY","detail":"no free slot"}`, http.StatusTooManyRequests)
	default:
		n.start(key, a)
	}
}

// start starts the work on a job. The caller holds the lock.
func (n *CallbackNode) start(key wire.ActiveJob, a *wire.Assignment) {
	limit := time.Duration(a.TimeoutMS) * time.Millisecond
	if n.Patient {
		limit = 24 * time.Hour // no test takes so long
	}
	ctx, cancel := context.WithTimeout(n.ctx, limit)
	n.held[key] = &HeldJob{ActiveJob: key, Working: true, cancel: cancel}
	delete(n.outcomes, key)
	n.stats.Accepted++
	n.stats.Working++
	n.stats.MaxWorking = max(n.stats.MaxWorking, n.stats.Working)
	n.tasks.Go(func() {
		defer cancel()
		err := n.runJob(ctx, key, a)
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.held, key)
		n.outcomes[key] = err
		n.record(CallbackEvent{Kind: EventEnded, Job: key, Err: err})
		if err != nil {
			n.requestHeartbeat() // the slot becomes free with a heartbeat that does not list the job
		}
	})
}

// runJob acknowledges a job, works on it and reports the outcome. It returns why the report was not accepted.
func (n *CallbackNode) runJob(ctx context.Context, key wire.ActiveJob, a *wire.Assignment) error {
	working, drop := context.WithCancelCause(ctx)
	defer drop(nil)
	answered := make(chan struct{})
	n.tasks.Go(func() {
		defer close(answered)
		if err := n.report(working, "ack", n.ack(key)); err != nil {
			drop(err) // the node does not hold the job any more
			return
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if job := n.held[key]; job != nil {
			job.Acked = true
		}
		n.record(CallbackEvent{Kind: EventAcked, Job: key})
	})
	if !n.Patient {
		<-answered
	}
	var text string
	var err error
	if n.Work != nil && working.Err() == nil {
		text, err = n.Work(working, a)
	}
	dropped := context.Cause(working)
	n.mu.Lock()
	n.stats.Working--
	n.held[key].Working = false
	n.mu.Unlock()
	var failure JobError
	switch {
	case dropped != nil:
		return dropped
	case errors.As(err, &failure):
		return n.report(ctx, "fail", wire.JobFailRequest{JobAckRequest: n.ack(key), Status: "error", Reason: string(failure)})
	case err != nil:
		return err
	}
	result, err := json.Marshal(map[string]string{"text_tgt": text})
	if err != nil {
		return err
	}
	return n.report(ctx, "done", wire.JobDoneRequest{JobAckRequest: n.ack(key), Status: "ok", Result: result})
}

// ack returns what every report about a job has.
func (n *CallbackNode) ack(key wire.ActiveJob) wire.JobAckRequest {
	r := wire.JobAckRequest{JobID: key.JobID, AttemptID: key.AttemptID, NodeID: n.ID}
	if !n.Minimal {
		n.mu.Lock()
		defer n.mu.Unlock()
		r.Epoch = new(n.epoch)
	}
	return r
}

// report sends a report until a repeat would not change the answer.
func (n *CallbackNode) report(ctx context.Context, what string, in any) error {
	retry := run.Backoff{Min: 10 * time.Millisecond, Max: 500 * time.Millisecond}
	for {
		err := n.API().Post(ctx, "/v1/job/"+what, in, new(wire.OKResponse))
		if err == nil || isFinal(err) || !retry.Wait(ctx) {
			return err
		}
	}
}

// isFinal reports whether an error is a refusal that a repeat would not change.
func isFinal(err error) bool {
	var refusal *wire.Error
	return errors.As(err, &refusal) && !refusal.Code.Retryable()
}

// register registers the node with the jobs that it has, until it is answered. It returns the refusal.
func (n *CallbackNode) register(ctx context.Context) error {
	retry := run.Backoff{Min: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	for {
		var out wire.RegisterResponse
		in := wire.RegisterRequest{NodeID: n.ID, Declaration: n.Declaration}
		n.mu.Lock()
		n.describe(&in.Declaration)
		n.mu.Unlock()
		err := n.API().Post(ctx, "/v1/node/register", in, &out)
		if err == nil {
			n.mu.Lock()
			n.epoch, n.interval = out.Epoch, time.Duration(out.HeartbeatIntervalMS)*time.Millisecond
			n.stats.Registrations++
			n.record(CallbackEvent{Kind: EventRegistered})
			n.mu.Unlock()
			n.cancelJobs(out.Cancel)
		}
		if err == nil || isFinal(err) || !retry.Wait(ctx) {
			return err
		}
	}
}

// describe sets what changes in the declaration of the node. The caller holds the lock.
func (n *CallbackNode) describe(d *wire.Declaration) {
	d.Health = "ready"
	if n.draining {
		d.Health = "draining"
	}
	if !n.OmitsActive {
		d.Active = make([]wire.ActiveAttempt, 0, len(n.held))
		for job := range n.held {
			d.Active = append(d.Active, wire.ActiveAttempt{ActiveJob: job})
		}
	}
}

// sendHeartbeats sends heartbeats until the node is killed, and registers again when the scheduler does not know the node.
func (n *CallbackNode) sendHeartbeats() {
	for n.waitHeartbeat() {
		in := n.heartbeat()
		var out wire.HeartbeatResponse
		err := n.API().Post(n.ctx, "/v1/node/heartbeat", in, &out)
		var refusal *wire.Error
		switch {
		case err == nil:
			n.cancelJobs(out.Cancel)
		case errors.As(err, &refusal) && (refusal.Code == wire.NotFound || refusal.Code == wire.StaleEpoch):
			_ = n.register(n.ctx) // if it is refused, so is the next heartbeat
		}
	}
}

func (n *CallbackNode) heartbeat() wire.HeartbeatRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seq++
	in := wire.HeartbeatRequest{NodeID: n.ID, Epoch: new(n.epoch), HBSeq: new(n.seq)}
	n.describe(&in.Declaration)
	if !n.Minimal {
		in.CurrentLoad = &wire.Load{GPU: new(0.8 * float64(n.stats.Working) / float64(max(*n.Declaration.MaxConcurrentJobs, 1)))}
	}
	return in
}

// waitHeartbeat waits until the next heartbeat is due. It returns false when the node is killed.
func (n *CallbackNode) waitHeartbeat() bool {
	n.mu.Lock()
	t := time.NewTimer(run.Jitter(n.interval, 0.2))
	n.mu.Unlock()
	defer t.Stop()
	select {
	case <-n.ctx.Done():
		return false
	case <-n.heartbeatNow:
	case <-t.C:
	}
	return true
}

// requestHeartbeat makes the next heartbeat due now.
func (n *CallbackNode) requestHeartbeat() {
	select {
	case n.heartbeatNow <- struct{}{}:
	default:
	}
}

// cancelJobs cancels jobs. One that is not held any more ended while the request was under way: the next heartbeat, which does not list it,
// frees its slot.
func (n *CallbackNode) cancelJobs(jobs []wire.ActiveJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range jobs {
		if job := n.held[key]; job != nil {
			job.cancel()
		} else {
			n.requestHeartbeat()
		}
	}
}
