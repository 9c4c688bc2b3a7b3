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
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

var (
	callers      = flag.Int("callers", 1000, "how many concurrent dispatches TestWithoutTheStoreNothingIsGranted makes")
	measureTimes = flag.Bool("prompt", false, "check the times of answers against what is promised; needs an idle machine")
)

// redisFault is a way in which Redis can fail and recover.
type redisFault struct {
	name  string
	begin func(*testing.T, *redistest.Server, *redistest.Proxy)
	end   func(*testing.T, *redistest.Server, *redistest.Proxy)
}

var redisFaults = []redisFault{
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
			go func() { _, _ = s.Do("DEBUG", "RELOAD") }()       // returns when all keys are loaded, or never
			retryUntilOK(t, func() error {
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

// TestWithoutTheStoreNothingIsGranted: whatever fault Redis has, every caller is refused in time, none of the refused
// requests takes effect later, and service resumes by itself.
//
//	go test -count=1 -v -run TestWithoutTheStore ./internal/scheduler -callers 5000 -prompt
func TestWithoutTheStoreNothingIsGranted(t *testing.T) {
	t.Parallel()
	for _, a := range redisFaults {
		t.Run(a.name, func(t *testing.T) {
			if !*measureTimes {
				t.Parallel()
			}
			redis := redistest.Start(t, redistest.WithConfig("enable-debug-command", "yes"))
			proxy := redistest.StartProxy(t, redis.Addr())
			cfg := config.Default()
			cfg.Server.Port = 0
			cfg.Store = proxy.URL()
			withoutHeartbeats(&cfg)
			c := &cfg.Scheduler // and without ACKs
			c.Dispatch.ACKTimeoutMS, c.Dispatch.AttemptTimeoutMS, c.Dispatch.JobTimeoutMS = 300_000, 400_000, 500_000
			cfg.Server.ShutdownSeconds = 0
			var delivered atomic.Int64
			transport := fleet.Direct(func(context.Context, *core.Node, *wire.Assignment, dispatch.Report) error {
				delivered.Add(1)
				return nil
			})
			s, _ := runTest(t, func() *scheduler.Scheduler { return newSchedulerWith(t, cfg, transport) })
			slots, url := 10_000, "http://127.0.0.1:9/jobs"
			for i := range 4 {
				p := core.Change{Declaration: core.Declaration{Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}}, MaxJobs: slots, Callback: url}}
				retryUntilOK(t, func() error {
					_, err := s.Nodes.Register(t.Context(), core.NodeID(fmt.Sprintf("n%d", i)), p, nodes.Caller{}, store.Activity{})
					return err
				})
			}
			waitForDispatch(t, s, "before")

			a.begin(t, redis, proxy)
			slowest := refuseAll(t, s, *callers)
			if readiness(s) != http.StatusServiceUnavailable {
				t.Error("the scheduler is ready")
			}
			if up := testutil.ToFloat64(s.Metrics.StoreUp); up != 0 {
				t.Errorf("lingua_store_up is %v", up)
			}
			a.end(t, redis, proxy)
			recovered := time.Now()
			waitForDispatch(t, s, "after")
			back := time.Since(recovered)
			t.Logf("%s: %d callers refused within %v; service was back after %v", a.name, *callers, slowest.Round(time.Millisecond), back.Round(time.Millisecond))
			if *measureTimes && (slowest > 500*time.Millisecond || back > 2*time.Second) {
				t.Errorf("refused within %v, want 500ms; back after %v, want 2s", slowest, back)
			}
			wantNoEffect(t, s, *callers)
			if n := delivered.Load(); n != 2 {
				t.Errorf("%d jobs were delivered, want the one before and the one after", n)
			}
		})
	}
}

// refuseAll makes many concurrent dispatches, which must all be refused because the store is down, and returns how long
// the slowest took.
func refuseAll(t *testing.T, s *scheduler.Scheduler, callers int) time.Duration {
	t.Helper()
	var slowest atomic.Int64
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range callers {
		wg.Go(func() {
			<-gate
			began := time.Now()
			_, err := s.Jobs.Dispatch(t.Context(), requestFor(fmt.Sprintf("during-%d", i)))
			took := int64(time.Since(began))
			for longest := slowest.Load(); took > longest && !slowest.CompareAndSwap(longest, took); longest = slowest.Load() {
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

// waitForDispatch dispatches a request until it is accepted.
func waitForDispatch(t *testing.T, s *scheduler.Scheduler, request string) {
	t.Helper()
	retryUntilOK(t, func() error {
		_, err := s.Jobs.Dispatch(t.Context(), requestFor(request))
		return err
	})
}

// wantNoEffect checks that the refused requests had no effect. A slot that was granted although the
// reply came too late is released once Redis is back.
func wantNoEffect(t *testing.T, s *scheduler.Scheduler, callers int) {
	t.Helper()
	for i := range callers {
		id := core.JobIDFor("", core.RequestID(fmt.Sprintf("during-%d", i)))
		retryUntilOK(t, func() error {
			job, err := s.Store.Get(t.Context(), id)
			switch {
			case errors.Is(err, store.ErrNoJob):
				return nil
			case err == nil && !job.Refused():
				return fmt.Errorf("request %d was refused, but its record is %+v", i, job)
			}
			return err
		})
	}
	retryUntilOK(t, func() error {
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

// TestReadyzReportsRedisFault: /readyz says what Redis reports, until Redis does not answer or is available again.
func TestReadyzReportsRedisFault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason     string
		begin, end func(*testing.T, *redistest.Server, *redistest.Proxy)
	}{
		"full":      {"is full and takes no writes", faultNamed("full").begin, faultNamed("full").end},
		"read-only": {"is a replica and takes no writes", faultNamed("read-only").begin, faultNamed("read-only").end},
		"closed": {
			"its password is missing",
			func(t *testing.T, s *redistest.Server, p *redistest.Proxy) {
				do(t, s, "CONFIG", "SET", "requirepass", "s3cret")
				p.Cut()
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			proxy := redistest.StartProxy(t, redis.Addr())
			instances := startCluster(t, proxy.URL(), config.Default(), nil)
			ready := func() string {
				rec := httptest.NewRecorder()
				req := httptest.NewRequest(http.MethodGet, "/readyz", nil)
				req.Host = "127.0.0.1"
				instances[0].Server.Handler().ServeHTTP(rec, req)
				return rec.Body.String()
			}
			for _, in := range instances { // before Redis refuses new connections
				waitUntil(t, "it to be ready", waitLimit, func() bool { return in.peer.Get(t.Context(), "/readyz", new(wire.ReadyResponse)) == nil })
			}
			c.begin(t, redis, proxy)
			waitUntil(t, "/readyz to report: "+c.reason, waitLimit, func() bool { return strings.Contains(ready(), c.reason) })
			proxy.Refuse(true)
			waitUntil(t, "/readyz to report that Redis does not answer", waitLimit, func() bool { return strings.Contains(ready(), "does not answer") })
			proxy.Refuse(false)
			if c.end == nil {
				return
			}
			c.end(t, redis, proxy)
			waitUntil(t, "it to be ready again", waitLimit, func() bool { return strings.Contains(ready(), `"ready":true`) })
		})
	}
}

// faultNamed returns one of redisFaults.
func faultNamed(name string) redisFault {
	for _, a := range redisFaults {
		if a.name == name {
			return a
		}
	}
	panic(name)
}
