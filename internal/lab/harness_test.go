package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testScheduler is a scheduler with the memory store.
type testScheduler struct {
	*scheduler.Scheduler
	url  string
	stop func() // stops it; called at the end of the test at the latest
}

// startScheduler starts a scheduler.
func startScheduler(t *testing.T, changes ...func(*config.Config)) *testScheduler {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 0
	// On a busy machine nodes are slow to acknowledge, and a decision takes longer.
	cfg.Scheduler.Dispatch.DecideWithinMS = 5000
	cfg.Scheduler.Dispatch.ACKTimeoutMS, cfg.Scheduler.TaskBinding.ReservedTTLSeconds = 10_000, 60
	cfg.Scheduler.Sessions.ResumeSeconds = 1
	for _, change := range changes {
		change(&cfg)
	}
	s, err := scheduler.New(t.Context(), cfg, wire.VersionResponse{Version: "test"}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx, l) }()
	ended := false
	stop := func() {
		cancel()
		if !ended {
			ended = true
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return &testScheduler{Scheduler: s, url: "http://" + l.Addr().String(), stop: stop}
}

// testKey is the operator's key of the schedulers that have one.
const testKey = "operator-key-0123456789"

// awaitNoSessions waits until the scheduler has no session. It keeps one that has ended for ResumeSeconds, in case the client
// did not receive the end.
func (s *testScheduler) awaitNoSessions(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	retry := run.Backoff{Min: time.Millisecond, Max: 100 * time.Millisecond}
	if !retry.Retry(ctx, func() error {
		if n := s.Sessions.Len(); n > 0 {
			return fmt.Errorf("%d sessions", n)
		}
		return nil
	}) {
		t.Errorf("%d sessions are left", s.Sessions.Len())
	}
}

// counter returns the value of a series of the scheduler's metrics, such as lingua_jobs_total{state="DONE"}.
func (s *testScheduler) counter(t *testing.T, series string) int {
	t.Helper()
	resp, err := http.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindSubmatch(body)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// testConfig is a run of half a second that every machine can make. Unless the requests come evenly, once in 10¹⁰ there is none.
func testConfig(mode Mode, url string) LoadConfig {
	return LoadConfig{
		URLs: []string{url}, Name: "test", Mode: mode, Rate: 60, Warmup: 100 * time.Millisecond, Duration: 400 * time.Millisecond,
		Pairs: []Pair{PrivatePair}, Speech: 200 * time.Millisecond, Timeout: 30 * time.Second, Poll: 10 * time.Millisecond, MaxLag: time.Minute,
		Nodes: 2, Slots: 64, Work: 5 * time.Millisecond, WorkSpread: 0.3,
	}
}

// mustRun makes a run and checks what holds for every report.
func mustRun(t *testing.T, ctx context.Context, cfg LoadConfig) *Report { //nolint:revive // t is first in all helpers
	t.Helper()
	r, err := RunLoad(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	q := r.Requests
	failures := 0
	for _, f := range r.Failures {
		failures += f.Count
	}
	if q.Planned != q.Done+q.Failed || failures != q.Failed || q.Sent > q.Planned {
		t.Errorf("the numbers do not add up: %+v, failures %+v", q, r.Failures)
	}
	if l := r.Latency.Whole; (q.Done > 0) != (l != nil) || l != nil && l.Count != int64(q.Done) {
		t.Errorf("%d results and the latencies %+v", q.Done, l)
	}
	return r
}

// text returns a report as text.
func (r *Report) text(histogram bool) string {
	var b bytes.Buffer
	r.WriteText(&b, histogram)
	return b.String()
}
