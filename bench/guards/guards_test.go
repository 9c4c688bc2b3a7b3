package guards

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestBesideModelHubFaults measures dispatch while the ModelHub is down, hangs and answers rubbish.
func TestBesideModelHubFaults(t *testing.T) {
	services := make([]health.HubService, 1000)
	for i := range services {
		services[i] = health.HubService{ServiceID: fmt.Sprintf("service-%04d", i), Name: "a service", Type: "nmt", Versions: []string{"2.0", "1.0"}}
	}
	hub := lab.NewModelHub("", services...)
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		hub.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		hub.SetFault(lab.FaultNone) // for requests that hang
		server.Close()
	})
	s, _ := serve(t, func(c *config.Config) {
		c.Scheduler.ModelHub.URL, c.Scheduler.ModelHub.RefreshSeconds, c.Scheduler.ModelHub.TimeoutMS = server.URL+lab.ServicesPath, 1, 500
	})
	fault := func(name string, f lab.Fault) condition {
		return condition{name, func() func() {
			hub.SetFault(f)
			return func() { hub.SetFault(lab.FaultNone) }
		}}
	}
	r := measure(t, s, condition{name: "calm"},
		condition{"ModelHub down", func() func() {
			down.Store(true)
			return func() { down.Store(false) }
		}},
		fault("ModelHub hanging", lab.FaultHang), fault("ModelHub answering rubbish", lab.FaultRubbish))
	lists, _ := hub.Requests("")
	t.Logf("the ModelHub got %d requests while it was up", lists)
	for _, beside := range r[1:] {
		compare(t, r[0], beside, besideOurs)
	}
}

// TestBesideStats measures dispatch beside requests for the statistics, and beside as many requests to a handler with a constant answer of the
// same size.
func TestBesideStats(t *testing.T) {
	s, url := serve(t)
	var body []byte
	for ctx := t.Context(); body == nil; {
		if resp, err := get(ctx, url+"/api/v1/stats"); err == nil && resp.status == http.StatusOK {
			body = resp.body
		}
	}
	constant := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	defer constant.Close()
	g := startGenerator(t)
	r := measure(t, s, condition{name: "calm"},
		condition{"constant answers", func() func() { return g.begin(load{URL: constant.URL, Rate: statsRate}) }},
		condition{"statistics", func() func() { return g.begin(load{URL: url + "/api/v1/stats", Rate: statsRate}) }})
	t.Logf("%d bytes an answer; %s", len(body), g.summary())
	compare(t, r[1], r[2], besideOurs)
	compareWithCalm(t, r[0], r[1:]...)
}

type response struct {
	status int
	body   []byte
}

func get(ctx context.Context, url string) (response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return response{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, body}, err
}

// TestBesideReports measures dispatch beside reports that a service is not available, which 100 nodes send over their WebSockets, and beside
// as many messages to a WebSocket whose handler only decodes them.
func TestBesideReports(t *testing.T) {
	s, url := serve(t)
	sink := startSink(t)
	g := startGenerator(t)
	g.connect(sink)
	g.connect(url)
	r := measure(t, s, condition{name: "calm"},
		condition{"messages that are only decoded", func() func() { return g.begin(load{URL: sink, Rate: reportRate, Reports: true}) }},
		condition{"reports", func() func() { return g.begin(load{URL: url, Rate: reportRate, Reports: true}) }})
	t.Log(g.summary())
	compare(t, r[1], r[2], besideOurs)
	compareWithCalm(t, r[0], r[1:]...)
}

// TestBesideEnqueuedReports measures dispatch beside ten times as many reports that are enqueued in the same process, and beside as many calls
// of a function that only makes the reports.
func TestBesideEnqueuedReports(t *testing.T) {
	s, _ := serve(t)
	report := func(i int) core.UnavailableReport {
		return core.UnavailableReport{UnavailableService: core.UnavailableService{Node: inprocess.NodeID(i % fleetNodes), Service: fmt.Sprint("service-", i%1000), Reason: core.UnavailableRuntimeError}}
	}
	var made atomic.Int64
	r := measure(t, s, condition{name: "calm"},
		condition{"reports that are only made", func() func() {
			return repeat(t, enqueueRate, func(_ context.Context, i int) error {
				made.Add(int64(len(report(i).Service)))
				return nil
			})
		}},
		condition{"enqueued reports", func() func() {
			return repeat(t, enqueueRate, func(ctx context.Context, i int) error { return s.Nodes.ReportUnavailable(ctx, report(i)) })
		}})
	compare(t, r[1], r[2], besideOurs)
	compareWithCalm(t, r[0], r[1:]...)
}

// TestBesideHeartbeats measures dispatch beside the heartbeats of the fleet, and beside ten times as many. What ten times the heartbeats of a
// fleet of 1,000 nodes do is printed: they are 2,000 scripts a second on the processor of Redis, which dispatch shares.
func TestBesideHeartbeats(t *testing.T) {
	s, _ := serve(t)
	const interval, large = 5, 1000 // seconds; nodes
	beside := func(name string, nodes int) condition {
		return condition{name, func() func() { return heartbeats(t, s, nodes/interval) }}
	}
	r := measure(t, s, beside("heartbeats", fleetNodes), beside("ten times the heartbeats", 10*fleetNodes),
		beside("heartbeats of 1,000 nodes", large), beside("ten times those", 10*large))
	compare(t, r[0], r[1], besideOurs)
	t.Logf("%s: %.3f of %s", r[3].name, stats.Median(r[3].p99)/stats.Median(r[2].p99), r[2].name)
}

// heartbeats sends so many heartbeats a second until it is stopped. Each declares everything that a node can declare.
func heartbeats(t *testing.T, s *scheduler.Scheduler, perSecond int) (stop func()) {
	t.Helper()
	slots, url, load := nodeSlots, "http://127.0.0.1:9/jobs", core.Load{CPU: 0.3, GPU: 0.5, Memory: 0.4}
	var sending sync.WaitGroup
	stopRepeating := repeat(t, perSecond, func(ctx context.Context, i int) error {
		sending.Go(func() {
			_, err := s.Nodes.Heartbeat(ctx, nodes.Heartbeat{
				Node:     inprocess.NodeID(i % fleetNodes),
				Change:   core.Change{Declaration: core.Declaration{Health: core.HealthReady, Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}}, MaxJobs: slots, Callback: url}, Load: &load},
				Activity: store.Activity{},
			})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
		return nil
	})
	return func() {
		stopRepeating()
		sending.Wait()
	}
}

// repeat calls fn so many times a second until it is stopped.
func repeat(t *testing.T, perSecond int, fn func(ctx context.Context, i int) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		inprocess.CallAtRate(ctx, time.Hour, perSecond, func(i int) {
			if err := fn(ctx, i); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	})
	return func() {
		cancel()
		running.Wait()
	}
}
