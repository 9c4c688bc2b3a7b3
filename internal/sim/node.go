package sim

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

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// NodeOptions describes a simulated node.
type NodeOptions struct {
	ID          string
	Declaration wire.Declaration
	Work        func() time.Duration // how long a job takes
	Beat        time.Duration        // between heartbeats; 0: what the scheduler asks for
	Quiet       bool                 // never lists its active jobs
	Gate        bool                 // refuses with NODE_BUSY what is more than its maximum

	// What is wrong with it: the part of jobs it takes and never mentions again, gives up, or refuses.
	Silent, Fail, Busy float64
}

// NodeStats is what a node saw.
type NodeStats struct {
	Active, Most                             int // jobs in hand now, and at most at any time
	Taken, Done, Failed, Refused, Unanswered int
	Fenced                                   int // answers it was told to drop
	Cancelled                                int
	Over                                     int // jobs it was sent although its slots were taken
}

// Node is a simulated node.
type Node struct {
	o      NodeOptions
	peer   *Peer
	max    int
	epoch  int64
	beat   time.Duration
	server *http.Server
	stop   context.CancelFunc
	life   context.Context
	work   sync.WaitGroup

	mu     sync.Mutex
	active map[wire.ActiveJob]context.CancelFunc
	stats  NodeStats
	seq    uint64
	closed bool
}

// StartNode starts a node and registers it.
func StartNode(ctx context.Context, peer *Peer, o NodeOptions) (*Node, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &Node{o: o, peer: peer, max: *o.Declaration.MaxConcurrentJobs, active: make(map[wire.ActiveJob]context.CancelFunc)}
	n.life, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	n.server = &http.Server{Handler: http.HandlerFunc(n.take), ReadHeaderTimeout: 5 * time.Second}
	n.work.Go(func() { _ = n.server.Serve(l) })

	url := fmt.Sprintf("http://%s/jobs", l.Addr())
	n.o.Declaration.CallbackURL = &url
	in := wire.RegisterRequest{NodeID: o.ID, Declaration: n.o.Declaration}
	var out wire.RegisterResponse
	if err := peer.Post(ctx, "/v1/node/register", in, &out); err != nil {
		n.Kill()
		return nil, fmt.Errorf("register %s: %w", o.ID, err)
	}
	n.epoch, n.beat = out.Epoch, o.Beat
	if n.beat == 0 {
		n.beat = time.Duration(out.HeartbeatIntervalMS) * time.Millisecond
	}
	n.work.Go(n.heartbeats)
	return n, nil
}

// ID is the node's name.
func (n *Node) ID() string { return n.o.ID }

// Max is how many jobs it takes.
func (n *Node) Max() int { return n.max }

// Stats is what it has seen so far.
func (n *Node) Stats() NodeStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stats.Active = len(n.active)
	return n.stats
}

// Kill ends the node as a power cut would: nobody is told.
func (n *Node) Kill() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.stop()
	_ = n.server.Close()
	n.work.Wait()
}

// take is the callback: the scheduler hands over a job.
func (n *Node) take(w http.ResponseWriter, r *http.Request) {
	var a wire.Assignment
	body, err := io.ReadAll(io.LimitReader(r.Body, wire.MaxBody))
	if err != nil || json.Unmarshal(body, &a) != nil {
		http.Error(w, `{"error":"INVALID_REQUEST"}`, http.StatusBadRequest)
		return
	}
	job := wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}
	fate := rand.Float64()

	n.mu.Lock()
	_, again := n.active[job]
	switch {
	case n.closed:
		n.mu.Unlock()
		panic(http.ErrAbortHandler)
	case again:
		n.mu.Unlock()
		return
	case fate < n.o.Busy, n.o.Gate && len(n.active) >= n.max:
		n.stats.Refused++
		n.mu.Unlock()
		http.Error(w, `{"error":"NODE_BUSY","detail":"no room"}`, http.StatusTooManyRequests)
		return
	case fate < n.o.Busy+n.o.Silent:
		n.stats.Unanswered++
		n.mu.Unlock()
		return
	}
	ctx, cancel := context.WithTimeout(n.life, time.Duration(a.TimeoutMS)*time.Millisecond)
	n.active[job] = cancel
	n.stats.Taken++
	n.stats.Most = max(n.stats.Most, len(n.active))
	n.work.Go(func() {
		defer cancel()
		n.do(ctx, &a, fate < n.o.Busy+n.o.Silent+n.o.Fail)
	})
	n.mu.Unlock()
}

// do works on a job and reports.
func (n *Node) do(ctx context.Context, a *wire.Assignment, fails bool) {
	who := wire.JobAckRequest{JobID: a.JobID, AttemptID: a.AttemptID, NodeID: n.o.ID, Epoch: &n.epoch}
	job := wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}
	var ok wire.OKResponse
	if err := n.peer.Insist(ctx, "/v1/job/ack", who, &ok); err != nil {
		n.drop(job, err)
		return
	}
	if n.o.Work != nil {
		t := time.NewTimer(n.o.Work())
		defer t.Stop()
		select {
		case <-ctx.Done():
			n.drop(job, ctx.Err())
			return
		case <-t.C:
		}
	}
	// From here on its hands are free, whether or not the scheduler has heard of it.
	n.drop(job, nil)
	if fails {
		in := wire.JobFailRequest{JobAckRequest: who, Status: "error", Reason: "MODEL_LOAD_FAILED"}
		n.count(n.peer.Insist(ctx, "/v1/job/fail", in, &ok), &n.stats.Failed)
		return
	}
	in := wire.JobDoneRequest{JobAckRequest: who, Status: "ok", Result: json.RawMessage(`{"text_src":"…","text_tgt":"…"}`)}
	n.count(n.peer.Insist(ctx, "/v1/job/done", in, &ok), &n.stats.Done)
}

// drop takes a job out of the node's hands.
func (n *Node) drop(job wire.ActiveJob, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.active, job)
	n.note(err)
}

func (n *Node) count(err error, counter *int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		*counter++
		return
	}
	n.note(err)
}

func (n *Node) note(err error) {
	var said *wire.Error
	if errors.As(err, &said) && wirespec.Status(said.Code)/100 == 4 {
		n.stats.Fenced++
	}
}

// heartbeats tells the scheduler that the node is alive, at times that are its own.
func (n *Node) heartbeats() {
	for {
		if !backoff.SleepJitter(n.life, n.beat, 0.2) {
			return
		}
		var out wire.HeartbeatResponse
		if err := n.peer.Post(n.life, "/v1/node/heartbeat", n.pulse(), &out); err != nil {
			continue // the next one says the same
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

func (n *Node) pulse() wire.HeartbeatRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seq++
	seq, load := n.seq, float64(len(n.active))/float64(max(n.max, 1))*0.8
	in := wire.HeartbeatRequest{NodeID: n.o.ID, Epoch: &n.epoch, HBSeq: &seq}
	in.Health = "ready"
	in.CurrentLoad = &wire.Load{GPU: &load}
	if !n.o.Quiet {
		in.Active = make([]wire.ActiveAttempt, 0, len(n.active))
		for job := range n.active {
			in.Active = append(in.Active, wire.ActiveAttempt{ActiveJob: job})
		}
	}
	return in
}
