package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestDenialsAreAuditedAndCounted: every denial is counted by its reason, and is in the log.
func TestDenialsAreAuditedAndCounted(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithRoles(t, func(c *config.Config) {
		c.Scheduler.Sessions.PerAddress = 1
		c.Auth.Keys[slices.IndexFunc(c.Auth.Keys, func(k config.Key) bool { return k.Name == "gpus" })].MaxNodes = 1
	})
	ts.requestAs("", "GET", "/v1/nodes", nil).expectError(wire.Unauthorized)
	ts.requestAs("an-unknown-credential", "POST", "/v1/nodes/gpu-1/drain", nil).expectError(wire.Unauthorized)
	ts.requestAs("a.b.c", "GET", "/v1/jobs/job-1", nil).expectError(wire.Unauthorized)
	ts.requestAs(viewerKey, "POST", "/v1/nodes/gpu-1/drain", nil).expectError(wire.Forbidden)
	ts.requestAs(acmeViewerKey, "GET", "/v1/instances", nil).expectError(wire.Forbidden)
	ts.requestAs(gpuToken, "POST", "/v1/node/register", minimalDeclaration("cpu-1")).expectError(wire.Forbidden)
	ts.requestAs(gpuToken, "POST", "/v1/job/ack", object{"job_id": "job-1", "attempt_id": 1, "node_id": "cpu-1"}).expectError(wire.Forbidden)
	ts.requestAs(minterKey, "POST", "/v1/sessions", object{"tenant_id": "beta"}).expectError(wire.Forbidden)
	ts.requestAs("", "GET", "/v1/audio/job-1?token=x", nil).expectError(wire.Unauthorized)
	next := ts.expectAudit("",
		"/@ GET /v1/nodes  denied missing",
		"/@ node.drain node/gpu-1 denied unknown",
		"/@ GET /v1/jobs/{id} jobs/job-1 denied malformed",
		"grafana/viewer@ node.drain node/gpu-1 denied wrong_role",
		"acme-grafana/viewer@acme GET /v1/instances  denied wrong_tenant",
		"gpus/node@ node.register node/cpu-1 denied wrong_node",
		"gpus/node@ POST /v1/job/ack node/cpu-1 denied wrong_node",
		"acme-backend/minter@acme session.mint  denied wrong_tenant",
		"/@ GET /v1/audio/{id} sockets/job-1 denied audio_url",
	)

	// Nodes beyond the limit of a key.
	ts.requestAs(gpuToken, "POST", "/v1/node/register", minimalDeclaration("gpu-1")).decode(new(wire.RegisterResponse))
	ts.requestAs(gpuToken, "POST", "/v1/node/register", minimalDeclaration("gpu-2")).expectError(wire.RateLimited)
	// Sockets: of another origin, before the upgrade, after it for a browser, by their first message, and beyond the limit.
	foreign, resp, err := websocket.Dial(t.Context(), strings.Replace(ts.url, "http", "ws", 1)+"/ws/node", dialOptions("https://elsewhere.example", gpuToken, true))
	if err == nil {
		_ = foreign.CloseNow()
		t.Error("a page of another origin has connected")
	} else {
		resp.Body.Close()
	}
	expectNotUpgraded(ts, "/ws/node", "", wire.Unauthorized)
	ts.dialAs("/ws/session", gpuToken, true).expectClose(wire.Forbidden, wire.CloseForbidden)
	own := ts.dialAs("/ws/node", gpuToken, false)
	own.send(minimalDeclaration("cpu-1").with(object{"type": "node_register"}))
	own.expectClose(wire.Forbidden, wire.CloseForbidden)
	ts.eventually("the socket is closed", func() bool {
		ws, resp, err := websocket.Dial(t.Context(), strings.Replace(ts.url, "http", "ws", 1)+"/ws/node", dialOptions("", gpuToken, false))
		if err == nil {
			own.ws = ws
			t.Cleanup(func() { _ = ws.CloseNow() })
		} else {
			resp.Body.Close()
		}
		return err == nil
	})
	expectNotUpgraded(ts, "/ws/node", gpuToken, wire.RateLimited)
	var got []string
	ts.eventually("the rest is in the log", func() bool {
		got = auditLines(ts.auditAs(operatorKey, "?outcome=denied&after="+next))
		slices.Sort(got)          // denials on several connections have no order
		got = slices.Compact(got) // a try to connect may come too early
		return len(got) >= 6
	})
	if diff := cmp.Diff([]string{
		"/@ GET /ws/node  denied missing",
		"gpus/node@ GET /ws/node  denied origin",
		"gpus/node@ GET /ws/node  denied sockets",
		"gpus/node@ GET /ws/session  denied wrong_role",
		"gpus/node@ node.register node/cpu-1 denied wrong_node",
		"gpus/node@ node.register node/gpu-2 denied nodes",
	}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	metrics := string(ts.requestAs(viewerKey, "GET", "/metrics", nil).body)
	for _, series := range []string{
		`{reason="missing",status="401"} 2`, `{reason="unknown",status="401"} 1`, `{reason="malformed",status="401"} 1`, `{reason="audio_url",status="401"} 1`,
		`{reason="wrong_role",status="403"} 2`, `{reason="wrong_tenant",status="403"} 2`, `{reason="wrong_node",status="403"} 3`, `{reason="origin",status="403"} 1`,
		`{reason="nodes",status="429"} 1`, `{reason="sockets",status="429"} `,
	} {
		if !strings.Contains(metrics, "lingua_denied_total"+series) {
			t.Errorf("lingua_denied_total%s is not in the metrics", series)
		}
	}
}

// TestRefusedConnectionsAreAudited: a connection beyond the limit of its address is a denial, though it sends no request.
func TestRefusedConnectionsAreAudited(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(c *config.Config) { c.Server.PerAddress = 8 })
	address := strings.TrimPrefix(ts.url, "http://")
	var open []net.Conn
	refused := 0
	for refused == 0 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			refused++ // it was refused and closed before the request had come
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	for _, c := range open {
		_ = c.Close()
	}
	var got []wire.AuditEntry
	ts.eventually("the connections are closed, and the refusal is recorded", func() bool {
		resp, err := http.Get(ts.url + "/v1/audit?action=connect")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var list wire.AuditList
		if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&list) != nil {
			return false
		}
		got = list.Entries
		return len(got) > 0
	})
	if e := got[0]; auditLine(&e) != "/@ connect  denied connections" || e.Address != "127.0.0.1" {
		t.Errorf("%+v", e)
	}
	if metrics := string(ts.get("/metrics").body); !strings.Contains(metrics, `lingua_denied_total{reason="connections",status="429"} `) {
		t.Error("the refusal is not counted")
	}
}

// TestDenialsAreSuppressedInTheLogOnly: many denials of one address are counted, and few of them are in the log.
func TestDenialsAreSuppressedInTheLogOnly(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithRoles(t)
	const n = 300
	began := time.Now()
	for range n {
		ts.requestAs("an-unknown-credential", "GET", "/v1/nodes", nil).expectError(wire.Unauthorized)
	}
	if metrics := string(ts.requestAs(viewerKey, "GET", "/metrics", nil).body); !strings.Contains(metrics, fmt.Sprintf(`lingua_denied_total{reason="unknown",status="401"} %d`, n)) {
		t.Error("not every denial is counted")
	}
	most := 20 + int(5*time.Since(began).Seconds()) + 1
	ts.requestAs(operatorKey, "POST", "/v1/nodes/gpu-1/drain", nil).expectError(wire.NotFound)
	var list wire.AuditList
	ts.eventually("the last entry is in the log", func() bool {
		list = ts.auditAs(operatorKey, "?limit=1000")
		return strings.Contains(strings.Join(auditLines(list), "\n"), "node.drain")
	})
	if logged := len(list.Entries) - 1; logged < 20 || logged > most {
		t.Errorf("%d of %d denials of one address are in the log", logged, n)
	}
}

// TestAskingWhoOneIsIsNoDenial: a page that finds out whether it has to log in leaves no entry, but a credential that is not valid does.
func TestAskingWhoOneIsIsNoDenial(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	ts.requestWith(nil, "GET", "/v1/caller", nil).expectError(wire.Unauthorized)
	ts.requestAs("a-guess-of-somebody", "GET", "/v1/caller", nil).expectError(wire.Unauthorized)
	var list wire.AuditList
	ts.eventually("the guess is recorded", func() bool {
		ts.requestAs(keySecret("operator"), "GET", "/v1/audit", nil).decode(&list)
		return len(list.Entries) > 0
	})
	if slices.ContainsFunc(list.Entries, func(e wire.AuditEntry) bool { return e.Reason != "unknown" }) {
		t.Errorf("%+v", list.Entries)
	}
}
