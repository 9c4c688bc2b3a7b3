package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	operatorKey = "operator-key-0123456789"
	gpuToken    = "gpu-token-0123456789"
	acmeToken   = "acme-token-0123456789"
)

func guarded(t *testing.T) *world {
	t.Helper()
	return newWorld(t, func(c *config.Config) {
		c.Auth = config.Auth{
			OperatorKeys: []string{operatorKey}, NodeTokens: []string{"gpu-*=" + gpuToken, "acme-*@acme=" + acmeToken},
			SessionSecret: "a secret of at least thirty-two characters",
		}
	})
}

// as sends a request with a credential.
func (w *world) as(token, method, path string, body any) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(string(encode(w.t, body))))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return w.do(req)
}

// dial connects with a credential, in the header or, as a browser would, among the subprotocols.
func (w *world) dial(path, token string, browser bool) *peer {
	w.t.Helper()
	o := &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}, HTTPHeader: http.Header{}}
	switch {
	case token == "":
	case browser:
		o.Subprotocols = append(o.Subprotocols, wire.TokenSubprotocol+token)
	default:
		o.HTTPHeader.Set("Authorization", "Bearer "+token)
	}
	ws, resp, err := websocket.Dial(w.t.Context(), strings.Replace(w.url, "http", "ws", 1)+path, o)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := resp.Header.Get("Sec-WebSocket-Protocol"); got != wire.Subprotocol {
		w.t.Errorf("the server chose %q", got)
	}
	ws.SetReadLimit(-1)
	w.t.Cleanup(func() { _ = ws.CloseNow() })
	return &peer{t: w.t, ws: ws, path: path}
}

// closedWith reads to the end and wants an error frame with a code before a close with another.
func (p *peer) closedWith(code wire.Code, status wire.CloseCode) {
	p.t.Helper()
	m := p.next()
	if m["type"] != "error" || m["error"] != string(code) || m["fatal"] != true {
		p.t.Errorf("before the close: %v, want %s", m, code)
	}
	if _, _, err := p.ws.Read(p.t.Context()); websocket.CloseStatus(err) != websocket.StatusCode(status) {
		p.t.Errorf("closed with %v, want %d", err, status)
	}
}

func declaration(id string) obj {
	return obj{"node_id": id, "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 1, "active": []obj{}}
}

func TestEveryDoorWantsItsCredential(t *testing.T) {
	t.Parallel()
	w := guarded(t)
	for _, door := range w.s.Server.Doors() {
		method, path, _ := strings.Cut(door, " ")
		switch path {
		case "/healthz", "/readyz", "/v1/version", "/openapi.yaml", "/asyncapi.yaml", "/ws/node", "/ws/session":
			continue
		}
		path = strings.ReplaceAll(path, "{id}", "x")
		for _, token := range []string{"", "nope", operatorKey + "x"} {
			w.as(token, method, path, obj{}).refused(wire.Unauthorized)
		}
		ours := strings.HasPrefix(path, "/v1/node/") || strings.HasPrefix(path, "/v1/job/")
		if !ours && !strings.HasPrefix(path, "/v1/audio/") { // whose credential is its address
			w.as(gpuToken, method, path, obj{}).refused(wire.Forbidden)
		}
	}
	w.as(operatorKey, "GET", "/v1/nodes", nil).into(&wire.NodeList{})
}

func TestNodesSpeakForThemselves(t *testing.T) {
	t.Parallel()
	w := guarded(t)
	w.as(gpuToken, "POST", "/v1/node/register", declaration("gpu-1")).into(&wire.RegisterResponse{})
	w.as(gpuToken, "POST", "/v1/node/register", declaration("cpu-1")).refused(wire.Forbidden)
	w.as(gpuToken, "POST", "/v1/node/register", declaration("")).refused(wire.Forbidden)
	w.as(gpuToken, "POST", "/v1/node/heartbeat", obj{"node_id": "acme-1"}).refused(wire.Forbidden)
	for _, path := range []string{"/v1/job/ack", "/v1/job/done", "/v1/job/fail"} {
		w.as(gpuToken, "POST", path, obj{"job_id": "j", "attempt_id": 1, "node_id": "acme-1"}).refused(wire.Forbidden)
	}
	w.as(acmeToken, "POST", "/v1/node/register", declaration("acme-1").with(obj{"tenant_id": "other"})).refused(wire.Forbidden)
	w.as(acmeToken, "POST", "/v1/node/register", declaration("acme-1")).into(&wire.RegisterResponse{})
	var n wire.Node
	w.as(operatorKey, "GET", "/v1/nodes/acme-1", nil).into(&n)
	if n.TenantID != "acme" {
		t.Errorf("the node is %q's, and its token acme's", n.TenantID)
	}

	w.dial("/ws/node", "", false).closedWith(wire.Unauthorized, wire.CloseUnauthorized)
	other := w.dial("/ws/node", gpuToken, false)
	other.say(declaration("cpu-1").with(obj{"type": "node_register"}))
	other.closedWith(wire.Forbidden, wire.CloseForbidden)
	own := w.dial("/ws/node", gpuToken, false)
	own.say(declaration("gpu-2").with(obj{"type": "node_register"}))
	own.until("node_register_ack")
}

func TestSessionTokens(t *testing.T) {
	t.Parallel()
	w := guarded(t)
	var minted wire.MintResponse
	w.as(operatorKey, "POST", "/v1/sessions", obj{"session_id": "room-1", "tenant_id": "acme", "ttl_seconds": 60}).into(&minted)
	w.as(operatorKey, "POST", "/v1/sessions", obj{"ttl_seconds": 1_000_000}).refused(wire.InvalidRequest)
	w.dial("/ws/session", "", false).closedWith(wire.Unauthorized, wire.CloseUnauthorized)
	w.dial("/ws/session", gpuToken, false).closedWith(wire.Unauthorized, wire.CloseUnauthorized)
	start := obj{"type": "session_start", "langs": []string{"en", "es"}}
	other := w.dial("/ws/session", minted.Token, true)
	other.say(start.with(obj{"session_id": "room-2"}))
	other.closedWith(wire.Forbidden, wire.CloseForbidden)
	short := w.dial("/ws/session", minted.Token, true)
	short.say(start.with(obj{"resume_token": "guessed"}))
	short.closedWith(wire.InvalidRequest, wire.CloseBadMessage)
	const secret = "of the session's own making"
	for range 2 { // the answer to the first may be lost
		again := w.dial("/ws/session", minted.Token, true)
		again.say(start.with(obj{"resume_token": secret}))
		if m := again.until("session_started"); m["session_id"] != "room-1" || m["resume_token"] != secret {
			t.Errorf("%v", m)
		}
	}
	w.as(operatorKey, "POST", "/v1/sessions", obj{"session_id": "room-3"}).into(&minted)
	own := w.dial("/ws/session", minted.Token, true)
	own.say(start)
	if m := own.until("session_started"); m["session_id"] != "room-3" {
		t.Errorf("%v", m)
	}
	for _, secret := range []string{minted.Token, operatorKey, gpuToken, secret} {
		if strings.Contains(w.log.String(), secret) {
			t.Error("a credential was logged")
		}
	}
}

func TestWithoutKeysNoTokensAreMinted(t *testing.T) {
	t.Parallel()
	newWorld(t).post("/v1/sessions", obj{}).refused(wire.NotFound)
}
