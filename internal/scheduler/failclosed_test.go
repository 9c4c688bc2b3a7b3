package scheduler_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

var (
	callers = flag.Int("callers", 1000, "how many dispatch at once while the store is away, in TestWithoutTheStoreNothingIsGranted")
	prompt  = flag.Bool("prompt", false, "hold the times that answers take against what is promised; needs a machine that does nothing else")
)

// ailment is a way in which Redis can fail, and be well again.
type ailment struct {
	name  string
	begin func(*testing.T, *redistest.Server, *redistest.Proxy)
	end   func(*testing.T, *redistest.Server, *redistest.Proxy)
}

func do(t *testing.T, s *redistest.Server, args ...string) {
	t.Helper()
	if _, err := s.Do(args...); err != nil {
		t.Fatal(err)
	}
}

var ailments = []ailment{
	{
		"hung",
		func(_ *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Stop() },
		func(_ *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Continue() },
	},
	{
		"unreachable",
		func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Refuse(true) },
		func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Refuse(false) },
	},
	{
		"slow",
		func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Delay(2 * time.Second) },
		func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Delay(0); p.Cut() },
	},
	{
		"silent",
		func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Freeze(true) },
		func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Freeze(false) },
	},
	{
		"read-only",
		func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { do(t, s, "REPLICAOF", "127.0.0.1", "1") },
		func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { do(t, s, "REPLICAOF", "NO", "ONE") },
	},
	{
		"loading",
		func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			do(t, s, "DEBUG", "POPULATE", "10000", "filler", "100")
			do(t, s, "CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
			do(t, s, "CONFIG", "SET", "key-load-delay", "10000") // microseconds a key
			go func() { _, _ = s.Do("DEBUG", "RELOAD") }()       // answered when all is read, or never
			patiently(t, func() error {
				if _, err := s.Do("GET", "filler"); err == nil || !strings.HasPrefix(err.Error(), "LOADING") {
					return fmt.Errorf("it is not loading: %w", err)
				}
				return nil
			})
		},
		func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			do(t, s, "CONFIG", "SET", "key-load-delay", "0")
		},
	},
	{
		"full",
		func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			do(t, s, "CONFIG", "SET", "maxmemory", "1")
		},
		func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			do(t, s, "CONFIG", "SET", "maxmemory", "0")
		},
	},
}

// acceptor is a transport that takes every job and says nothing.
type acceptor struct{ jobs atomic.Int64 }

func (a *acceptor) Deliver(context.Context, *core.Node, *wire.Assignment) error {
	a.jobs.Add(1)
	return nil
}

func (*acceptor) Cancel(context.Context, core.NodeID, core.JobID, int) {}

func utteranceOf(id string) dispatch.Request {
	return dispatch.Request{Spec: core.Spec{
		Request: core.RequestID(id), Session: "room-1", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a",
	}}
}

// TestWithoutTheStoreNothingIsGranted: whatever is wrong with Redis, every caller is told so in time, none of what
// they asked for happens later, and service resumes by itself.
//
//	go test -count=1 -v -run TestWithoutTheStore ./internal/scheduler -callers 5000 -prompt
func TestWithoutTheStoreNothingIsGranted(t *testing.T) {
	t.Parallel()
	for _, a := range ailments {
		t.Run(a.name, func(t *testing.T) {
			if !*prompt {
				t.Parallel()
			}
			redis := redistest.Start(t, redistest.WithConfig("enable-debug-command", "yes"))
			proxy := redistest.StartProxy(t, redis.Addr())
			cfg := config.Default()
			cfg.Server.Port = 0
			cfg.Store = proxy.URL()
			// The nodes of this test neither confirm nor send heartbeats.
			c := &cfg.Scheduler
			c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 600_000, 600_000
			c.Dispatch.ACKTimeoutMS, c.Dispatch.AttemptTimeoutMS, c.Dispatch.JobTimeoutMS = 300_000, 400_000, 500_000
			cfg.Server.ShutdownSeconds = 0
			taker := &acceptor{}
			s := newSchedulerWith(t, cfg, taker)
			run, stop := context.WithCancel(context.WithoutCancel(t.Context()))
			l, err := s.Listen(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- s.Run(run, l) }()
			defer func() {
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			slots, url := 10_000, "http://127.0.0.1:9/jobs"
			for i := range 4 {
				p := nodes.Patch{Semantic: core.LangSet{"en", "zh"}, MaxJobs: &slots, Callback: &url}
				patiently(t, func() error {
					_, err := s.Nodes.Register(t.Context(), core.NodeID(fmt.Sprintf("n%d", i)), p, store.Activity{})
					return err
				})
			}
			served(t, s, "before")

			a.begin(t, redis, proxy)
			slowest := refuseAll(t, s, *callers)
			if readiness(s) != http.StatusServiceUnavailable {
				t.Error("the scheduler calls itself ready")
			}
			if up := testutil.ToFloat64(s.Metrics.StoreUp); up != 0 {
				t.Errorf("lingua_store_up is %v", up)
			}
			a.end(t, redis, proxy)
			mended := time.Now()
			served(t, s, "after")
			back := time.Since(mended)
			t.Logf("%s: %d callers refused within %v; service was back after %v", a.name, *callers, slowest.Round(time.Millisecond), back.Round(time.Millisecond))
			if *prompt && (slowest > 500*time.Millisecond || back > 2*time.Second) {
				t.Errorf("refused within %v, want 500ms; back after %v, want 2s", slowest, back)
			}
			nothingHappened(t, s, *callers)
			if n := taker.jobs.Load(); n != 2 {
				t.Errorf("%d jobs were delivered, want the one before and the one after", n)
			}
		})
	}
}

// refuseAll dispatches from many callers at once, who must all be told that the store is away, and returns how long
// the last was kept.
func refuseAll(t *testing.T, s *scheduler.Scheduler, callers int) time.Duration {
	t.Helper()
	var slowest atomic.Int64
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range callers {
		wg.Go(func() {
			<-gate
			began := time.Now()
			_, err := s.Jobs.Dispatch(t.Context(), utteranceOf(fmt.Sprintf("during-%d", i)))
			took := int64(time.Since(began))
			for most := slowest.Load(); took > most && !slowest.CompareAndSwap(most, took); most = slowest.Load() {
			}
			var e *wire.Error
			if !errors.As(err, &e) || e.Code != wire.SchedulerDependencyDown {
				t.Errorf("caller %d: %v, want %s", i, err, wire.SchedulerDependencyDown)
			}
		})
	}
	close(gate)
	wg.Wait()
	return time.Duration(slowest.Load())
}

func readiness(s *scheduler.Scheduler) int {
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/readyz", nil)
	s.Server.Handler().ServeHTTP(rec, req)
	return rec.Code
}

// served waits until a job is taken.
func served(t *testing.T, s *scheduler.Scheduler, request string) {
	t.Helper()
	patiently(t, func() error {
		_, err := s.Jobs.Dispatch(t.Context(), utteranceOf(request))
		return err
	})
}

// patiently tries again while a busy machine, or a Redis that is not back yet, keeps something from succeeding.
func patiently(t *testing.T, do func() error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %v", patience, err)
		}
	}
}

// nothingHappened makes sure that nothing of what was refused has left a trace. A slot that was granted although the
// answer came too late is given back once Redis is there again.
func nothingHappened(t *testing.T, s *scheduler.Scheduler, callers int) {
	t.Helper()
	for i := range callers {
		id := core.JobIDFor("", core.RequestID(fmt.Sprintf("during-%d", i)))
		patiently(t, func() error {
			job, err := s.Store.Get(t.Context(), id)
			switch {
			case errors.Is(err, store.ErrNoJob):
				return nil
			case err == nil && !job.Refused():
				return fmt.Errorf("request %d was refused, and yet there is %+v", i, job)
			}
			return err
		})
	}
	patiently(t, func() error {
		all, err := s.Store.Nodes(t.Context())
		if err != nil {
			return err
		}
		taken := 0
		for _, n := range all {
			taken += n.InFlight()
		}
		if taken != 2 {
			return fmt.Errorf("%d slots are taken, want two: one job before, one after", taken)
		}
		return nil
	})
}
