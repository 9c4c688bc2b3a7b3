// Package inprocess runs a scheduler for benchmarks, with nodes that live in the same process and finish at once.
package inprocess

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// workers are nodes in the same process: each job they are handed is confirmed and done at once, by a
// goroutine of the node's own.
type workers struct {
	jobs   *dispatch.Dispatcher
	inline bool // the work is done within the delivery, so that a job has ended when its dispatch returns
	queue  map[core.NodeID]chan *wire.Assignment
}

// Deliver implements dispatch.Transport.
func (w *workers) Deliver(ctx context.Context, to *core.Node, a *wire.Assignment) error {
	if w.inline {
		return w.do(ctx, a)
	}
	w.queue[to.ID] <- a
	return nil
}

// Cancel implements dispatch.Transport.
func (w *workers) Cancel(context.Context, core.NodeID, core.JobID, int) {}

func (w *workers) work(b testing.TB, queue <-chan *wire.Assignment) {
	for a := range queue {
		if err := w.do(b.Context(), a); err != nil {
			b.Error(err)
		}
	}
}

// do confirms a job and brings its result.
func (w *workers) do(ctx context.Context, a *wire.Assignment) error {
	r := dispatch.Report{Job: core.JobID(a.JobID), Holder: core.Holder{Attempt: a.AttemptID, Node: core.NodeID(a.NodeID), Epoch: core.Epoch(a.Epoch)}}
	if err := w.jobs.Ack(ctx, r); err != nil {
		return err
	}
	return w.jobs.Done(ctx, r, nil)
}

// Start makes a scheduler with nodes in the same process, with the memory store unless a change says otherwise. With
// inline, a job has ended when its dispatch returns. It stops when it is told to, or with the test.
func Start(b testing.TB, count, slots int, inline bool, changes ...func(*config.Config)) (s *scheduler.Scheduler, stop func()) {
	b.Helper()
	cfg := config.Default()
	cfg.Server.Port = 0
	cfg.Scheduler.Nodes.PresenceTTLMS, cfg.Scheduler.Dispatch.HeartbeatStaleMS = 600_000, 600_000 // nobody sends heartbeats unless it is measured
	cfg.Scheduler.TaskBinding.LeaseSeconds = 6
	cfg.Scheduler.Phase2.HeartbeatTTLSeconds = 60
	for _, change := range changes {
		change(&cfg)
	}
	w := &workers{inline: inline, queue: make(map[core.NodeID]chan *wire.Assignment)}
	s, err := scheduler.New(b.Context(), cfg, wire.VersionResponse{Version: "bench"}, slog.New(slog.DiscardHandler), w)
	if err != nil {
		b.Fatal(err)
	}
	w.jobs = s.Jobs
	if err := s.Bus.Announce(b.Context()); err != nil {
		b.Fatal(err)
	}
	present, leave := context.WithCancel(b.Context())
	var renewal sync.WaitGroup
	renewal.Go(func() {
		for backoff.Sleep(present, 10*time.Second) {
			_ = s.Bus.Announce(present)
		}
	})
	url := "http://127.0.0.1:9/jobs"
	for i := range count {
		id := core.NodeID(fmt.Sprintf("node-%05d", i))
		w.queue[id] = make(chan *wire.Assignment, slots)
		p := nodes.Patch{Semantic: core.LangSet{"en", "zh"}, MaxJobs: &slots, Callback: &url}
		if _, err := s.Nodes.Register(b.Context(), id, p, store.Activity{}); err != nil {
			b.Fatal(err)
		}
	}
	for _, q := range w.queue {
		go w.work(b, q)
	}
	stop = sync.OnceFunc(func() {
		leave()
		renewal.Wait()
		s.Jobs.Close()
		_ = s.Store.Close()
		for _, q := range w.queue {
			close(q)
		}
	})
	b.Cleanup(stop)
	return s, stop
}
