package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// crowdOrders is the variable that makes a process of this test binary one of TestCrowd's schedulers. It holds the
// URL of Redis, the prefix and the scheduler's name.
const crowdOrders = "LINGUA_CROWD"

// crowdTiming is short, so that much happens. Records outlive the test.
var crowdTiming = store.Timing{
	Presence: 1500 * time.Millisecond, ReservedTTL: 500 * time.Millisecond, Attempt: 4 * time.Second, Job: 5 * time.Second, Retention: 2 * time.Hour,
}

// scheduler is a process that does with the store what dispatch does, until it is killed.
type scheduler struct {
	name  string
	store *counted
	pipe  *pipe
	made  atomic.Int64 // tokens

	mu    sync.Mutex
	nodes map[core.NodeID]*core.Node
	jobs  map[core.JobID]*core.Job // as they were last seen here, which may be long ago
}

// runScheduler is the whole life of such a process. It ends, if nobody kills it, with the process that started it.
func runScheduler(orders string) {
	parts := strings.Fields(orders)
	w, err := openScheduler(parts[0], parts[1], parts[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	w.pipe.tell(note{Kind: "ready"})
	w.pipe.serve(os.Stdin, func(note) {}, w.answer)
}

func openScheduler(url, prefix, name string) (*scheduler, error) {
	address, err := redisstore.ParseAddress(url)
	if err != nil {
		return nil, err
	}
	s, err := redisstore.Open(context.Background(), redisstore.Options{
		Address: address, Prefix: prefix, Timing: crowdTiming, Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	w := &scheduler{
		name: name, store: &counted{Store: s},
		nodes: make(map[core.NodeID]*core.Node), jobs: make(map[core.JobID]*core.Job),
	}
	w.pipe = newPipe(os.Stdout, w.store.calls.Load)
	all, err := s.Nodes(context.Background())
	for _, status := range all {
		w.nodes[status.Node.ID] = status.Node
	}
	return w, err
}

// answer does what a client or a node asks for.
func (w *scheduler) answer(n note) note {
	ctx := context.Background()
	switch n.Kind {
	case "submit":
		return note{Said: w.submit(ctx, n.Job)}
	case "cancel":
		return note{Said: w.cancel(ctx, n.Job)}
	case "done":
		return note{Said: w.done(ctx, n)}
	case "fail":
		return note{Said: w.failed(ctx, n)}
	case "beat":
		return w.beat(ctx, n)
	case "register":
		return w.register(ctx, n)
	}
	return note{}
}

// trouble tells of a store that did not answer. Redis is well all the time, so that is a failure of the test.
func (w *scheduler) trouble(operation string, err error) {
	w.pipe.tell(note{Kind: "trouble", Said: fmt.Sprintf("%s: %s: %v", w.name, operation, err)})
}

func (w *scheduler) token() core.Token {
	return core.Token(fmt.Sprintf("%s.%d", w.name, w.made.Add(1)))
}

// learn keeps what a node is now.
func (w *scheduler) learn(n *core.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[n.ID] = n
}

func (w *scheduler) node(id core.NodeID) *core.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[id]
}

// candidates are all nodes but those that were tried, in random order.
func (w *scheduler) candidates(tried []core.NodeID) []*core.Node {
	skip := make(map[core.NodeID]bool)
	for _, id := range tried {
		skip[id] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*core.Node
	for id, n := range w.nodes {
		if !skip[id] {
			list = append(list, n)
		}
	}
	rand.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	return list
}

// saw keeps a record for the next step on it, and tells of every job that is seen to have ended, every time.
func (w *scheduler) saw(job *core.Job, decided bool) {
	if job == nil {
		return
	}
	w.mu.Lock()
	if job.State.Terminal() {
		delete(w.jobs, job.ID)
	} else {
		w.jobs[job.ID] = job
	}
	w.mu.Unlock()
	if job.State.Terminal() {
		w.pipe.tell(note{
			Kind: "ended", Job: job.ID, Said: job.State.String(), Node: job.Node, Attempt: job.Attempt,
			Version: job.Version, Decided: decided,
		})
	}
}

func (w *scheduler) seen(id core.JobID) *core.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jobs[id]
}

// apply makes one step and reports whether the record now says what was wanted.
func (w *scheduler) apply(ctx context.Context, p store.ApplyParams) (store.Applied, bool) {
	p.Seen = w.seen(p.Job)
	a, err := w.store.Apply(ctx, p)
	if err != nil {
		w.trouble("apply", err)
		return a, false
	}
	w.saw(a.Job, a.Outcome == store.Decided)
	return a, a.Outcome.Stands()
}

// counted counts the calls that were answered.
type counted struct {
	*redisstore.Store
	calls atomic.Int64
}

func (c *counted) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	defer c.calls.Add(1)
	return c.Store.Reserve(ctx, p)
}

func (c *counted) Commit(ctx context.Context, ref core.LeaseRef) (bool, error) {
	defer c.calls.Add(1)
	return c.Store.Commit(ctx, ref)
}

func (c *counted) Release(ctx context.Context, p store.ReleaseParams) error {
	defer c.calls.Add(1)
	return c.Store.Release(ctx, p)
}

func (c *counted) Revoke(ctx context.Context, ref core.LeaseRef) error {
	defer c.calls.Add(1)
	return c.Store.Revoke(ctx, ref)
}

func (c *counted) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	defer c.calls.Add(1)
	return c.Store.Create(ctx, p)
}

func (c *counted) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	defer c.calls.Add(1)
	return c.Store.Apply(ctx, p)
}

func (c *counted) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	defer c.calls.Add(1)
	return c.Store.Get(ctx, id)
}

func (c *counted) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.HeartbeatResult, error) {
	defer c.calls.Add(1)
	return c.Store.Heartbeat(ctx, p)
}

func (c *counted) Register(ctx context.Context, p store.RegisterParams) (store.Registration, error) {
	defer c.calls.Add(1)
	return c.Store.Register(ctx, p)
}
