package server_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	operatorKey = "operator-key-0123456789"
	gpuToken    = "gpu-token-0123456789"
	acmeToken   = "acme-token-0123456789"
)

func startSchedulerWithKeys(t *testing.T, changes ...func(*config.Config)) *testScheduler {
	t.Helper()
	return startScheduler(t, append(changes, setKeys)...)
}

// setKeys configures a key of each kind.
func setKeys(c *config.Config) {
	c.Auth.OperatorKeys, c.Auth.NodeTokens = []string{operatorKey}, []string{"gpu-*=" + gpuToken, "acme-*@acme=" + acmeToken}
	c.Auth.SessionSecret = "a secret of at least thirty-two characters"
}

// requestAs sends a request with a credential.
func (ts *testScheduler) requestAs(token, method, path string, body any) response {
	ts.t.Helper()
	req, err := http.NewRequest(method, ts.url+path, strings.NewReader(string(encode(ts.t, body))))
	if err != nil {
		ts.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return ts.sendRequest(req)
}

// dialAs opens a WebSocket with a credential: in the Authorization header or, like a browser, as a subprotocol.
func (ts *testScheduler) dialAs(path, token string, browser bool) *wsClient {
	ts.t.Helper()
	c, err := ts.tryDialAs(path, token, browser)
	if err != nil {
		ts.t.Fatal(err)
	}
	return c
}

// tryDialAs is dialAs of a connection that may be refused.
func (ts *testScheduler) tryDialAs(path, token string, browser bool) (*wsClient, error) {
	ts.t.Helper()
	ws, resp, err := websocket.Dial(ts.t.Context(), strings.Replace(ts.url, "http", "ws", 1)+path, dialOptions(ts.url, token, browser))
	if err != nil {
		return nil, err
	}
	if got := resp.Header.Get("Sec-WebSocket-Protocol"); got != wire.Subprotocol {
		ts.t.Errorf("the server chose %q", got)
	}
	ws.SetReadLimit(-1)
	ts.t.Cleanup(func() { _ = ws.CloseNow() })
	return &wsClient{t: ts.t, ws: ws, path: path}, nil
}

// dialOptions are the options of a client, or of a browser, with a token.
func dialOptions(origin, token string, browser bool) *websocket.DialOptions {
	o := &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}, HTTPHeader: http.Header{}}
	if browser {
		o.HTTPHeader.Set("Origin", origin)
	}
	switch {
	case token == "":
	case browser:
		o.Subprotocols = append(o.Subprotocols, wire.TokenSubprotocol+token)
	default:
		o.HTTPHeader.Set("Authorization", "Bearer "+token)
	}
	return o
}

// expectNotUpgraded wants a WebSocket to be refused with a code before the upgrade.
func expectNotUpgraded(ts *testScheduler, path, token string, code wire.Code) {
	ts.t.Helper()
	ws, resp, err := websocket.Dial(ts.t.Context(), strings.Replace(ts.url, "http", "ws", 1)+path, dialOptions(ts.url, token, false))
	if err == nil {
		_ = ws.CloseNow()
		ts.t.Errorf("%s was opened, want %s", path, code)
		return
	}
	if resp == nil {
		ts.t.Fatal(err)
	}
	defer resp.Body.Close()
	var e wire.Error
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Code != code || resp.StatusCode != wirespec.Status(code) {
		ts.t.Errorf("%s: %s %+v (%v), want %s", path, resp.Status, e, err, code)
	}
	if asks := resp.Header.Get("WWW-Authenticate") != ""; asks != (code == wire.Unauthorized) {
		ts.t.Errorf("%s: %s, with WWW-Authenticate: %v", path, resp.Status, asks)
	}
}

// TestSocketsRequireCredential: without a valid credential a socket is refused before the upgrade; a browser, which could not see
// the answer, is refused after it.
func TestSocketsRequireCredential(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	var minted wire.SessionTokenResponse
	ts.requestAs(operatorKey, "POST", "/v1/sessions", object{"session_id": "room-1"}).decode(&minted)
	for path, others := range map[string]string{"/ws/node": minted.Token, "/ws/session": gpuToken} {
		expectNotUpgraded(ts, path, "", wire.Unauthorized)
		expectNotUpgraded(ts, path, "an-unknown-credential", wire.Unauthorized)
		expectNotUpgraded(ts, path, others, wire.Forbidden)
		ts.dialAs(path, "", true).expectClose(wire.Unauthorized, wire.CloseUnauthorized)
		ts.dialAs(path, "an-unknown-credential", true).expectClose(wire.Unauthorized, wire.CloseUnauthorized)
		ts.dialAs(path, others, true).expectClose(wire.Forbidden, wire.CloseForbidden)
	}
}

// TestRefusedSocketsDoNotCountTowardsLimit: refused sockets that the client never closes do not use up the limit of its address.
func TestRefusedSocketsDoNotCountTowardsLimit(t *testing.T) {
	t.Parallel()
	const limit = 2
	ts := startSchedulerWithKeys(t, func(c *config.Config) { c.Scheduler.Sessions.PerAddress = limit })
	for range 5 * limit {
		for _, browser := range []bool{false, true} {
			if browser {
				ts.dialAs("/ws/node", "", true) // and nothing is read
			} else {
				expectNotUpgraded(ts, "/ws/node", "", wire.Unauthorized)
			}
		}
	}
	for i := range limit {
		own := ts.dialAs("/ws/node", gpuToken, false)
		own.send(minimalDeclaration("gpu-" + strconv.Itoa(i)).with(object{"type": "node_register"}))
		own.readUntil("node_register_ack")
	}
}

// expectClose wants an error frame with a code, and then a close with a status.
func (c *wsClient) expectClose(code wire.Code, status wire.CloseCode) {
	c.t.Helper()
	m := c.read()
	if m["type"] != "error" || m["error"] != string(code) || m["fatal"] != true {
		c.t.Errorf("before the close: %v, want %s", m, code)
	}
	if _, _, err := c.ws.Read(c.t.Context()); websocket.CloseStatus(err) != websocket.StatusCode(status) {
		c.t.Errorf("closed with %v, want %d", err, status)
	}
}

func minimalDeclaration(id string) object {
	return object{"node_id": id, "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 1, "active": []object{}}
}

// TestEveryRouteRequiresCredential: each route refuses requests without a credential, with an unknown one, and with one for another
// purpose.
func TestEveryRouteRequiresCredential(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	for _, route := range ts.scheduler.Server.Routes() {
		method, path, _ := strings.Cut(route, " ")
		switch path {
		case "/healthz", "/readyz", "/v1/version", "/openapi.yaml", "/asyncapi.yaml", "/ws/node", "/ws/session", "/login", "/dashboard", "/dashboard/{file...}":
			continue
		}
		path = strings.ReplaceAll(path, "{id}", "x")
		for _, token := range []string{"", "nope", operatorKey + "x"} {
			ts.requestAs(token, method, path, object{}).expectError(wire.Unauthorized)
		}
		forNodes := strings.HasPrefix(path, "/v1/node/") || strings.HasPrefix(path, "/v1/job/")
		if !forNodes && !strings.HasPrefix(path, "/v1/audio/") { // whose credential is part of the URL
			ts.requestAs(gpuToken, method, path, object{}).expectError(wire.Forbidden)
		}
	}
	ts.requestAs(operatorKey, "GET", "/v1/nodes", nil).decode(&wire.NodeList{})
}

// TestNodeTokenCoversOwnNodesOnly: a node's token allows requests only for the nodes and the tenant that it names.
func TestNodeTokenCoversOwnNodesOnly(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	ts.requestAs(gpuToken, "POST", "/v1/node/register", minimalDeclaration("gpu-1")).decode(&wire.RegisterResponse{})
	ts.requestAs(gpuToken, "POST", "/v1/node/register", minimalDeclaration("cpu-1")).expectError(wire.Forbidden)
	ts.requestAs(gpuToken, "POST", "/v1/node/register", minimalDeclaration("")).expectError(wire.Forbidden)
	ts.requestAs(gpuToken, "POST", "/v1/node/heartbeat", object{"node_id": "acme-1"}).expectError(wire.Forbidden)
	for _, path := range []string{"/v1/job/ack", "/v1/job/done", "/v1/job/fail"} {
		ts.requestAs(gpuToken, "POST", path, object{"job_id": "j", "attempt_id": 1, "node_id": "acme-1"}).expectError(wire.Forbidden)
	}
	ts.requestAs(acmeToken, "POST", "/v1/node/register", minimalDeclaration("acme-1").with(object{"tenant_id": "other"})).expectError(wire.Forbidden)
	ts.requestAs(acmeToken, "POST", "/v1/node/register", minimalDeclaration("acme-1")).decode(&wire.RegisterResponse{})
	var n wire.Node
	ts.requestAs(operatorKey, "GET", "/v1/nodes/acme-1", nil).decode(&n)
	if n.TenantID != "acme" {
		t.Errorf("the tenant of the node is %q, and that of its token acme", n.TenantID)
	}

	other := ts.dialAs("/ws/node", gpuToken, false)
	other.send(minimalDeclaration("cpu-1").with(object{"type": "node_register"}))
	other.expectClose(wire.Forbidden, wire.CloseForbidden)
	own := ts.dialAs("/ws/node", gpuToken, false)
	own.send(minimalDeclaration("gpu-2").with(object{"type": "node_register"}))
	own.readUntil("node_register_ack")
}

// TestSessionTokens: a session token is valid for its session only, and no credential is logged.
func TestSessionTokens(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	var minted wire.SessionTokenResponse
	ts.requestAs(operatorKey, "POST", "/v1/sessions", object{"session_id": "room-1", "tenant_id": "acme", "ttl_seconds": 60}).decode(&minted)
	ts.requestAs(operatorKey, "POST", "/v1/sessions", object{"ttl_seconds": 1_000_000}).expectError(wire.InvalidRequest)
	start := object{"type": "session_start", "langs": []string{"en", "es"}}
	other := ts.dialAs("/ws/session", minted.Token, true)
	other.send(start.with(object{"session_id": "room-2"}))
	other.expectClose(wire.Forbidden, wire.CloseForbidden)
	short := ts.dialAs("/ws/session", minted.Token, true)
	short.send(start.with(object{"resume_token": "guessed"}))
	short.expectClose(wire.InvalidRequest, wire.CloseBadMessage)
	const secret = "a resume token of the client"
	for range 2 { // the answer to the first may be lost
		again := ts.dialAs("/ws/session", minted.Token, true)
		again.send(start.with(object{"resume_token": secret}))
		if m := again.readUntil("session_started"); m["session_id"] != "room-1" || m["resume_token"] != secret {
			t.Errorf("%v", m)
		}
	}
	ts.requestAs(operatorKey, "POST", "/v1/sessions", object{"session_id": "room-3"}).decode(&minted)
	own := ts.dialAs("/ws/session", minted.Token, true)
	own.send(start)
	if m := own.readUntil("session_started"); m["session_id"] != "room-3" {
		t.Errorf("%v", m)
	}
	for _, secret := range []string{minted.Token, operatorKey, gpuToken, secret} {
		if strings.Contains(ts.log.String(), secret) {
			t.Error("a credential was logged")
		}
	}
}

func TestNoTokensWithoutKeys(t *testing.T) {
	t.Parallel()
	startScheduler(t).post("/v1/sessions", object{}).expectError(wire.NotFound)
}
