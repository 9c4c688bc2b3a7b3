package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	minterKey     = "minter-key-of-acme-0123456789"
	viewerKey     = "viewer-key-0123456789"
	acmeViewerKey = "viewer-key-of-acme-0123456789"
)

// startSchedulerWithRoles starts a scheduler with a key of every role that tests of the audit log use.
func startSchedulerWithRoles(t *testing.T, changes ...func(*config.Config)) *testScheduler {
	t.Helper()
	hash := func(secret string) []string {
		sum := sha256.Sum256([]byte(secret))
		return []string{hex.EncodeToString(sum[:])}
	}
	withoutSecret := false // of nodes, which these tests are not about
	return startScheduler(t, append([]func(*config.Config){func(c *config.Config) {
		c.Auth = config.Auth{
			RequireNodeSecret: &withoutSecret,
			SessionSecret:     "a secret of at least thirty-two characters",
			Keys: []config.Key{
				{Name: "ops", Role: "operator", SHA256: hash(operatorKey)},
				{Name: "grafana", Role: "viewer", SHA256: hash(viewerKey)},
				{Name: "acme-grafana", Role: "viewer", Tenant: "acme", SHA256: hash(acmeViewerKey)},
				{Name: "acme-backend", Role: "minter", Tenant: "acme", SHA256: hash(minterKey)},
				{Name: "gpus", Role: "node", Nodes: "gpu-*", SHA256: hash(gpuToken)},
				{Name: "acme-gpus", Role: "node", Tenant: "acme", Nodes: "acme-*", SHA256: hash(acmeToken)},
			},
		}
	}}, changes...)...)
}

// auditAs reads the audit log with a key.
func (ts *testScheduler) auditAs(key, query string) wire.AuditList {
	ts.t.Helper()
	var list wire.AuditList
	ts.requestAs(key, "GET", "/v1/audit"+query, nil).decode(&list)
	return list
}

// auditLine is an entry without what differs in each run.
func auditLine(e *wire.AuditEntry) string {
	line := fmt.Sprintf("%s/%s@%s %s %s %s", e.Key, e.Role, e.TenantID, e.Action, e.Object, e.Outcome)
	if e.Reason != "" {
		line += " " + e.Reason
	}
	return line
}

func auditLines(list wire.AuditList) []string {
	lines := make([]string, len(list.Entries))
	for i := range list.Entries {
		lines[i] = auditLine(&list.Entries[i])
	}
	return lines
}

// expectAudit waits until the log has these entries after a position, and no others, and returns the position after them.
func (ts *testScheduler) expectAudit(after string, want ...string) (next string) {
	ts.t.Helper()
	var list wire.AuditList
	var got []string
	query := "?limit=1000"
	if after != "" {
		query += "&after=" + after
	}
	ts.eventually("the audit log has the entries", func() bool {
		list = ts.auditAs(operatorKey, query)
		got = auditLines(list)
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		ts.t.Errorf("(-want +got)\n%s", diff)
	}
	return list.Next
}

// TestChangesAreAudited: every change of state by a key is in the audit log, with its outcome.
func TestChangesAreAudited(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithRoles(t)
	var minted wire.SessionTokenResponse
	ts.requestAs(minterKey, "POST", "/v1/sessions", object{"session_id": "room-1"}).decode(&minted)
	ts.requestAs(operatorKey, "POST", "/v1/sessions", object{"session_id": "room-2", "tenant_id": "beta"}).decode(new(wire.SessionTokenResponse))
	ts.requestAs(minterKey, "POST", "/v1/sessions", object{"session_id": "room-1", "ttl_seconds": -1}).expectError(wire.InvalidRequest)
	ts.requestAs(gpuToken, "POST", "/v1/node/register", minimalDeclaration("gpu-1")).decode(new(wire.RegisterResponse))
	ts.requestAs(gpuToken, "POST", "/v1/node/register", minimalDeclaration("gpu-2").with(object{"max_concurrent_jobs": -1})).expectError(wire.InvalidRequest)
	full := minimalDeclaration("gpu-3").with(object{"callback_url": "http://127.0.0.1:9/jobs"})
	ts.requestAs(gpuToken, "POST", "/v1/node/heartbeat", full).decode(new(wire.HeartbeatResponse)) // it registers the node
	ts.requestAs(gpuToken, "POST", "/v1/node/heartbeat", full).decode(new(wire.HeartbeatResponse)) // it does not
	ts.requestAs(operatorKey, "POST", "/v1/nodes/gpu-1/drain", nil).decode(new(wire.Node))
	ts.requestAs(operatorKey, "POST", "/v1/nodes/gpu-1/resume", nil).decode(new(wire.Node))
	ts.requestAs(operatorKey, "DELETE", "/v1/nodes/gpu-1", nil).decode(new(wire.NodeRemoved))
	ts.requestAs(operatorKey, "DELETE", "/v1/nodes/gpu-1", nil).expectError(wire.NotFound)
	ts.requestAs(operatorKey, "POST", "/v1/dlq/purge", object{"ids": []string{"i/1-1"}}).decode(new(wire.DeadLettersResponse))
	ts.requestAs(operatorKey, "POST", "/v1/dlq/replay", object{"all": true}).decode(new(wire.DeadLettersResponse))
	ts.requestAs(operatorKey, "POST", "/v1/jobs/job-1/cancel", nil).expectError(wire.NotFound)
	next := ts.expectAudit("",
		"acme-backend/minter@acme session.mint session/room-1 ok",
		"ops/operator@beta session.mint session/room-2 ok",
		"acme-backend/minter@acme session.mint  failed INVALID_REQUEST",
		"gpus/node@ node.register node/gpu-1 ok",
		"gpus/node@ node.register node/gpu-2 failed INVALID_REQUEST",
		"gpus/node@ node.register node/gpu-3 ok",
		"ops/operator@ node.drain node/gpu-1 ok",
		"ops/operator@ node.resume node/gpu-1 ok",
		"ops/operator@ node.remove node/gpu-1 ok",
		"ops/operator@ node.remove node/gpu-1 failed NOT_FOUND",
		"ops/operator@ dlq.purge dlq/1 messages failed 1 of 1 failed",
		"ops/operator@ dlq.replay dlq/0 messages ok",
		"ops/operator@ job.cancel job/job-1 failed NOT_FOUND",
	)
	ts.auditSockets(next, minted.Token)
}

// auditSockets does everything over sockets that is audited.
func (ts *testScheduler) auditSockets(next, token string) {
	ts.t.Helper()
	n := ts.dialAs("/ws/node", acmeToken, false)
	n.send(minimalDeclaration("acme-1").with(object{"type": "node_register"}))
	resume := n.readUntil("node_register_ack")["resume_token"]
	n.send(object{"type": "node_heartbeat", "tenant_id": "beta", "active": []object{}})
	n.readUntil("error")
	again := ts.dialAs("/ws/node", acmeToken, false)
	again.send(minimalDeclaration("acme-1").with(object{"type": "node_register", "resume_token": resume}))
	again.readUntil("node_register_ack")
	again.send(object{"type": "node_leave"})
	again.expectNormalClose()

	s := ts.dialAs("/ws/session", token, true)
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}})
	started := s.readUntil("session_started")
	ts.eventually("the audit log has the start", func() bool { // which is written after the answer
		lines := auditLines(ts.auditAs(operatorKey, "?limit=1000&after="+next))
		return slices.Contains(lines, "acme-backend/session@acme session.start session/room-1 ok")
	})
	_ = s.ws.CloseNow()
	s = ts.dialAs("/ws/session", token, true)
	s.send(object{"type": "session_resume", "session_id": "room-1", "resume_token": "another token", "last_seq": 0})
	s.readUntil("error")
	s = ts.dialAs("/ws/session", token, true)
	s.send(object{"type": "session_resume", "session_id": "room-1", "resume_token": started["resume_token"], "last_seq": 0})
	s.readUntil("session_resumed")
	for _, renewal := range []string{"not-a-token", operatorKey} {
		s.send(object{"type": "session_update", "token": renewal})
		s.readUntil("error")
	}
	var longer wire.SessionTokenResponse
	ts.requestAs(minterKey, "POST", "/v1/sessions", object{"session_id": "room-1", "ttl_seconds": 7200}).decode(&longer)
	s.send(object{"type": "session_update", "token": token}) // which is in force, so that nothing changes
	s.send(object{"type": "session_update", "token": longer.Token})
	s.send(object{"type": "session_end"})
	s.readUntil("session_ended")
	ts.expectAudit(next,
		"acme-gpus/node@acme node.register node/acme-1 ok",
		"acme-gpus/node@acme node.message node/acme-1 denied wrong_tenant",
		"acme-gpus/node@acme node.reconnect node/acme-1 ok",
		"acme-gpus/node@acme node.leave node/acme-1 ok",
		"acme-backend/session@acme session.start session/room-1 ok",
		"acme-backend/session@acme session.resume session/room-1 denied resume_token",
		"acme-backend/session@acme session.resume session/room-1 ok",
		"acme-backend/session@acme session.renew session/room-1 denied unknown",
		"acme-backend/session@acme session.renew session/room-1 failed INVALID_REQUEST",
		"acme-backend/minter@acme session.mint session/room-1 ok",
		"acme-backend/session@acme session.renew session/room-1 ok",
		"acme-backend/session@acme session.end session/room-1 ok",
	)
}

// TestCancelIsAudited: a cancelled job has the tenant of the job, and one that had ended was not cancelled.
func TestCancelIsAudited(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(object{"tenant_id": "acme"}))
	ts.cancelJob(d.JobID)
	ts.post("/v1/jobs/"+d.JobID+"/cancel", nil).decode(new(wire.CancelResponse))
	ts.expectAudit("", "/operator@ node.register node/n1 ok",
		"/operator@acme job.cancel job/"+d.JobID+" ok", "/operator@acme job.cancel job/"+d.JobID+" ok")
	finished, n := ts.dispatchAndReceive(dispatchBody(nil))
	n.done(finished, object{"result": object{"text_tgt": "好"}}).expectOK()
	next := ts.auditAs(operatorKey, "").Next
	ts.post("/v1/jobs/"+finished.JobID+"/cancel", nil).decode(new(wire.CancelResponse))
	ts.expectAudit(next, "/operator@ job.cancel job/"+finished.JobID+" failed ended")
}

// TestEveryRouteHasAnAction: a route that is not read-only is audited, unless it is part of the data plane.
func TestEveryRouteHasAnAction(t *testing.T) {
	t.Parallel()
	dataPlane := []string{
		"POST /v1/dispatch/explain", // changes nothing
		"POST /v1/dispatch/f2f", "POST /v1/job/ack", "POST /v1/job/done", "POST /v1/job/fail", "POST /v1/node/heartbeat", "POST /v1/node/model_not_available",
		"PUT /v1/audio/{id}/tts",
	}
	var without []string
	for route, action := range startScheduler(t).scheduler.Server.Actions() {
		switch reads := strings.HasPrefix(route, "GET "); {
		case reads && action != "":
			t.Errorf("%s has the action %s: reading is not audited", route, action)
		case !reads && action == "":
			without = append(without, route)
		case !reads && !strings.Contains(action, "."):
			t.Errorf("%s has the action %s: want an object and a verb, such as node.drain", route, action)
		}
	}
	slices.Sort(without)
	if diff := cmp.Diff(dataPlane, without); diff != "" {
		t.Errorf("routes without an action (-want +got)\n%s", diff)
	}
}

// TestRequestIDs: the caller's id is used if it is valid, otherwise one is made; it is in the answer and in the audit entry.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	send := func(id string) string {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, ts.url+"/v1/nodes/n1/drain", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["X-Request-Id"] = []string{id}
		return ts.sendRequest(req).header.Get("X-Request-Id")
	}
	var want []string
	for _, id := range []string{"mine-1", "", "not valid", strings.Repeat("x", 129), `"><script>`} {
		got := send(id)
		if id == "mine-1" && got != id {
			t.Errorf("%q was answered with %q", id, got)
		}
		if id != "mine-1" && (got == id || !core.ValidID(got) || slices.Contains(want, got)) {
			t.Errorf("%q was answered with %q: want a new id", id, got)
		}
		want = append(want, got)
	}
	ts.expectAudit("", slices.Repeat([]string{"/operator@ node.drain node/n1 failed NOT_FOUND"}, len(want))...)
	var got []string
	for _, e := range ts.auditAs("", "").Entries {
		got = append(got, e.RequestID)
		if e.Address != "127.0.0.1" || !strings.HasPrefix(e.Instance, "i-") || e.AtMS == 0 {
			t.Errorf("%+v", e)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-answered +recorded)\n%s", diff)
	}
	for _, path := range []string{"/healthz", "/nowhere", "/v1//nodes"} {
		if ts.get(path).header.Get("X-Request-Id") == "" {
			t.Errorf("%s is answered without an id", path)
		}
	}
}

// TestAuditQueries: the log can be filtered and followed, and a tenant's key sees only what concerns its tenant.
func TestAuditQueries(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithRoles(t)
	for range 3 {
		ts.requestAs(minterKey, "POST", "/v1/sessions", object{"session_id": "room-1"}).decode(new(wire.SessionTokenResponse))
		ts.requestAs(operatorKey, "POST", "/v1/sessions", object{"session_id": "room-2", "tenant_id": "acme"}).decode(new(wire.SessionTokenResponse))
		ts.requestAs(operatorKey, "POST", "/v1/sessions", object{"session_id": "room-3", "tenant_id": "beta"}).decode(new(wire.SessionTokenResponse))
		ts.requestAs(operatorKey, "POST", "/v1/nodes/gpu-1/drain", nil).expectError(wire.NotFound)
	}
	ts.requestAs("an-unknown-credential", "GET", "/v1/nodes", nil).expectError(wire.Unauthorized)
	ts.eventually("everything is in the log", func() bool { return len(ts.auditAs(viewerKey, "").Entries) == 13 })
	count := func(key, query string, want int) wire.AuditList {
		t.Helper()
		list := ts.auditAs(key, query)
		if len(list.Entries) != want {
			t.Errorf("%s has %d entries, want %d: %v", query, len(list.Entries), want, auditLines(list))
		}
		return list
	}
	count(viewerKey, "?key=acme-backend", 3)
	count(viewerKey, "?action=node.drain", 3)
	count(viewerKey, "?outcome=denied", 1)
	count(viewerKey, "?action=session.mint&key=ops&outcome=ok", 6)
	count(viewerKey, "?limit=2", 2)
	if list := count(viewerKey, "?action=session.mint&limit=1", 1); list.Entries[0].Object != "session/room-3" {
		t.Errorf("the newest of an action: %v", auditLines(list))
	}
	own := count(acmeViewerKey, "", 6)
	for _, e := range own.Entries {
		if e.TenantID != "acme" || (e.Address == "") != (e.Role == "operator") {
			t.Errorf("%+v", e)
		}
	}
	// By pages of one, every entry is read once, also with a filter.
	for key, want := range map[string]int{viewerKey: 13, acmeViewerKey: 6} {
		var lines []string
		for after := "1-0"; ; { // before everything
			list := ts.auditAs(key, "?limit=1&after="+after)
			if after = list.Next; len(list.Entries) == 0 {
				break
			}
			lines = append(lines, auditLines(list)...)
		}
		if len(lines) != want {
			t.Errorf("%d entries in pages of one, want %d: %v", len(lines), want, lines)
		}
	}
	for _, bad := range []string{"after=x", "outcome=party", "limit=0", "limit=x", "limit=1001", "since=1"} {
		ts.requestAs(viewerKey, "GET", "/v1/audit?"+bad, nil).expectError(wire.InvalidRequest)
	}
	ts.requestAs(minterKey, "GET", "/v1/audit", nil).expectError(wire.Forbidden)
}

// TestAuditHasNoSecrets puts speech and secrets into every field that a client controls, and looks for them in the log and the file.
func TestAuditHasNoSecrets(t *testing.T) {
	t.Parallel()
	const token = "canary-token-4714 with spaces"
	file := filepath.Join(t.TempDir(), "audit.log")
	ts := startSchedulerWithRoles(t, func(c *config.Config) { c.Audit.Output = file })
	speech := strings.ReplaceAll(spokenText, " ", "%20")
	ts.rawRequest("GET /v1/nodes?token="+audioKey+"&text="+speech+" HTTP/1.1", "Authorization: Bearer "+token)
	for _, path := range []string{"/v1/nodes/" + speech + "/drain", "/v1/jobs/" + speech + "/cancel", "/v1/audio/" + speech, "/" + speech} {
		for _, credential := range []string{operatorKey, viewerKey, token} {
			for _, method := range []string{"POST", "GET", "DELETE", "BREW"} {
				ts.rawRequest(method+" "+path+"?token="+audioKey+" HTTP/1.1", "Authorization: Bearer "+credential,
					"X-Request-Id: "+spokenText, "User-Agent: "+spokenText, "X-Lingua-Peer: "+audioKey, "Origin: https://"+spokenWord, "Cookie: a="+audioKey)
			}
		}
	}
	ts.requestAs(gpuToken, "POST", "/v1/node/register", minimalDeclaration(spokenText)).expectError(wire.InvalidRequest)
	ts.requestAs(gpuToken, "POST", "/v1/node/register", minimalDeclaration("gpu-1").with(object{"tenant_id": spokenText})).expectError(wire.InvalidRequest)
	ts.requestAs(minterKey, "POST", "/v1/sessions", object{"session_id": spokenText}).expectError(wire.InvalidRequest)
	ts.requestAs(minterKey, "POST", "/v1/sessions", object{"tenant_id": spokenText}).expectError(wire.InvalidRequest)
	ts.requestAs(operatorKey, "POST", "/v1/dlq/purge", object{"ids": []string{spokenText, audioKey}}).decode(new(wire.DeadLettersResponse))
	n := ts.dialAs("/ws/node", gpuToken, false)
	n.send(minimalDeclaration(spokenText).with(object{"type": "node_register", "resume_token": audioKey}))
	n.readUntil("error")
	var minted wire.SessionTokenResponse
	ts.requestAs(minterKey, "POST", "/v1/sessions", object{"session_id": "room-1"}).decode(&minted)
	for _, first := range []object{
		{"type": "session_start", "langs": []string{spokenText}, "session_id": spokenText},
		{"type": "session_resume", "session_id": spokenText, "resume_token": audioKey},
		{"type": "session_start", "langs": []string{"en", spokenText}, "resume_token": "short"},
	} {
		s := ts.dialAs("/ws/session", minted.Token, true)
		s.send(first)
		s.readUntil("error")
	}
	ts.requestAs(operatorKey, "POST", "/v1/nodes/gpu-9/drain", nil).expectError(wire.NotFound)
	var shown response
	ts.eventually("the last entry is in the log", func() bool {
		shown = ts.requestAs(operatorKey, "GET", "/v1/audit?limit=1000", nil)
		return strings.Contains(string(shown.body), "node/gpu-9")
	})
	var written []byte
	ts.eventually("the last entry is in the file", func() bool {
		var err error
		if written, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(written), "node/gpu-9")
	})
	for where, text := range map[string]string{"/v1/audit": string(shown.body), "the file": string(written), "the log": ts.log.String()} {
		expectNoSecrets(t, where, text)
		for _, secret := range []string{"canary-token", "%20", minted.Token, operatorKey, viewerKey, minterKey, gpuToken} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q", where, secret)
			}
		}
	}
	if n := bytes.Count(written, []byte("\n")); n < 20 {
		t.Errorf("the file has %d lines: the test does not cover it", n)
	}
}

// rawRequest sends a request as it is, with further headers, and reads the answer.
func (ts *testScheduler) rawRequest(line string, headers ...string) {
	ts.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(ts.url, "http://"))
	if err != nil {
		ts.t.Fatal(err)
	}
	defer c.Close()
	_, _ = fmt.Fprintf(c, "%s\r\nHost: 127.0.0.1\r\nConnection: close\r\n%s\r\n\r\n", line, strings.Join(headers, "\r\n"))
	_, _ = io.Copy(io.Discard, c)
}
