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

// instanceVariable makes a process of this test binary an instance. Its value is the URL of Redis.
const instanceVariable = "LINGUA_BENCH_INSTANCE"

// heartbeatVariable is the interval of the nodes' heartbeats in milliseconds. Without it there are none.
const heartbeatVariable = "LINGUA_BENCH_HEARTBEAT_MS"

// defaultTimesVariable makes an instance use the default times of nodes.
const defaultTimesVariable = "LINGUA_BENCH_DEFAULT_TIMES"

// command is what an instance does, as a line of its standard input. It answers each command with a report, as a line.
type command struct {
	Register   int           // nodes inside of the instance
	Submitters int           // that dispatch jobs, each one after the other
	For        time.Duration // how long
	Rate       int           // dispatches a second by all submitters together; 0: no limit
	Jobs       int           // without For: the number of jobs of all submitters together
	Connect    int           // nodes that are connected to the instance, as far as the others know
	Beat       bool          // let these send heartbeats from now on
	Hold       bool          // nodes acknowledge jobs from now on, and do not finish them
}

// report is the outcome of a command, and what the process has used so far.
type report struct {
	Err       string
	Jobs      int
	Latencies []time.Duration // of one job in ten, from when the job was due
	Nodes     int             // that the instance knows
	CPU       time.Duration
	Instance  core.InstanceID
	InFlight  int // jobs of the instance
	Beats     int // heartbeats that were sent so far
}

// serve runs an instance: it prints its URL, executes commands, and ends with its standard input.
func serve(redis string) {
	local := new(localNodes)
	s, err := scheduler.New(context.Background(), settings(redis), wire.VersionResponse{Version: "bench"}, slog.New(slog.DiscardHandler), fleet.Direct(local.deliver))
	if err != nil {
		panic(err)
	}
	local.Jobs, local.scheduler = s.Jobs, s
	l, err := s.Listen(context.Background())
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx, l) })
	fmt.Println("http://" + l.Addr().String())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var cmd command
		r := report{}
		if err := json.Unmarshal(in.Bytes(), &cmd); err != nil {
			panic(err)
		}
		if err := errors.Join(local.execute(ctx, cmd), execute(ctx, s, cmd, &r)); err != nil {
			r.Err = err.Error()
		}
		r.Nodes, r.CPU, r.Instance, r.InFlight, r.Beats = s.Fleet.Len(), cpuTime(), s.Bus.Instance(), s.Jobs.InFlight(), int(local.beats.Load())
		_ = json.NewEncoder(os.Stdout).Encode(r)
	}
	stop()
	running.Wait()
	local.running.Wait()
}

// settings returns the default configuration without heartbeats, unless they are measured, and without limits on the rate
// of audio.
func settings(redis string) config.Config {
	cfg := config.Default()
	cfg.Store = redis
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 1
	if os.Getenv(defaultTimesVariable) != "" {
		return cfg
	}
	cfg.Scheduler.Nodes.HeartbeatIntervalMS, cfg.Scheduler.Nodes.PresenceTTLMS = 200_000, 600_000
	if interval, err := strconv.Atoi(os.Getenv(heartbeatVariable)); err == nil {
		cfg.Scheduler.Nodes.HeartbeatIntervalMS = config.Millis(interval)
	}
	cfg.Scheduler.Dispatch.HeartbeatStaleMS = 600_000
	cfg.Scheduler.Sessions.AheadMS, cfg.Scheduler.Sessions.PerAddress, cfg.Server.PerAddress = 600_000, 0, 0
	cfg.Scheduler.Sessions.UtteranceRate = 1_000_000
	return cfg
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func execute(ctx context.Context, s *scheduler.Scheduler, cmd command, r *report) error {
	slots, url := 4, "http://127.0.0.1:9/jobs"
	for i := range cmd.Register {
		p := core.Change{Declaration: core.Declaration{Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}}, MaxJobs: slots, Callback: url}}
		if _, err := s.Nodes.Register(ctx, withinID(i), p, nodes.Caller{}, store.Activity{}); err != nil {
			return err
		}
	}
	return submitAll(ctx, s.Jobs, cmd, r)
}

// withinID returns the id of a node inside of an instance.
func withinID(i int) core.NodeID { return core.NodeID(fmt.Sprintf("within-%05d", i)) }

// submitAll runs the submitters.
func submitAll(ctx context.Context, jobs *dispatch.Dispatcher, cmd command, r *report) error {
	var mu sync.Mutex
	var failure error
	var running sync.WaitGroup
	var started int
	began := time.Now()
	// next returns when the next job is due; false: there is none.
	next := func() (due time.Time, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		due = time.Now()
		if cmd.Rate > 0 {
			due = began.Add(time.Duration(started) * time.Second / time.Duration(cmd.Rate))
		}
		started++
		return due, failure == nil && (cmd.For > 0 && due.Sub(began) < cmd.For || started <= cmd.Jobs)
	}
	for range cmd.Submitters {
		running.Go(func() {
			for due, ok := next(); ok; due, ok = next() {
				run.Sleep(ctx, time.Until(due))
				_, err := jobs.Dispatch(ctx, dispatch.Request{Unique: true, Spec: core.Spec{
					Request: core.RequestID(uuid.NewString()), Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a",
				}})
				took := time.Since(due)
				mu.Lock()
				if failure = errors.Join(failure, err); err == nil {
					if r.Jobs++; r.Jobs%10 == 0 {
						r.Latencies = append(r.Latencies, took)
					}
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return failure
}
