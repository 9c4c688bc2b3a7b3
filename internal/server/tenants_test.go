package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// withTenants gives the tenant acme one of everything, and every other tenant two jobs.
func withTenants(c *config.Config) {
	weight := 2.5
	c.Scheduler.Tenants = []config.Tenant{
		{ID: "acme", Weight: &weight, MaxInFlight: 1, MaxSessions: 1, DispatchPerSecond: 10, AudioSecondsPerMinute: 600},
		{ID: "*", MaxInFlight: 2},
	}
}

// tenantsAs is GET /v1/tenants with a key.
func (ts *testScheduler) tenantsAs(key, query string) wire.TenantList {
	ts.t.Helper()
	var list wire.TenantList
	ts.requestAs(key, "GET", "/v1/tenants"+query, nil).decode(&list)
	return list
}

func TestTenantLimitRefusesADispatch(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, withTenants)
	ts.registerNode("n1", nil)
	d, n := ts.dispatchAndReceive(dispatchBody(object{"tenant_id": "acme"}))
	r := ts.post("/v1/dispatch/f2f", dispatchBody(object{"tenant_id": "acme"}))
	want := &wire.Error{
		Code: wire.RateLimited, RetryAfter: 1, RetryAfterMS: 500,
		Detail: "tenant acme has 1 job in flight, and its max_in_flight is 1: try again when one has ended",
	}
	if diff := cmp.Diff(want, r.expectError(wire.RateLimited)); diff != "" || r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q, refusal (-want +got)\n%s", r.header.Get("Retry-After"), diff)
	}
	ts.dispatchAndReceive(dispatchBody(object{"tenant_id": "beta"}))
	n.ack(d, nil).expectOK()
	n.done(d, nil).expectOK()
	ts.eventually("acme has room", func() bool {
		return ts.post("/v1/dispatch/f2f", dispatchBody(object{"tenant_id": "acme"})).status == http.StatusOK
	})
}

// TestTenantLimitsOfSessions: a session beyond the limit is refused, and an utterance after too much audio gets an error as its terminal
// message.
func TestTenantLimitsOfSessions(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, fastAudio, func(c *config.Config) {
		c.Scheduler.Tenants = []config.Tenant{{ID: "*", MaxSessions: 1, AudioSecondsPerMinute: 1}}
	})
	n, s := ts.connectNode("n1"), ts.startSession(nil)
	second := ts.connect("/ws/session")
	second.send(object{"type": "session_start", "langs": []string{"en", "es"}})
	if e := second.readUntil("error"); e["error"] != "RATE_LIMITED" || e["retry_after_ms"] != 5000.0 || !strings.Contains(e["detail"].(string), "has 1 session, and its max_sessions is 1") {
		t.Errorf("the second session: %v", e)
	}
	s.sendBinary(noise(3 * 32_000)) // three seconds
	s.send(object{"type": "audio_chunk", "is_final": true})
	job := n.readUntil("job_assign")
	s.sendUtterance()
	n.send(object{"type": "job_result", "job_id": job["job_id"], "attempt_id": 1, "result": object{"text_tgt": "hola"}}) // errors come in order
	e := s.readUntil("error")
	if retry, _ := e["retry_after_ms"].(float64); e["error"] != "RATE_LIMITED" || e["utterance_index"] != 1.0 || retry < 60_000 || retry > 120_000 ||
		!strings.Contains(e["detail"].(string), "more audio than its audio_seconds_per_minute of 1 allows: try again in ") {
		t.Errorf("the second utterance: %v", e)
	}
	s.send(object{"type": "session_end"})
}

// TestTenantsAreListed: tenants with their limits and what they use. A caller of one tenant sees only that one.
func TestTenantsAreListed(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithRoles(t, withTenants)
	registerKeyed(ts, "gpu-1", gpuToken)
	dispatchFor := func(tenant string) response {
		return ts.requestAs(operatorKey, "POST", "/v1/dispatch/f2f", dispatchBody(object{"tenant_id": tenant}))
	}
	dispatchFor("acme").decode(new(wire.DispatchResponse))
	ts.nextDelivery()
	if got := dispatchFor("acme").status; got != http.StatusTooManyRequests {
		t.Errorf("the second job: %d", got)
	}
	ts.eventually("the refusal is in the audit log", func() bool {
		return slices.ContainsFunc(ts.auditAs(operatorKey, "").Entries, func(e wire.AuditEntry) bool {
			return e.Action == "POST /v1/dispatch/f2f" && e.Outcome == "denied" && e.Reason == "tenant"
		})
	})
	dispatchFor("beta").decode(new(wire.DispatchResponse))
	got := ts.tenantsAs(viewerKey, "")
	for i := range got.Tenants {
		if d := got.Tenants[i].Dispatches; d != nil {
			if d.Left < 8.9 || d.Left > 10 {
				t.Errorf("%v dispatches are left, want 9 or more after a while", d.Left)
			}
			d.Left = 9
		}
	}
	acme := wire.TenantInfo{
		TenantID: "acme", Configured: true, Weight: 2.5, InFlight: wire.TenantUse{Used: 1, Max: 1}, Sessions: wire.TenantUse{Max: 1},
		Dispatches: &wire.TenantRate{Limit: 10, Left: 9}, Audio: &wire.TenantRate{Limit: 600, Left: 600}, Refusals: map[string]int64{"max_in_flight": 1},
	}
	beta := wire.TenantInfo{TenantID: "beta", Weight: 1, InFlight: wire.TenantUse{Used: 1, Max: 2}, Refusals: map[string]int64{}}
	if diff := cmp.Diff(wire.TenantList{Tenants: []wire.TenantInfo{acme, beta}}, got); diff != "" {
		t.Errorf("all tenants (-want +got)\n%s", diff)
	}
	for _, key := range []string{acmeViewerKey, minterKey} {
		if got := ts.tenantsAs(key, ""); len(got.Tenants) != 1 || got.Tenants[0].TenantID != "acme" {
			t.Errorf("a caller of acme sees %+v", got)
		}
		ts.requestAs(key, "GET", "/v1/tenants?tenant_id=beta", nil).expectError(wire.Forbidden)
	}
	if got := ts.tenantsAs(viewerKey, "?tenant_id=unseen"); len(got.Tenants) != 1 || got.Tenants[0].InFlight != (wire.TenantUse{Max: 2}) {
		t.Errorf("a tenant that nobody has seen: %+v", got)
	}
	first := ts.tenantsAs(viewerKey, "?limit=1")
	second := ts.tenantsAs(viewerKey, "?limit=1&cursor="+first.NextCursor)
	if len(first.Tenants) != 1 || first.Tenants[0].TenantID != "acme" || len(second.Tenants) != 1 || second.Tenants[0].TenantID != "beta" || second.NextCursor != "" {
		t.Errorf("pages: %+v, %+v", first, second)
	}
	for _, query := range []string{"?scope=there", "?tenant_id=a/b", "?limit=0", "?weight=1", "?cursor=x"} {
		ts.requestAs(viewerKey, "GET", "/v1/tenants"+query, nil).expectError(wire.InvalidRequest)
	}
	if here := ts.tenantsAs(viewerKey, "?scope=here"); here.Tenants[0].InFlight != (wire.TenantUse{Used: 1, Max: 1}) || here.Tenants[0].Dispatches.Left != 0 {
		t.Errorf("what this instance counts: %+v", here)
	}
}
