package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/test/stalltest"
	"github.com/lingua-scheduler/lingua/wire"
)

// buildDir is where buildOnce builds. TestMain creates and removes it.
var buildDir string

// buildOnce builds the scheduler, once for all tests that run it as a process.
var buildOnce = sync.OnceValues(func() (string, error) { return clustertest.Build(buildDir, "lingua") })

// TestMain checks that a scheduler that has stopped leaves no goroutine behind.
func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "scheduler"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.TopologyTimer), goleak.IgnoreAnyFunction(redistest.RemovedConnections), goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}

// startProcesses starts instances on a Redis, each a process of its own with further arguments and environment.
func startProcesses(t *testing.T, count int, redis *redistest.Server, args []string, env ...string) []*clustertest.Instance {
	t.Helper()
	binary, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	instances := make([]*clustertest.Instance, count)
	for i := range instances {
		name := fmt.Sprintf("i-%d", i)
		in := clustertest.NewInstance(t, name, binary, filepath.Join(t.ArtifactDir(), name+".log"))
		in.Args = args
		in.Env = append([]string{"LINGUA_STORE=" + redis.URL(), "LINGUA_SCHEDULER_PHASE2_INSTANCE_ID=" + name}, env...)
		if err := in.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		instances[i] = in
	}
	return instances
}

// Several tests run two instances in this process that share nothing but a Redis.

// instance is one scheduler of a cluster, with an HTTP client of it.
type instance struct {
	*scheduler.Scheduler
	peer *lab.API
}

// cluster is several instances that share a store. Nodes and clients use any of them.
type cluster []*instance

// startCluster runs two instances on the store at a URL until the test ends. A nil transport calls nodes over HTTP.
func startCluster(t *testing.T, url string, cfg config.Config, transport dispatch.Transport) cluster {
	t.Helper()
	return startInstances(t, 2, url, cfg, transport)
}

// startInstances runs instances on the store at a URL until the test ends.
func startInstances(t *testing.T, count int, url string, cfg config.Config, transport dispatch.Transport) cluster {
	t.Helper()
	cfg.Store = url
	cfg.Server.Port, cfg.Server.ShutdownSeconds, cfg.Server.DrainDelayMS = 0, 1, 0
	instances := make(cluster, count)
	for i := range instances {
		s, url := runTest(t, func() *scheduler.Scheduler { return newSchedulerWith(t, cfg, transport) })
		instances[i] = &instance{s, lab.NewAPI(url)}
		t.Cleanup(instances[i].peer.Close)
	}
	return instances
}

func (instances cluster) anyInstance() *instance { return instances[rand.N(len(instances))] }

// allSee reports whether every instance has all of these nodes in its fleet.
func (instances cluster) allSee(ids ...core.NodeID) bool {
	for _, in := range instances {
		for _, id := range ids {
			if in.Fleet.Node(id) == nil {
				return false
			}
		}
	}
	return true
}

func (instances cluster) inFlight() int {
	n := 0
	for _, in := range instances {
		n += in.Jobs.InFlight()
	}
	return n
}

// sumMetric sums a metric over all instances by one of its labels.
func (instances cluster) sumMetric(t *testing.T, metric, label string) map[string]int {
	t.Helper()
	sums := make(map[string]int)
	for _, in := range instances {
		families, err := in.Metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != metric {
				continue
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == label && m.GetCounter().GetValue() > 0 {
						sums[l.GetValue()] += int(m.GetCounter().GetValue())
					}
				}
			}
		}
	}
	return sums
}

// waitUntil polls until a condition holds and returns how long that took. The limit only ends a test
// that would never end.
func waitUntil(t *testing.T, what string, limit time.Duration, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > limit {
			t.Fatalf("waited %v for %s", limit, what)
		}
		run.Sleep(t.Context(), pollInterval(time.Since(began)))
	}
	return time.Since(began)
}

// retryWhileDown repeats an operation until Redis answers in time, which on a busy machine it may not.
func retryWhileDown(t *testing.T, operation func() error) {
	t.Helper()
	waitUntil(t, "an answer", waitLimit, func() bool {
		err := operation()
		var e *wire.Error
		if errors.Is(err, store.ErrDown) || errors.As(err, &e) && e.Code == wire.SchedulerDependencyDown {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	})
}

// detectStalls measures for how long this process does not run, on a machine that is busy.
func detectStalls(t *testing.T) *stalltest.Detector {
	d, stop := stalltest.Start()
	t.Cleanup(stop)
	return d
}

// quantile returns a quantile of a sorted list.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(100 * time.Microsecond)
}

func sorted(list []time.Duration) []time.Duration {
	slices.Sort(list)
	return list
}

// chiSquare returns how far counts are from being equal, and the limit that independent choices exceed once in 10⁹ experiments, by Wilson
// and Hilferty's approximation. Choices of the less busy node are far more equal than that, also on a busy machine.
func chiSquare(counts []int) (chi, limit float64) {
	total := 0
	for _, n := range counts {
		total += n
	}
	expected := float64(total) / float64(len(counts))
	for _, n := range counts {
		chi += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	const z = 5.9978
	k := float64(len(counts) - 1)
	return chi, k * math.Pow(1-2/(9*k)+z*math.Sqrt(2/(9*k)), 3)
}

func newScheduler(t *testing.T, cfg config.Config) *scheduler.Scheduler {
	t.Helper()
	return newSchedulerWith(t, cfg, nil)
}

func newSchedulerWith(t *testing.T, cfg config.Config, transport dispatch.Transport) *scheduler.Scheduler {
	t.Helper()
	var s *scheduler.Scheduler
	retryUntilOK(t, func() (err error) {
		s, err = scheduler.New(t.Context(), cfg, wire.VersionResponse{}, slog.New(slog.DiscardHandler), transport)
		return err
	})
	return s
}

// waitLimit bounds every wait of these tests. It only ends a test that would never end: on a busy machine, waits take many times longer.
const waitLimit = 3 * time.Minute

// pollInterval is between two looks at what a test has waited for so long. Most of them are requests: without a pause they would keep a processor
// busy, and on a busy machine those that fail would be the reason why the next ones fail.
func pollInterval(waited time.Duration) time.Duration {
	return min(max(waited/20, 3*time.Millisecond), 100*time.Millisecond)
}

var discardLog = slog.New(slog.DiscardHandler)

// tone returns PCM of a tone at 16 kHz.
func tone(ms int) []byte { return lab.Tone(time.Duration(ms) * time.Millisecond) }

// startScheduler runs a scheduler until the test ends and returns its URL.
func startScheduler(t *testing.T, cfg config.Config) string {
	t.Helper()
	_, url := runTest(t, func() *scheduler.Scheduler { return newScheduler(t, cfg) })
	return url
}

// runTest makes a scheduler, runs it until the test ends, and returns it with its URL once it is announced. An instance ends when Redis does not
// answer its announcement in time, as on a busy machine: then another one is made.
func runTest(t *testing.T, create func() *scheduler.Scheduler) (*scheduler.Scheduler, string) {
	t.Helper()
	for began := time.Now(); ; run.Sleep(t.Context(), pollInterval(time.Since(began))) {
		s := create()
		l, err := s.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, l) }()
		waitUntil(t, "the announcement of an instance", waitLimit, func() bool { return len(ended) > 0 || s.Bus.PresenceAge() > 0 })
		if len(ended) == 0 {
			t.Cleanup(func() {
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
			return s, "http://" + l.Addr().String()
		}
		stop()
		if err := <-ended; time.Since(began) > waitLimit {
			t.Fatal(err)
		}
	}
}

func do(t *testing.T, s *redistest.Server, args ...string) {
	t.Helper()
	if _, err := s.Do(args...); err != nil {
		t.Fatal(err)
	}
}

func requestFor(id string) dispatch.Request {
	return dispatch.Request{Spec: core.Spec{
		Request: core.RequestID(id), Session: "session-1", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a",
	}}
}

// retryUntilOK repeats an operation that a busy machine, or a Redis that is not back yet, may fail.
func retryUntilOK(t *testing.T, do func() error) {
	t.Helper()
	for began := time.Now(); ; run.Sleep(t.Context(), pollInterval(time.Since(began))) {
		err := do()
		if err == nil {
			return
		}
		if time.Since(began) > waitLimit {
			t.Fatalf("not in %v: %v", waitLimit, err)
		}
	}
}

// fastConfig is a configuration in which a failover takes about as long, compared with everything else, as it does with the
// default.
func fastConfig() config.Config {
	cfg := config.Default()
	c := &cfg.Scheduler
	c.Nodes.HeartbeatIntervalMS, c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 500, 8000, 8000
	c.Dispatch.ACKTimeoutMS, c.Dispatch.AttemptTimeoutMS, c.Dispatch.JobTimeoutMS = 1500, 10_000, 25_000
	c.TaskBinding.ReservedTTLSeconds, c.TaskBinding.LeaseSeconds = 2, 3600
	c.Observability.PathWarnMS = 60_000
	return cfg
}

// withoutHeartbeats makes the nodes of a test, which send no heartbeats, stay however slow the machine is.
func withoutHeartbeats(c *config.Config) {
	c.Scheduler.Nodes.PresenceTTLMS, c.Scheduler.Dispatch.HeartbeatStaleMS = 600_000, 600_000
}

// patient is withoutHeartbeats for tests in which Redis and the instances stay: no call and no instance is given up on a slow machine.
func patient(c *config.Config) {
	withoutHeartbeats(c)
	c.Scheduler.Dispatch.DecideWithinMS, c.Scheduler.Phase2.HeartbeatTTLSeconds = 10_000, 60
}

// withoutRetries makes no attempt be repeated because a slow machine acknowledges it late.
func withoutRetries(c *config.Config) {
	c.Scheduler.Dispatch.ACKTimeoutMS, c.Scheduler.Dispatch.AttemptTimeoutMS, c.Scheduler.Dispatch.JobTimeoutMS = 60_000, 120_000, 180_000
	c.Scheduler.TaskBinding.ReservedTTLSeconds = 61
}

func declaration(langs ...core.Lang) core.Change {
	slots, url := 1000, "http://127.0.0.1:9/jobs"
	return core.Change{Declaration: core.Declaration{Capability: core.Capability{Semantic: langs}, MaxJobs: slots, Callback: url}}
}

func register(t *testing.T, in *instance, id core.NodeID, langs ...core.Lang) {
	t.Helper()
	retryWhileDown(t, func() error {
		_, err := in.Nodes.Register(t.Context(), id, declaration(langs...), nodes.Caller{}, store.Activity{Lists: true})
		return err
	})
}

// instantTransport is a transport to nodes that finish each job at once.
type instantTransport struct {
	fleet.Direct
	jobs atomic.Pointer[dispatch.Dispatcher]
}

func newInstantTransport() *instantTransport {
	i := new(instantTransport)
	i.Direct = func(ctx context.Context, _ *core.Node, _ *wire.Assignment, r dispatch.Report) error {
		return i.jobs.Load().Reports.Done(ctx, r, nil)
	}
	return i
}
