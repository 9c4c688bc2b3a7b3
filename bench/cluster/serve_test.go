package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// beInstance makes a process of this test binary an instance; it names the Redis.
const beInstance = "LINGUA_BENCH_INSTANCE"

// beatEvery is how often nodes send heartbeats, in milliseconds. Without it they do not.
const beatEvery = "LINGUA_BENCH_HEARTBEAT_MS"

// order is what an instance is asked to do, as a line of its standard input. It answers each with a line.
type order struct {
	Register   int           // so many nodes that live in the instances themselves
	Submitters int           // dispatch jobs, one after the other each
	For        time.Duration // that long
	Rate       int           // all together so many a second; 0: as fast as they can
	Jobs       int           // or, without For, so many in all
}

// answer is how it went, and what the process has used so far.
type answer struct {
	Err   string
	Jobs  int
	Took  []time.Duration // of a part of the jobs, from when each was due
	Nodes int             // that this instance knows
	CPU   time.Duration
}

// serve is an instance's process: it says its address, does what it is told, and ends with its standard input.
func serve(redis string) {
	w := &workers{}
	s, err := scheduler.New(context.Background(), settings(redis), wire.VersionResponse{Version: "bench"}, slog.New(slog.DiscardHandler), w)
	if err != nil {
		panic(err)
	}
	w.jobs = s.Jobs
	l, err := s.Listen(context.Background())
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx, l) })
	fmt.Println("http://" + l.Addr().String())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var o order
		a := answer{}
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			panic(err)
		}
		if err := obey(ctx, s, o, &a); err != nil {
			a.Err = err.Error()
		}
		a.Nodes, a.CPU = s.Fleet.Len(), used()
		_ = json.NewEncoder(os.Stdout).Encode(a)
	}
	stop()
	running.Wait()
}

// settings are as shipped, but that nobody sends heartbeats unless it is measured, and that people may speak as fast as
// they like.
func settings(redis string) config.Config {
	cfg := config.Default()
	cfg.Store = redis
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 1
	cfg.Scheduler.Nodes.HeartbeatIntervalMS, cfg.Scheduler.Nodes.PresenceTTLMS = 200_000, 600_000
	if every, err := strconv.Atoi(os.Getenv(beatEvery)); err == nil {
		cfg.Scheduler.Nodes.HeartbeatIntervalMS = config.Millis(every)
	}
	cfg.Scheduler.Dispatch.HeartbeatStaleMS = 600_000
	cfg.Scheduler.Sessions.AheadMS, cfg.Scheduler.Sessions.PerAddress, cfg.Server.PerAddress = 600_000, 0, 0
	return cfg
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func obey(ctx context.Context, s *scheduler.Scheduler, o order, a *answer) error {
	slots, url := 4, "http://127.0.0.1:9/jobs"
	for i := range o.Register {
		p := nodes.Patch{Semantic: core.LangSet{"en", "zh"}, MaxJobs: &slots, Callback: &url}
		if _, err := s.Nodes.Register(ctx, core.NodeID(fmt.Sprintf("within-%05d", i)), p, store.Activity{}); err != nil {
			return err
		}
	}
	return submitAll(ctx, s.Jobs, o, a)
}

// submitAll is the work of submitters.
func submitAll(ctx context.Context, jobs *dispatch.Dispatcher, o order, a *answer) error {
	var mu sync.Mutex
	var failure error
	var all sync.WaitGroup
	var begun int
	began := time.Now()
	// next is when the next job is due; false when there is none.
	next := func() (due time.Time, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		due = time.Now()
		if o.Rate > 0 {
			due = began.Add(time.Duration(begun) * time.Second / time.Duration(o.Rate))
		}
		begun++
		return due, failure == nil && (o.For > 0 && due.Sub(began) < o.For || begun <= o.Jobs)
	}
	for range o.Submitters {
		all.Go(func() {
			for due, ok := next(); ok; due, ok = next() {
				backoff.Sleep(ctx, time.Until(due))
				_, err := jobs.Dispatch(ctx, dispatch.Request{Unique: true, Spec: core.Spec{
					Request: core.RequestID(uuid.NewString()), Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a",
				}})
				took := time.Since(due)
				mu.Lock()
				if failure = errors.Join(failure, err); err == nil {
					if a.Jobs++; a.Jobs%10 == 0 {
						a.Took = append(a.Took, took)
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return failure
}

// workers are nodes that live in the instances: a job has ended when it is delivered.
type workers struct{ jobs *dispatch.Dispatcher }

// Deliver implements dispatch.Transport.
func (w *workers) Deliver(ctx context.Context, _ *core.Node, a *wire.Assignment) error {
	r := dispatch.Report{Job: core.JobID(a.JobID), Holder: core.Holder{Attempt: a.AttemptID, Node: core.NodeID(a.NodeID), Epoch: core.Epoch(a.Epoch)}}
	if err := w.jobs.Ack(ctx, r); err != nil {
		return err
	}
	return w.jobs.Done(ctx, r, nil)
}

// Cancel implements dispatch.Transport.
func (w *workers) Cancel(context.Context, core.NodeID, core.JobID, int) {}
