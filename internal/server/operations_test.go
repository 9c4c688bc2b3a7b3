package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestReady turns when the scheduler is about to stop, while it stays alive.
func TestReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("/readyz").is(obj{"ready": true})
	w.get("/healthz").is(obj{"status": "ok"})
	w.s.Server.SetNotReady()
	a := w.get("/readyz")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), `"ready":false`) {
		t.Errorf("want 503 and ready: false, got %d %s", a.status, a.body)
	}
	w.get("/healthz").is(obj{"status": "ok"})
}

// TestStoppingLetsGo of connections that callers keep: their next try goes to an instance that can help.
func TestStoppingLetsGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	srv := httptest.NewServer(w.s.Server.Handler())
	t.Cleanup(srv.Close)
	for _, stopping := range []bool{false, true} {
		if stopping {
			w.s.Server.SetNotReady()
		}
		resp, err := srv.Client().Get(srv.URL + "/v1/nodes")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Close != stopping {
			t.Errorf("stopping %v: %s, the connection is let go: %v", stopping, resp.Status, resp.Close)
		}
	}
}

// TestVersion says which one runs.
func TestVersion(t *testing.T) {
	t.Parallel()
	newWorld(t).get("/v1/version").is(obj{"version": "test", "go": "go"})
}

// TestHead answers like GET, without the body.
func TestHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/healthz", "/v1/nodes"} {
		if a := w.ask("HEAD", path, "", nil); a.status != 200 || len(a.body) != 0 {
			t.Errorf("HEAD %s: %d %q", path, a.status, a.body)
		}
	}
}

// TestMetrics looks for every family that the design names, after a little of everything has happened.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brief, func(c *config.Config) {
		c.Scheduler.Observability.PathWarnMS = 0 // everything is slow
		c.Scheduler.Dispatch.MaxRetry = 1
	})
	const node, session, tenant = "node-in-no-label", "session-in-no-label", "tenant-in-no-label"
	n := w.node(node, nil)
	body := utterance(obj{"session_id": session, "tenant_id": tenant})
	w.post("/v1/dispatch/f2f", body.with(obj{"src_lang": "de"})).refused(wire.NoCapableNode)
	d, _ := w.begin(body)
	n.ack(d, nil).ok()
	n.beat(obj{"active": active(d)})
	n.done(d, nil).ok()
	n.done(d, obj{"attempt_id": 2}).refused(wire.StaleAttempt)
	w.post("/v1/node/model_not_available", obj{"node_id": node, "service_id": "s"}).ok()
	d, _ = w.begin(body) // never confirmed: an ACK timeout and a retry
	w.reaches(d.JobID, "RETRYING")

	a := w.get("/metrics")
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Fatalf("/metrics: %d %s", a.status, a.header.Get("Content-Type"))
	}
	text := string(a.body)
	for _, sample := range []string{
		// from the seeds
		`node_registration_total{status="new"} 1`,
		`node_heartbeat_latency_ms_count `,
		`pool_query_total{success="true"} `,
		`node_selection_total{result="OK"} 2`,
		`node_selection_total{result="NO_CAPABLE_NODE"} 1`,
		`scheduler_no_available_node_total{reason=`,
		`scheduler_slow_path_total{path="/v1/dispatch/f2f"} `,
		`scheduler_model_na_received_total 1`,
		// ours
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
	} {
		if !strings.Contains(text, "\n"+sample) {
			t.Errorf("/metrics does not show %s", sample)
		}
	}
	for _, id := range []string{node, session, tenant, d.JobID} {
		if strings.Contains(text, id) {
			t.Errorf("a label holds %s: labels must be bounded", id)
		}
	}
}
