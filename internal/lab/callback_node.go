package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// CallbackNodeOptions describes a simulated callback node.
type CallbackNodeOptions struct {
	ID                string
	Declaration       wire.Declaration
	JobDuration       func() time.Duration // how long a job takes; nil: no time
	HeartbeatInterval time.Duration        // 0: as the scheduler asks
	OmitsActive       bool                 // never lists its active jobs
	RejectsWhenFull   bool                 // rejects jobs beyond its slots with NODE_BUSY

	// The shares of jobs that the node accepts and never mentions again, fails, or rejects.
	Ignore, Fail, Reject float64
}

// NodeStats is what a node has counted.
type NodeStats struct {
	Active, MaxActive                         int // jobs now, and the maximum
	Accepted, Done, Failed, Rejected, Ignored int
	Fenced                                    int // reports that the scheduler refused
	Cancelled                                 int
	OverAssigned                              int // jobs that were assigned although no slot was free
}

// CallbackNode is a simulated node that receives jobs over HTTP.
type CallbackNode struct {
	options  CallbackNodeOptions
	api      *API
	slots    int
	epoch    int64
	interval time.Duration
	server   *http.Server
	stop     context.CancelFunc
	ctx      context.Context
	running  sync.WaitGroup

	mu     sync.Mutex
	active map[wire.ActiveJob]context.CancelFunc
	stats  NodeStats
	seq    uint64
	closed bool
}

// StartCallbackNode starts a node and registers it.
func StartCallbackNode(ctx context.Context, api *API, options CallbackNodeOptions) (*CallbackNode, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &CallbackNode{options: options, api: api, slots: *options.Declaration.MaxConcurrentJobs,
		active: make(map[wire.ActiveJob]context.CancelFunc)}
	n.ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	n.server = &http.Server{Handler: http.HandlerFunc(n.serveAssignment), ReadHeaderTimeout: 5 * time.Second}
	n.running.Go(func() { _ = n.server.Serve(l) })

	url := fmt.Sprintf("http://%s/jobs", l.Addr())
	n.options.Declaration.CallbackURL = &url
	in := wire.RegisterRequest{NodeID: options.ID, Declaration: n.options.Declaration}
	var out wire.RegisterResponse
	if err := api.Post(ctx, "/v1/node/register", in, &out); err != nil {
		n.Kill()
		return nil, fmt.Errorf("register %s: %w", options.ID, err)
	}
	n.epoch, n.interval = out.Epoch, options.HeartbeatInterval
	if n.interval == 0 {
		n.interval = time.Duration(out.HeartbeatIntervalMS) * time.Millisecond
	}
	n.running.Go(n.sendHeartbeats)
	return n, nil
}

// ID returns the id of the node.
func (n *CallbackNode) ID() string { return n.options.ID }

// Slots returns how many jobs the node accepts.
func (n *CallbackNode) Slots() int { return n.slots }

// Stats returns the counts so far.
func (n *CallbackNode) Stats() NodeStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stats.Active = len(n.active)
	return n.stats
}

// Kill ends the node without a notice to the scheduler.
func (n *CallbackNode) Kill() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.stop()
	_ = n.server.Close()
	n.running.Wait()
}

// serveAssignment is the callback: it receives a job.
func (n *CallbackNode) serveAssignment(w http.ResponseWriter, r *http.Request) {
	var a wire.Assignment
	body, err := io.ReadAll(io.LimitReader(r.Body, wire.MaxBody))
	if err != nil || json.Unmarshal(body, &a) != nil {
		http.Error(w, `{"error":"INVALID_REQUEST"}`, http.StatusBadRequest)
		return
	}
	job := wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}
	draw := rand.Float64()

	n.mu.Lock()
	_, known := n.active[job]
	switch {
	case n.closed:
		n.mu.Unlock()
		panic(http.ErrAbortHandler)
	case known:
		n.mu.Unlock()
		return
	case draw < n.options.Reject, n.options.RejectsWhenFull && len(n.active) >= n.slots:
		n.stats.Rejected++
		n.mu.Unlock()
		http.Error(w, `{"error":"NODE_BUSY","detail":"no free slot"}`, http.StatusTooManyRequests)
		return
	case draw < n.options.Reject+n.options.Ignore:
		n.stats.Ignored++
		n.mu.Unlock()
		return
	}
	ctx, cancel := context.WithTimeout(n.ctx, time.Duration(a.TimeoutMS)*time.Millisecond)
	n.active[job] = cancel
	n.stats.Accepted++
	n.stats.MaxActive = max(n.stats.MaxActive, len(n.active))
	n.running.Go(func() {
		defer cancel()
		n.runJob(ctx, &a, draw < n.options.Reject+n.options.Ignore+n.options.Fail)
	})
	n.mu.Unlock()
}

// runJob works on a job and reports the outcome.
func (n *CallbackNode) runJob(ctx context.Context, a *wire.Assignment, fails bool) {
	ack := wire.JobAckRequest{JobID: a.JobID, AttemptID: a.AttemptID, NodeID: n.options.ID, Epoch: &n.epoch}
	job := wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}
	var ok wire.OKResponse
	if err := n.api.PostRetry(ctx, "/v1/job/ack", ack, &ok); err != nil {
		n.removeJob(job, err)
		return
	}
	if n.options.JobDuration != nil {
		t := time.NewTimer(n.options.JobDuration())
		defer t.Stop()
		select {
		case <-ctx.Done():
			n.removeJob(job, ctx.Err())
			return
		case <-t.C:
		}
	}
	// From here on the slot is free for the node, whether or not the scheduler knows.
	n.removeJob(job, nil)
	if fails {
		in := wire.JobFailRequest{JobAckRequest: ack, Status: "error", Reason: "MODEL_LOAD_FAILED"}
		n.count(n.api.PostRetry(ctx, "/v1/job/fail", in, &ok), &n.stats.Failed)
		return
	}
	in := wire.JobDoneRequest{JobAckRequest: ack, Status: "ok", Result: json.RawMessage(`{"text_src":"…","text_tgt":"…"}`)}
	n.count(n.api.PostRetry(ctx, "/v1/job/done", in, &ok), &n.stats.Done)
}

// removeJob removes a job from the active ones.
func (n *CallbackNode) removeJob(job wire.ActiveJob, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.active, job)
	n.countRefusal(err)
}

func (n *CallbackNode) count(err error, counter *int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		*counter++
		return
	}
	n.countRefusal(err)
}

func (n *CallbackNode) countRefusal(err error) {
	var refusal *wire.Error
	if errors.As(err, &refusal) && wirespec.Status(refusal.Code)/100 == 4 {
		n.stats.Fenced++
	}
}

// sendHeartbeats sends heartbeats until the node is killed.
func (n *CallbackNode) sendHeartbeats() {
	for {
		if !run.SleepJitter(n.ctx, n.interval, 0.2) {
			return
		}
		var out wire.HeartbeatResponse
		if err := n.api.Post(n.ctx, "/v1/node/heartbeat", n.heartbeat(), &out); err != nil {
			continue // the next heartbeat reports the same
		}
		n.mu.Lock()
		for _, job := range out.Cancel {
			if cancel := n.active[job]; cancel != nil {
				cancel()
				n.stats.Cancelled++
			}
		}
		n.mu.Unlock()
	}
}

func (n *CallbackNode) heartbeat() wire.HeartbeatRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seq++
	seq, load := n.seq, float64(len(n.active))/float64(max(n.slots, 1))*0.8
	in := wire.HeartbeatRequest{NodeID: n.options.ID, Epoch: &n.epoch, HBSeq: &seq}
	in.Health = "ready"
	in.CurrentLoad = &wire.Load{GPU: &load}
	if !n.options.OmitsActive {
		in.Active = make([]wire.ActiveAttempt, 0, len(n.active))
		for job := range n.active {
			in.Active = append(in.Active, wire.ActiveAttempt{ActiveJob: job})
		}
	}
	return in
}
