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

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// What became of a job at a node, where it was not the code of an error.
const (
	accepted  = wire.Code("accepted")  // its result was taken
	cancelled = wire.Code("cancelled") // a heartbeat was told that nobody wants it
)

// dutifulNode does all that docs/http-nodes.md asks of a node, whatever becomes of the schedulers: it lists every job until
// its result is answered, says everything again until it is answered, to any instance, and registers again when it is
// not known. Unlike a simulated one it never gives up a job by itself, so what became of each is known.
type dutifulNode struct {
	id     string
	slots  int
	world  world
	work   func() time.Duration
	server *httptest.Server
	life   context.Context
	tasks  sync.WaitGroup

	mu      sync.Mutex
	epoch   int64
	seq     uint64
	beat    time.Duration
	jobs    map[wire.ActiveJob]*task
	working int // jobs that take its hands, of those it lists
	most    int
	refused int // deliveries it had no room for
	ended   map[wire.ActiveJob]wire.Code
	again   int // registrations after the first
}

type task struct {
	unwanted context.CancelFunc
	acked    bool
}

// startNodes starts nodes and registers them.
func startNodes(t *testing.T, w world, count, slots int, work func() time.Duration) fleet {
	t.Helper()
	f := make(fleet, count)
	for i := range f {
		f[i] = startNode(t, w, fmt.Sprintf("node-%02d", i), slots, work)
	}
	took(t, "every instance to see every node", patience, func() bool { return w.sees(f.ids()...) })
	return f
}

func startNode(t *testing.T, w world, id string, slots int, work func() time.Duration) *dutifulNode {
	t.Helper()
	life, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	n := &dutifulNode{
		id: id, slots: slots, world: w, work: work, life: life,
		jobs: make(map[wire.ActiveJob]*task), ended: make(map[wire.ActiveJob]wire.Code),
	}
	n.server = httptest.NewServer(http.HandlerFunc(n.take))
	t.Cleanup(func() {
		stop()
		n.server.Close()
		n.tasks.Wait()
	})
	insist(t, n.register)
	n.tasks.Go(n.heartbeats)
	return n
}

// take is the callback.
func (n *dutifulNode) take(w http.ResponseWriter, r *http.Request) {
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
	case n.life.Err() != nil:
		panic(http.ErrAbortHandler)
	case has:
		n.tasks.Go(func() { n.insist(n.life, "/v1/job/ack", n.who(job)) })
		return
	case n.working >= n.slots:
		n.refused++
		http.Error(w, `{"error":"NODE_BUSY","detail":"no room"}`, http.StatusTooManyRequests)
		return
	}
	ctx, unwanted := context.WithCancel(n.life)
	n.jobs[job] = &task{unwanted: unwanted}
	delete(n.ended, job)
	n.working++
	n.most = max(n.most, n.working)
	n.tasks.Go(func() { n.do(ctx, job) })
}

func (n *dutifulNode) who(job wire.ActiveJob) wire.JobAckRequest {
	return wire.JobAckRequest{JobID: job.JobID, AttemptID: job.AttemptID, NodeID: n.id}
}

// do works on a job, confirms it meanwhile, and says its result until that is answered. The job is listed for as long as
// it takes the node's hands.
func (n *dutifulNode) do(ctx context.Context, job wire.ActiveJob) {
	work, drop := context.WithCancel(ctx)
	defer drop()
	dropped := make(chan wire.Code, 1)
	n.tasks.Go(func() {
		switch code := n.insist(work, "/v1/job/ack", n.who(job)); code {
		case accepted:
			n.mu.Lock()
			if t := n.jobs[job]; t != nil {
				t.acked = true
			}
			n.mu.Unlock()
		case cancelled: // or done before it was answered
		default:
			dropped <- code // nobody wants it from this node
			drop()
		}
	})
	done := backoff.Sleep(work, n.work())
	n.mu.Lock()
	n.working--
	n.mu.Unlock()
	if done {
		in := wire.JobDoneRequest{JobAckRequest: n.who(job), Status: "ok", Result: json.RawMessage(`{"text_tgt":"…"}`)}
		n.end(job, n.insist(ctx, "/v1/job/done", in))
		return
	}
	select {
	case code := <-dropped:
		n.end(job, code)
	default:
		n.end(job, cancelled)
	}
}

// end notes what became of a job and takes it off the list.
func (n *dutifulNode) end(job wire.ActiveJob, code wire.Code) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jobs[job].unwanted()
	delete(n.jobs, job)
	n.ended[job] = code
}

// insist says something until it is answered, and returns the answer's code.
func (n *dutifulNode) insist(ctx context.Context, path string, in any) wire.Code {
	for {
		var ok wire.OKResponse
		err := n.world.any().peer.Post(ctx, path, in, &ok)
		var said *wire.Error
		switch {
		case err == nil:
			return accepted
		case errors.As(err, &said) && !said.Code.Retryable():
			return said.Code
		}
		if !backoff.SleepJitter(ctx, 50*time.Millisecond, 0.5) {
			return cancelled
		}
	}
}

func (n *dutifulNode) register() error {
	url := n.server.URL + "/jobs"
	in := wire.RegisterRequest{NodeID: n.id, Declaration: wire.Declaration{
		SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &n.slots, CallbackURL: &url, Active: n.list(),
	}}
	var out wire.RegisterResponse
	if err := n.world.any().peer.Post(n.life, "/v1/node/register", in, &out); err != nil {
		return err
	}
	n.mu.Lock()
	n.epoch, n.beat = out.Epoch, time.Duration(out.HeartbeatIntervalMS)*time.Millisecond
	n.mu.Unlock()
	n.obey(out.Cancel)
	return nil
}

func (n *dutifulNode) heartbeats() {
	known := true
	for {
		n.mu.Lock()
		beat, epoch := n.beat, n.epoch
		n.seq++
		seq := n.seq
		n.mu.Unlock()
		if known && !backoff.SleepJitter(n.life, beat, 0.2) || n.life.Err() != nil {
			return
		}
		if !known {
			if n.register() == nil {
				known = true
				n.mu.Lock()
				n.again++
				n.mu.Unlock()
			} else if !backoff.SleepJitter(n.life, beat/4, 0.5) {
				return
			}
			continue
		}
		in := wire.HeartbeatRequest{NodeID: n.id, Epoch: &epoch, HBSeq: &seq, Declaration: wire.Declaration{Active: n.list()}}
		var out wire.HeartbeatResponse
		err := n.world.any().peer.Post(n.life, "/v1/node/heartbeat", in, &out)
		var said *wire.Error
		switch {
		case err == nil:
			n.obey(out.Cancel)
		case errors.As(err, &said) && (said.Code == wire.NotFound || said.Code == wire.StaleEpoch):
			known = false
		}
	}
}

func (n *dutifulNode) list() []wire.ActiveAttempt {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]wire.ActiveAttempt, 0, len(n.jobs))
	for job := range n.jobs {
		list = append(list, wire.ActiveAttempt{ActiveJob: job})
	}
	return list
}

// obey stops what nobody wants any more.
func (n *dutifulNode) obey(cancels []wire.ActiveJob) {
	for _, job := range cancels {
		n.mu.Lock()
		t := n.jobs[job]
		n.mu.Unlock()
		if t != nil {
			t.unwanted()
		}
	}
}

// fleet is all nodes.
type fleet []*dutifulNode

func (f fleet) ids() []core.NodeID {
	ids := make([]core.NodeID, len(f))
	for i, n := range f {
		ids[i] = core.NodeID(n.id)
	}
	return ids
}

// handful is a job in a node's hands.
type handful struct {
	node  *dutifulNode
	job   wire.ActiveJob
	acked bool
}

// inHand is every job that the nodes list now.
func (f fleet) inHand() []handful {
	var all []handful
	for _, n := range f {
		n.mu.Lock()
		for job, t := range n.jobs {
			all = append(all, handful{n, job, t.acked})
		}
		n.mu.Unlock()
	}
	return all
}

// fate is what became of a job at its node; empty while it is there.
func (h handful) fate() wire.Code {
	h.node.mu.Lock()
	defer h.node.mu.Unlock()
	return h.node.ended[h.job]
}

func (h handful) String() string {
	return fmt.Sprintf("attempt %d of %s: %s; it was in the hands of %s, its ACK heard: %v", h.job.AttemptID, h.job.JobID, h.fate(), h.node.id, h.acked)
}

// attemptsOf tells a job's history.
func attemptsOf(job *wire.Job) string {
	history := ""
	for _, a := range job.Attempts {
		history += fmt.Sprintf("[%d at %s %s]", a.AttemptID, a.NodeID, a.Reason)
	}
	return history
}

// fates counts what became of jobs.
func fates(hands []handful) map[wire.Code]int {
	counts := make(map[wire.Code]int)
	for _, h := range hands {
		counts[h.fate()]++
	}
	return counts
}

// oversold is how many deliveries the nodes had no room for. That none has more in hand than slots is its own doing, and
// checked here as well.
func (f fleet) oversold(t *testing.T) int {
	t.Helper()
	refused := 0
	for _, n := range f {
		n.mu.Lock()
		refused += n.refused
		if n.most > n.slots {
			t.Errorf("%s had %d jobs in hand on %d slots", n.id, n.most, n.slots)
		}
		n.mu.Unlock()
	}
	return refused
}

// story is all that the nodes know of a job.
func (f fleet) story(id string) string {
	story := ""
	for _, n := range f {
		n.mu.Lock()
		for job, code := range n.ended {
			if job.JobID == id {
				story += fmt.Sprintf(" attempt %d at %s: %s;", job.AttemptID, n.id, code)
			}
		}
		n.mu.Unlock()
	}
	return story
}
