package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestReloadOfTenants: a reload puts other weights and limits in force, says so once, and needs no restart for it.
func TestReloadOfTenants(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Scheduler.Tenants = []config.Tenant{{ID: "acme", MaxInFlight: 4}}
	s := newSchedulerWith(t, cfg, nil)
	next := cfg
	s.SetConfigSource(func() (config.Config, []string, error) { return next, nil, nil })
	reloadTenants := func(want ...string) {
		t.Helper()
		result, err := s.Reload(config.ReloadRequest{})
		if diff := cmp.Diff(append([]string{}, want...), result.Changed); err != nil || diff != "" || len(result.NeedsRestart) > 0 {
			t.Errorf("%v, needs restart %q, changed (-want +got)\n%s", err, result.NeedsRestart, diff)
		}
	}
	reloadTenants()
	if got := s.Tenants().Of("acme").InFlight; got != 4 {
		t.Errorf("the limit at the start is %d, want 4", got)
	}
	next.Scheduler.Tenants = []config.Tenant{{ID: "acme", MaxInFlight: 9}, {ID: "*", MaxSessions: 2}}
	reloadTenants("scheduler.tenants: 2 entries")
	if table := s.Tenants(); table.Of("acme").InFlight != 9 || table.Of("other").Sessions != 2 {
		t.Errorf("after the reload: %+v, %+v", table.Of("acme"), table.Of("other"))
	}
	reloadTenants()
}

// countingTransport is a transport to nodes that take a moment for each job, once they may end. It counts the jobs that run: from the delivery
// until their result is reported.
type countingTransport struct {
	mayEnd           chan struct{}           // closed when they may
	report           func(r dispatch.Report) // to any instance
	tasks            sync.WaitGroup
	running, highest atomic.Int64
}

// deliver is fleet.Direct.
func (c *countingTransport) deliver(_ context.Context, _ *core.Node, _ *wire.Assignment, r dispatch.Report) error {
	now := c.running.Add(1)
	for old := c.highest.Load(); now > old && !c.highest.CompareAndSwap(old, now); old = c.highest.Load() {
	}
	c.tasks.Go(func() {
		<-c.mayEnd
		time.Sleep(rand.N(20 * time.Millisecond))
		c.running.Add(-1)
		c.report(r)
	})
	return nil
}

// TestTenantLimitOverInstances: many callers use all of three instances at once. The jobs of the tenant that run are never more than its
// limit, all of which is used, and in the end none is counted.
func TestTenantLimitOverInstances(t *testing.T) {
	t.Parallel()
	const limit, callers, rounds = 5, 12, 10
	cfg := config.Default()
	cfg.Scheduler.Tenants = []config.Tenant{{ID: "*", MaxInFlight: limit}}
	patient(&cfg)
	withoutRetries(&cfg)
	transport := &countingTransport{mayEnd: make(chan struct{})}
	instances := startInstances(t, 3, redistest.Start(t).URL(), cfg, fleet.Direct(transport.deliver))
	transport.report = func(r dispatch.Report) {
		retryUntilOK(t, func() error {
			return instances.anyInstance().Jobs.Reports.Done(context.WithoutCancel(t.Context()), r, []byte(`{"text_tgt":"x"}`))
		})
	}
	register(t, instances[0], "node-a", "en", "zh")
	waitUntil(t, "all instances to see the node", waitLimit, func() bool { return instances.allSee("node-a") })
	var wg sync.WaitGroup
	var refused atomic.Int64
	for caller := range callers {
		wg.Go(func() {
			for round := range rounds {
				r := requestFor(fmt.Sprintf("r-%d-%d", caller, round))
				r.Tenant = "acme"
				retryUntilOK(t, func() error {
					_, err := instances[caller%len(instances)].Jobs.Dispatch(t.Context(), r)
					if e := (*wire.Error)(nil); errors.As(err, &e) && e.Code == wire.RateLimited {
						refused.Add(1)
					}
					return err
				})
			}
		})
	}
	waitUntil(t, "the limit to be used", waitLimit, func() bool { return transport.highest.Load() >= limit && refused.Load() > 0 })
	close(transport.mayEnd)
	wg.Wait()
	transport.tasks.Wait()
	if got := transport.highest.Load(); got != limit {
		t.Errorf("%d jobs ran at once, want %d", got, limit)
	}
	waitUntil(t, "no job to be counted", waitLimit, func() bool {
		use, err := instances[0].Store.ReadTenants(t.Context(), []core.TenantID{"acme"})
		return err == nil && use[0].InFlight == 0
	})
	var list wire.TenantList
	want := wire.TenantList{Tenants: []wire.TenantInfo{{
		TenantID: "acme", Weight: 1, InFlight: wire.TenantUse{Max: limit}, Refusals: map[string]int64{"max_in_flight": refused.Load()},
	}}}
	waitUntil(t, "the answers of all instances", waitLimit, func() bool {
		list = wire.TenantList{}
		retryUntilOK(t, func() error { return instances[1].peer.Get(t.Context(), "/v1/tenants", &list) })
		return !list.Partial
	})
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("what all instances have counted (-want +got)\n%s", diff)
	}
}

// patientSettings keep a node that sends no heartbeats, and its jobs, on a busy machine.
const patientSettings = `[scheduler.nodes]
presence_ttl_ms = 600_000
[scheduler.dispatch]
decide_within_ms = 10_000
heartbeat_stale_ms = 600_000
ack_timeout_ms = 60_000
attempt_timeout_ms = 120_000
job_timeout_ms = 180_000
[scheduler.task_binding]
reserved_ttl_seconds = 61
`

// TestTenantLimitOutlivesAnInstance: an instance is killed whose jobs run. They stay counted until their node has reported their results to
// another instance; a session of the dead instance stays counted, too, and is resumed although its tenant is at the limit.
func TestTenantLimitOutlivesAnInstance(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "lingua.toml")
	const settings = patientSettings + "[[scheduler.tenants]]\nid = \"acme\"\nmax_in_flight = 2\n[[scheduler.tenants]]\nid = \"*\"\nmax_sessions = 1\n"
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	instances := startProcesses(t, 2, redis, []string{"--config", file})
	delivered := make(chan wire.Assignment, 4)
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var a wire.Assignment
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			t.Error(err)
		}
		delivered <- a
	}))
	t.Cleanup(node.Close)
	slots, url := 8, node.URL
	retryUntilOK(t, func() error {
		return instances[1].API.Post(t.Context(), "/v1/node/register", wire.RegisterRequest{NodeID: "n1", Declaration: wire.Declaration{
			SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &slots, CallbackURL: &url,
		}}, new(wire.RegisterResponse))
	})
	send := func(api *lab.API, request string) error {
		return api.Post(t.Context(), "/v1/dispatch/f2f", wire.DispatchRequest{
			TenantID: "acme", SessionID: "s", SrcLang: "en", TgtLang: "zh", RequestID: request, AudioRef: "blob://a",
		}, new(wire.DispatchResponse))
	}
	var jobs []wire.Assignment
	for i := range 2 {
		retryUntilOK(t, func() error { return send(instances[0].API, fmt.Sprint("r", i)) })
		a := <-delivered
		jobs = append(jobs, a)
		retryUntilOK(t, func() error {
			return instances[1].API.Post(t.Context(), "/v1/job/ack", wire.JobAckRequest{JobID: a.JobID, AttemptID: a.AttemptID, NodeID: a.NodeID}, new(wire.OKResponse))
		})
	}
	conn := dialSession(t, instances[0].URL(), wire.SessionStart{SessionID: "s1", Langs: []string{"en", "zh"}})
	var started wire.SessionStarted
	conn.Await(&started)
	instances[0].Process.KillAndWait()

	wantLimited := func(do func() error) {
		t.Helper()
		waitUntil(t, "the limit of the tenant", waitLimit, func() bool {
			err := do()
			e := (*wire.Error)(nil)
			if !errors.As(err, &e) || e.Code != wire.SchedulerDependencyDown && (e.Code != wire.RateLimited || e.RetryAfterMS <= 0) {
				t.Fatalf("%v, want that the limit of the tenant is reached", err)
			}
			return e.Code == wire.RateLimited
		})
	}
	wantLimited(func() error { return send(instances[1].API, "r2") })
	wantLimited(func() error {
		var refusal wire.ErrorFrame
		dialSession(t, instances[1].URL(), wire.SessionStart{SessionID: "s2", Langs: []string{"en", "zh"}}).Await(&refusal)
		return &refusal.Error
	})
	resumed := dialSession(t, instances[1].URL(), wire.SessionResume{SessionID: "s1", ResumeToken: started.ResumeToken})
	resumed.Await(new(wire.SessionResumed))

	retryUntilOK(t, func() error {
		return instances[1].API.Post(t.Context(), "/v1/job/done", wire.JobDoneRequest{
			JobAckRequest: wire.JobAckRequest{JobID: jobs[0].JobID, AttemptID: jobs[0].AttemptID, NodeID: "n1"}, Result: []byte(`{"text_tgt":"x"}`),
		}, new(wire.OKResponse))
	})
	retryUntilOK(t, func() error { return send(instances[1].API, "r3") })
	<-delivered
	wantLimited(func() error { return send(instances[1].API, "r4") })
}
