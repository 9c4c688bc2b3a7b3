// Package inprocess runs a scheduler for benchmarks, with nodes in the same process that finish at once.
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

// Nodes is nodes in the same process, which finish their jobs at once. Jobs is set when the scheduler exists, before the first job.
type Nodes struct{ Jobs *dispatch.Dispatcher }

// Finish is fleet.Direct: it acknowledges and finishes a job, so that it has ended when its dispatch returns.
func (n *Nodes) Finish(ctx context.Context, _ *core.Node, a *wire.Assignment, r dispatch.Report) error {
	r.Epoch = core.Epoch(a.Epoch)
	if err := n.Jobs.Reports.Ack(ctx, r); err != nil {
		return err
	}
	return n.Jobs.Reports.Done(ctx, r, nil)
}

// queuedNodes is nodes each of which does its jobs in a goroutine of its own.
type queuedNodes struct {
	Nodes
	finish  fleet.Direct
	queues  map[core.NodeID]chan *wire.Assignment
	stopped atomic.Bool
}

// enqueue is fleet.Direct.
func (n *queuedNodes) enqueue(_ context.Context, to *core.Node, a *wire.Assignment, _ dispatch.Report) error {
	n.queues[to.ID] <- a
	return nil
}

// work does the jobs of one node. Like any node it reports again if the scheduler cannot reach its store. Jobs that are left when the
// scheduler stops may fail.
func (n *queuedNodes) work(tb testing.TB, queue <-chan *wire.Assignment) {
	ctx := context.WithoutCancel(tb.Context()) // which ends before the scheduler does
	for a := range queue {
		err := n.finish.Deliver(ctx, nil, a)
		for ; isDown(err) && !n.stopped.Load(); err = n.finish.Deliver(ctx, nil, a) {
			run.Sleep(ctx, 100*time.Millisecond)
		}
		if err != nil && !n.stopped.Load() {
			tb.Error(err)
		}
	}
}

// isDown reports whether an error says that the scheduler cannot reach its store.
func isDown(err error) bool {
	var e *wire.Error
	return errors.As(err, &e) && e.Code == wire.SchedulerDependencyDown
}

// NodeID returns the id of a node by its number.
func NodeID(i int) core.NodeID { return core.NodeID(fmt.Sprintf("node-%05d", i)) }

// register registers nodes and starts their goroutines.
func (n *queuedNodes) register(tb testing.TB, s *scheduler.Scheduler, count, slots int) {
	tb.Helper()
	url := "http://127.0.0.1:9/jobs"
	for i := range count {
		queue := make(chan *wire.Assignment, slots)
		n.queues[NodeID(i)] = queue
		c := core.Change{Declaration: core.Declaration{
			MaxJobs: slots, Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}}, Callback: url,
		}}
		if _, err := s.Nodes.Register(tb.Context(), NodeID(i), c, nodes.Caller{}, store.Activity{}); err != nil {
			tb.Fatal(err)
		}
		go n.work(tb, queue)
	}
}

// end ends the goroutines of the nodes.
func (n *queuedNodes) end() {
	for _, q := range n.queues {
		close(q)
	}
}

// Start starts a scheduler with nodes in the same process, with the memory store unless a change of the configuration sets
// another. With inline, a job has ended when its dispatch returns. Only what dispatch needs runs: no listener and no periodic work. The
// scheduler stops with stop, or at the end of the test.
func Start(tb testing.TB, count, slots int, inline bool, changes ...func(*config.Config)) (s *scheduler.Scheduler, stop func()) {
	tb.Helper()
	s, queued := newScheduler(tb, inline, changes)
	if err := s.Bus.Announce(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	renewing, stopRenewing := context.WithCancel(tb.Context())
	var renewal sync.WaitGroup
	renewal.Go(func() {
		for run.Sleep(renewing, 10*time.Second) {
			_ = s.Bus.Announce(renewing)
		}
	})
	queued.register(tb, s, count, slots)
	stop = sync.OnceFunc(func() {
		queued.stopped.Store(true)
		stopRenewing()
		renewal.Wait()
		s.Jobs.Close()
		_ = s.Store.Close()
		queued.end()
	})
	tb.Cleanup(stop)
	return s, stop
}

// Serve starts a whole scheduler, with its listener and its periodic work, and nodes in the same process. It returns when the scheduler is
// ready, with its URL. The scheduler stops at the end of the test.
func Serve(tb testing.TB, count, slots int, changes ...func(*config.Config)) (s *scheduler.Scheduler, url string) {
	tb.Helper()
	s, queued := newScheduler(tb, false, changes)
	l, err := s.Listen(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	tb.Cleanup(func() {
		queued.stopped.Store(true)
		stop()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
		queued.end()
	})
	url = "http://" + l.Addr().String()
	for !isReady(tb, url) {
		run.Sleep(tb.Context(), 10*time.Millisecond)
	}
	queued.register(tb, s, count, slots)
	return s, url
}

// isReady reports whether a scheduler says that it is ready.
func isReady(tb testing.TB, url string) bool {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url+"/readyz", http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// newScheduler makes a scheduler whose nodes are in the same process.
func newScheduler(tb testing.TB, inline bool, changes []func(*config.Config)) (*scheduler.Scheduler, *queuedNodes) {
	tb.Helper()
	cfg := config.Default()
	cfg.Server.Port = 0
	cfg.Scheduler.Nodes.PresenceTTLMS, cfg.Scheduler.Dispatch.HeartbeatStaleMS = 600_000, 600_000 // only benchmarks of heartbeats send any
	cfg.Scheduler.TaskBinding.LeaseSeconds = 6
	cfg.Scheduler.Phase2.HeartbeatTTLSeconds = 60
	for _, change := range changes {
		change(&cfg)
	}
	queued := &queuedNodes{queues: make(map[core.NodeID]chan *wire.Assignment)}
	queued.finish = queued.Finish
	transport := fleet.Direct(queued.enqueue)
	if inline {
		transport = queued.finish
	}
	s, err := scheduler.New(tb.Context(), cfg, wire.VersionResponse{Version: "bench"}, slog.New(slog.DiscardHandler), transport)
	if err != nil {
		tb.Fatal(err)
	}
	queued.Jobs = s.Jobs
	return s, queued
}
