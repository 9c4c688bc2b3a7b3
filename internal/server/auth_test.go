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

func guarded(t *testing.T, changes ...func(*config.Config)) *world {
	t.Helper()
	return newWorld(t, append(changes, func(c *config.Config) {
		c.Auth = config.Auth{
			OperatorKeys: []string{operatorKey}, NodeTokens: []string{"gpu-*=" + gpuToken, "acme-*@acme=" + acmeToken},
			SessionSecret: "a secret of at least thirty-two characters",
		}
	})...)
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
	ws, resp, err := websocket.Dial(w.t.Context(), strings.Replace(w.url, "http", "ws", 1)+path, w.credential(token, browser))
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

// credential is how a browser, or anything else, sends a token.
func (w *world) credential(token string, browser bool) *websocket.DialOptions {
	o := &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}, HTTPHeader: http.Header{}}
	if browser {
		o.HTTPHeader.Set("Origin", w.url)
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

// notUpgraded wants that a WebSocket is refused with a code before it is one.
func (w *world) notUpgraded(path, token string, code wire.Code) {
	w.t.Helper()
	ws, resp, err := websocket.Dial(w.t.Context(), strings.Replace(w.url, "http", "ws", 1)+path, w.credential(token, false))
	if err == nil {
		_ = ws.CloseNow()
		w.t.Errorf("%s was opened, want %s", path, code)
		return
	}
	if resp == nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var e wire.Error
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Code != code || resp.StatusCode != wirespec.Status(code) {
		w.t.Errorf("%s: %s %+v (%v), want %s", path, resp.Status, e, err, code)
	}
	if asks := resp.Header.Get("WWW-Authenticate") != ""; asks != (code == wire.Unauthorized) {
		w.t.Errorf("%s: %s, and asks for a credential: %v", path, resp.Status, asks)
	}
}

// TestSocketsWantTheirCredentialFirst: before the upgrade, unless a page asks, which could not see why it was refused.
func TestSocketsWantTheirCredentialFirst(t *testing.T) {
	t.Parallel()
	w := guarded(t)
	var minted wire.SessionTokenResponse
	w.as(operatorKey, "POST", "/v1/sessions", obj{"session_id": "room-1"}).into(&minted)
	for path, others := range map[string]string{"/ws/node": minted.Token, "/ws/session": gpuToken} {
		w.notUpgraded(path, "", wire.Unauthorized)
		w.notUpgraded(path, "nobody-knows-this-one", wire.Unauthorized)
		w.notUpgraded(path, others, wire.Forbidden)
		w.dial(path, "", true).closedWith(wire.Unauthorized, wire.CloseUnauthorized)
		w.dial(path, "nobody-knows-this-one", true).closedWith(wire.Unauthorized, wire.CloseUnauthorized)
		w.dial(path, others, true).closedWith(wire.Forbidden, wire.CloseForbidden)
	}
}

// TestRefusedSocketsCountForNobody: an address that is refused again and again, and never closes its side, keeps its places.
func TestRefusedSocketsCountForNobody(t *testing.T) {
	t.Parallel()
	const most = 2
	w := guarded(t, func(c *config.Config) { c.Scheduler.Sessions.PerAddress = most })
	for range 5 * most {
		for _, browser := range []bool{false, true} {
			if browser {
				w.dial("/ws/node", "", true) // and reads nothing
			} else {
				w.notUpgraded("/ws/node", "", wire.Unauthorized)
			}
		}
	}
	for i := range most {
		own := w.dial("/ws/node", gpuToken, false)
		own.say(declaration("gpu-" + strconv.Itoa(i)).with(obj{"type": "node_register"}))
		own.until("node_register_ack")
	}
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
	var minted wire.SessionTokenResponse
	w.as(operatorKey, "POST", "/v1/sessions", obj{"session_id": "room-1", "tenant_id": "acme", "ttl_seconds": 60}).into(&minted)
	w.as(operatorKey, "POST", "/v1/sessions", obj{"ttl_seconds": 1_000_000}).refused(wire.InvalidRequest)
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
