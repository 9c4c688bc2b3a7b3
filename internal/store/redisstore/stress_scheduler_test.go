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

// stressProcessEnv is the environment variable that makes a process of this test binary a scheduler of TestStressWithKilledSchedulers. It
// contains the URL of Redis, the prefix and the scheduler's name.
const stressProcessEnv = "LINGUA_STRESS_SCHEDULER"

// stressTiming is short, so that leases expire, but the presence is longer than a busy machine stalls: a node that sends no heartbeat for so
// long has jobs without leases. Records outlive the test.
var stressTiming = store.Timing{
	Presence: 3 * time.Second, ReservedTTL: 500 * time.Millisecond, Attempt: 6 * time.Second, Job: 7 * time.Second, Retention: 2 * time.Hour,
}

// scheduler is a process that uses the store as package dispatch does, until it is killed.
type scheduler struct {
	name   string
	store  *countingStore
	conn   *rpcConn
	tokens atomic.Int64 // the number of tokens so far

	mu    sync.Mutex
	nodes map[core.NodeID]*core.Node
	jobs  map[core.JobID]*core.Job // as this process last saw them, which may be long ago
}

// runScheduler is the main function of such a process. If it is not killed, it ends with the process that started it.
func runScheduler(config string) {
	parts := strings.Fields(config)
	w, err := openScheduler(parts[0], parts[1], parts[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	w.conn.send(rpcMessage{Kind: "ready"})
	w.conn.serve(os.Stdin, func(rpcMessage) {}, w.onRequest)
}

func openScheduler(url, prefix, name string) (*scheduler, error) {
	address, err := redisstore.ParseAddress(url)
	if err != nil {
		return nil, err
	}
	s, err := redisstore.Open(context.Background(), redisstore.Options{
		Address: address, Prefix: prefix, Timing: stressTiming, Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	w := &scheduler{
		name: name, store: &countingStore{Store: s},
		nodes: make(map[core.NodeID]*core.Node), jobs: make(map[core.JobID]*core.Job),
	}
	w.conn = newRPCConn(os.Stdout, w.store.calls.Load)
	all, err := s.Nodes(context.Background())
	for _, status := range all {
		w.nodes[status.Node.ID] = status.Node
	}
	return w, err
}

// onRequest handles a request of a client or a node.
func (w *scheduler) onRequest(n rpcMessage) rpcMessage {
	ctx := context.Background()
	switch n.Kind {
	case "submit":
		return rpcMessage{Result: w.submit(ctx, n.Job)}
	case "cancel":
		return rpcMessage{Result: w.cancel(ctx, n.Job)}
	case "done":
		return rpcMessage{Result: w.handleResult(ctx, n)}
	case "fail":
		return rpcMessage{Result: w.handleFailure(ctx, n)}
	case "heartbeat":
		return w.handleHeartbeat(ctx, n)
	case "register":
		return w.handleRegistration(ctx, n)
	}
	return rpcMessage{}
}

// reportError reports an error of the store. Redis is available all the time, so it fails the test.
func (w *scheduler) reportError(operation string, err error) {
	w.conn.send(rpcMessage{Kind: "error", Result: fmt.Sprintf("%s: %s: %v", w.name, operation, err)})
}

func (w *scheduler) newToken() core.Token {
	return core.Token(fmt.Sprintf("%s.%d", w.name, w.tokens.Add(1)))
}

// rememberNode remembers the current state of a node.
func (w *scheduler) rememberNode(n *core.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[n.ID] = n
}

func (w *scheduler) knownNode(id core.NodeID) *core.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[id]
}

// candidates returns all nodes that were not tried, in random order.
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

// rememberJob remembers a record for its next transition, and reports every ended job every time.
func (w *scheduler) rememberJob(job *core.Job, decided bool) {
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
		w.conn.send(rpcMessage{
			Kind: "ended", Job: job.ID, Result: job.State.String(), Node: job.Node, Attempt: job.Attempt,
			Version: job.Version, Decided: decided,
		})
	}
}

func (w *scheduler) knownJob(id core.JobID) *core.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jobs[id]
}

// apply applies an event and reports whether the record is now as requested.
func (w *scheduler) apply(ctx context.Context, p store.ApplyParams) (store.Applied, bool) {
	p.Seen = w.knownJob(p.Job)
	a, err := w.store.Apply(ctx, p)
	if err != nil {
		w.reportError("apply", err)
		return a, false
	}
	w.rememberJob(a.Job, a.Outcome == store.Decided)
	return a, a.Outcome.Stands()
}

// countingStore counts the calls that were answered.
type countingStore struct {
	*redisstore.Store
	calls atomic.Int64
}

func (c *countingStore) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	defer c.calls.Add(1)
	return c.Store.Reserve(ctx, p)
}

func (c *countingStore) Commit(ctx context.Context, ref core.LeaseRef) (bool, error) {
	defer c.calls.Add(1)
	return c.Store.Commit(ctx, ref)
}

func (c *countingStore) Release(ctx context.Context, p store.ReleaseParams) error {
	defer c.calls.Add(1)
	return c.Store.Release(ctx, p)
}

func (c *countingStore) Revoke(ctx context.Context, ref core.LeaseRef) error {
	defer c.calls.Add(1)
	return c.Store.Revoke(ctx, ref)
}

func (c *countingStore) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	defer c.calls.Add(1)
	return c.Store.Create(ctx, p)
}

func (c *countingStore) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	defer c.calls.Add(1)
	return c.Store.Apply(ctx, p)
}

func (c *countingStore) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	defer c.calls.Add(1)
	return c.Store.Get(ctx, id)
}

func (c *countingStore) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.HeartbeatResult, error) {
	defer c.calls.Add(1)
	return c.Store.Heartbeat(ctx, p)
}

func (c *countingStore) Register(ctx context.Context, p store.RegisterParams) (store.Registration, error) {
	defer c.calls.Add(1)
	return c.Store.Register(ctx, p)
}
