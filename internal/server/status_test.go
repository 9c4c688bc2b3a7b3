package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestNotReadyWhenStopping: a scheduler that stops is not ready, and still alive.
func TestNotReadyWhenStopping(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.get("/readyz").expectBody(object{"ready": true})
	ts.get("/healthz").expectBody(object{"status": "ok"})
	ts.scheduler.Server.SetNotReady()
	a := ts.get("/readyz")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), `"ready":false`) {
		t.Errorf("want 503 and ready: false, got %d %s", a.status, a.body)
	}
	ts.get("/healthz").expectBody(object{"status": "ok"})
}

// TestStoppingClosesConnections: a scheduler that stops closes kept-alive connections, so that the next request goes to another
// instance.
func TestStoppingClosesConnections(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	srv := httptest.NewServer(ts.scheduler.Server.Handler())
	t.Cleanup(srv.Close)
	for _, stopping := range []bool{false, true} {
		if stopping {
			ts.scheduler.Server.SetNotReady()
		}
		resp, err := srv.Client().Get(srv.URL + "/v1/nodes")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Close != stopping {
			t.Errorf("stopping %v: %s, the connection is closed: %v", stopping, resp.Status, resp.Close)
		}
	}
}

// TestVersion: /v1/version has the version of the build.
func TestVersion(t *testing.T) {
	t.Parallel()
	startScheduler(t).get("/v1/version").expectBody(object{"version": "test", "go": "go"})
}

// TestHeadHasNoBody: HEAD is answered like GET, without the body.
func TestHeadHasNoBody(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	for _, path := range []string{"/healthz", "/v1/nodes"} {
		if a := ts.request("HEAD", path, "", nil); a.status != 200 || len(a.body) != 0 {
			t.Errorf("HEAD %s: %d %q", path, a.status, a.body)
		}
	}
}

// TestMetricFamilies: /metrics has every metric family of the design after some activity, with bounded labels.
func TestMetricFamilies(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, shortACKTimeout, func(c *config.Config) {
		c.Scheduler.Observability.PathWarnMS = 0 // every request counts as slow
		c.Scheduler.Dispatch.MaxRetry = 1
	})
	const node, session, tenant = "node-in-no-label", "session-in-no-label", "tenant-in-no-label"
	n := ts.registerNode(node, nil)
	body := dispatchBody(object{"session_id": session, "tenant_id": tenant})
	ts.post("/v1/dispatch/f2f", body.with(object{"src_lang": "de"})).expectError(wire.NoCapableNode)
	d, _ := ts.dispatchAndReceive(body)
	n.ack(d, nil).expectOK()
	n.heartbeat(object{"active": activeList(d)})
	n.done(d, nil).expectOK()
	n.done(d, object{"attempt_id": 2}).expectError(wire.StaleAttempt)
	ts.reportUnavailable(object{"node_id": node, "service_id": "s", "reason": "DOWNLOADING"})
	ts.dispatchAndReceive(body) // never acknowledged: an ACK timeout and a retry
	ts.eventually("count the retry", func() bool {
		return strings.Contains(string(ts.get("/metrics").body), `lingua_retries_total{reason="ACK_TIMEOUT"} 1`)
	})
	a := ts.get("/metrics") // once more: an answer may be older in parts
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Fatalf("/metrics: %d %s", a.status, a.header.Get("Content-Type"))
	}
	text := string(a.body)
	for _, sample := range []string{
		// names from the original design
		`node_registration_total{status="new"} 1`,
		`node_heartbeat_latency_ms_count `,
		`pool_query_total{success="true"} `,
		`node_selection_total{result="OK"} 2`,
		`node_selection_total{result="NO_CAPABLE_NODE"} 1`,
		`scheduler_no_available_node_total{reason="NO_NODE",selector="reserve"} 1`,
		`scheduler_slow_path_total{path="/v1/dispatch/f2f"} `,
		`scheduler_model_na_received_total 1`,
		`scheduler_model_na_by_service_total{service_id="s"} 1`,
		`scheduler_model_na_by_reason_total{reason="installing"} 1`,
		`scheduler_model_na_marked_by_node_total{node_id="` + node + `"} 1`,
		`scheduler_model_na_dropped_total{cause="queue_full"} 0`,
		`scheduler_model_na_queue_length 0`,
		// names of this project
		`lingua_reserve_total{verdict="OK"} 2`,
		`lingua_dispatch_duration_seconds_bucket{outcome="accepted",le="`,
		`lingua_dispatch_duration_seconds_count{outcome="refused"} 1`,
		`lingua_ack_timeouts_total 1`,
		`lingua_retries_total{reason="ACK_TIMEOUT"} 1`,
		`lingua_refusals_total{reason="NO_CAPABLE_NODE"} 1`,
		`lingua_fenced_total{cause="stale_attempt",message="done"} 1`,
		`lingua_jobs_total{state="DONE"} 1`,
		`lingua_deliveries_total{result="delivered"} 2`,
		`lingua_jobs_in_flight{direction="en→zh"} 1`,
		`lingua_capacity_slots{direction="en→zh"} 2`,
		`lingua_used_slots{direction="en→zh"} `,
	} {
		if !strings.Contains(text, "\n"+sample) {
			t.Errorf("/metrics does not show %s", sample)
		}
	}
	text = strings.ReplaceAll(text, "scheduler_model_na_marked_by_node_total{node_id=\""+node, "") // which has a limited number of nodes
	text = strings.ReplaceAll(text, "lingua_waiting_requests_by_tenant{tenant=\""+tenant, "")      // the same of tenants: the retry may wait
	for _, id := range []string{node, session, tenant, d.JobID} {
		if strings.Contains(text, id) {
			t.Errorf("a label holds %s: labels must be bounded", id)
		}
	}
}

// TestReadinessChecksAreShared: any number of requests for /readyz check the store at most four times a second.
func TestReadinessChecksAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var pings atomic.Int64
		var down atomic.Bool
		s := server.New(server.Options{
			Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler), SlowAfter: time.Hour,
			StoreHealth: storeCheck(func(ctx context.Context) error {
				pings.Add(1)
				select {
				case <-time.After(10 * time.Millisecond): // a round trip
				case <-ctx.Done():
					return ctx.Err()
				}
				if down.Load() {
					return errors.New("down")
				}
				return nil
			}),
		})
		ask := func(ctx context.Context) int {
			rec := httptest.NewRecorder()
			s.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
			return rec.Code
		}
		// The request that began the check ends early: the others still get its result.
		first, endFirst := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { ask(first) })
		synctest.Wait()
		endFirst()
		for range 1000 {
			all.Go(func() {
				if got := ask(t.Context()); got != http.StatusOK {
					t.Errorf("ready: %d", got)
				}
			})
		}
		all.Wait()
		if n := pings.Load(); n != 1 {
			t.Errorf("the store was checked %d times for a thousand requests", n)
		}
		down.Store(true)
		time.Sleep(250 * time.Millisecond)
		for range 10 {
			if got := ask(t.Context()); got != http.StatusServiceUnavailable {
				t.Errorf("250 ms after the store went down: %d", got)
			}
		}
		if n := pings.Load(); n != 2 {
			t.Errorf("a store that is down was checked %d times for ten requests", n-1)
		}
	})
}

// TestNotReadyUntilFleetIsKnown: an instance that may not know all nodes yet is not ready.
func TestNotReadyUntilFleetIsKnown(t *testing.T) {
	t.Parallel()
	partial := true
	s := server.New(server.Options{
		Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler), SlowAfter: time.Hour,
		StoreHealth: storeCheck(nil), Partial: func() bool { return partial },
	})
	ask := func() *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return rec
	}
	if rec := ask(); rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "does not know every node") {
		t.Errorf("before the fleet was read: %d %s", rec.Code, rec.Body)
	}
	partial = false
	if rec := ask(); rec.Code != http.StatusOK {
		t.Errorf("after it was: %d %s", rec.Code, rec.Body)
	}
}

// storeCheck is a store with this check; nil: one that answers.
type storeCheck func(context.Context) error

func (h storeCheck) Check(ctx context.Context) error {
	if h == nil {
		return nil
	}
	return h(ctx)
}

func (h storeCheck) Reachable() bool { return h.Check(context.Background()) == nil }

// readyz requests /readyz of a server with this check of the store.
func readyz(t *testing.T, log *logBuffer, ping func(context.Context) error) *httptest.ResponseRecorder {
	t.Helper()
	s := server.New(server.Options{
		Metrics: telemetry.New(), Log: slog.New(slog.NewTextHandler(log, nil)), SlowAfter: time.Hour, StoreHealth: storeCheck(ping),
	})
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	return rec
}

// TestPanicIsAnsweredAndLogged: a panic in a handler is answered with INTERNAL, and logged with its place.
func TestPanicIsAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	log := new(logBuffer)
	rec := readyz(t, log, func(context.Context) error { panic("the store is on fire") })
	var e wire.Error
	if err := json.Unmarshal(rec.Body.Bytes(), &e); err != nil || rec.Code != http.StatusInternalServerError || e.Code != wire.Internal {
		t.Errorf("want 500 INTERNAL, got %d %s", rec.Code, rec.Body)
	}
	if strings.Contains(rec.Body.String(), "fire") {
		t.Errorf("the answer contains the panic: %s", rec.Body)
	}
	if text := log.String(); !strings.Contains(text, "fire") || !strings.Contains(text, "status_test.go") {
		t.Errorf("the log must have the panic and its place:\n%s", text)
	}
}

// TestAbortedHandler: http.ErrAbortHandler is left to net/http, which closes the connection.
func TestAbortedHandler(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // the very value is what net/http looks for
			t.Errorf("want the abort to go through, got %v", p)
		}
	}()
	readyz(t, new(logBuffer), func(context.Context) error { panic(http.ErrAbortHandler) })
}

// TestNotReadyWhenStoreIsUnavailable: the reason is a general one, or the text of a store.UnavailableError, and never contains an
// address.
func TestNotReadyWhenStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	for reason, err := range map[string]error{
		"the shared store does not answer": errors.New("dial tcp 10.0.0.1:6379: refused"),
		"the shared store is full":         fmt.Errorf("at 10.0.0.1:6379: %w", store.UnavailableError("the shared store is full")),
	} {
		rec := readyz(t, new(logBuffer), func(context.Context) error { return err })
		if got := strings.TrimSpace(rec.Body.String()); rec.Code != http.StatusServiceUnavailable || got != `{"ready":false,"reason":"`+reason+`"}` {
			t.Errorf("%d %s, want %s", rec.Code, got, reason)
		}
	}
}

// TestHeadersOfEveryAnswer: no answer is kept by a cache or taken for another type than it says, and over TLS browsers are told to stay with it.
func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	s := server.New(server.Options{
		Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler), SlowAfter: time.Hour, StoreHealth: storeCheck(nil),
	})
	for _, path := range []string{"/metrics", "/readyz", "/openapi.yaml", "/nothing"} {
		for _, scheme := range []string{"http", "https"} {
			rec := httptest.NewRecorder()
			s.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, scheme+"://localhost"+path, nil))
			h := rec.Result().Header
			if h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || (h.Get("Strict-Transport-Security") != "") != (scheme == "https") {
				t.Errorf("%s of %s: %v", path, scheme, h)
			}
		}
	}
}
