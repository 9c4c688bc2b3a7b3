package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// anonymous gives requests without a credential a role, if they come from this machine.
func anonymous(role string) func(*config.Config) {
	return func(c *config.Config) {
		c.Auth.AnonymousRole, c.Auth.AnonymousFrom, c.Auth.AnonymousHosts = role, []string{"127.0.0.0/8", "::1/128"}, []string{"Ops.example.com"}
	}
}

// credentialRoutes are the routes that need a credential of its own, whatever role a request without one has.
var credentialRoutes = []string{
	"POST /v1/dispatch/f2f", "POST /v1/sessions", "POST /v1/job/ack", "POST /v1/job/done", "POST /v1/job/fail", "POST /v1/node/register", "POST /v1/node/heartbeat",
	"POST /v1/node/model_not_available", "POST /v1/auth/revocations", "DELETE /v1/auth/revocations/{id}", "DELETE /v1/sessions/{id}",
}

// TestAnonymousRoleOnEveryRoute: a request without a credential may do what its role may, except for what needs a credential. A credential that
// is not valid is refused as ever.
func TestAnonymousRoleOnEveryRoute(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"viewer", "operator"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			ts := startMatrix(t, anonymous(role))
			m := newMatrixObjects(ts)
			routes := ts.scheduler.Server.Routes()
			slices.SortStableFunc(routes, func(a, b string) int { return strings.Index(a, "DELETE") - strings.Index(b, "DELETE") })
			for _, route := range routes {
				if slices.Contains(publicRoutes, route) {
					continue
				}
				want := forbidden
				switch {
				case strings.HasPrefix(route, "GET /ws/"):
					want = unauthorized
				case !slices.Contains(credentialRoutes, route) && slices.Contains(matrix[route][allowed], role):
					want = allowed
				}
				for _, credential := range []string{"unknown", "expired", "revoked"} {
					if got := outcomeOf(m.call(route, m.tokens[credential])); got != unauthorized {
						t.Errorf("%s with %q: %s", route, credential, got)
					}
				}
				got := m.call(route, "")
				if route == "POST /v1/config/reload" && want == allowed && got.status == http.StatusNotFound {
					continue // there is no file
				}
				if outcomeOf(got) != want {
					t.Errorf("%s: %s, want %s: %s", route, outcomeOf(got), want, got.body)
				}
			}
		})
	}
}

// anonymousRequest sends a request without a credential.
func (ts *testScheduler) anonymousRequest(method, path, host string, headers ...string) response {
	ts.t.Helper()
	req, err := http.NewRequestWithContext(ts.t.Context(), method, ts.url+path, http.NoBody)
	if err != nil {
		ts.t.Fatal(err)
	}
	req.Host = host
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // the description knows no other hosts
	defer func(c *http.Client) { ts.client = c }(ts.client)
	ts.client = plain
	return ts.sendRequest(req)
}

// TestAnonymousRoleIsNotForOtherSites: a page of another origin never has the role, also not by a name that points to this machine.
func TestAnonymousRoleIsNotForOtherSites(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t, anonymous("operator"))
	own := strings.TrimPrefix(ts.url, "http://")
	for _, c := range []struct {
		name    string
		host    string
		headers []string
		read    int // the status of a read
		write   int // and of a write
	}{
		{"a program", own, nil, 200, 404},
		{"a proxy that keeps the host", "ops.example.com", []string{"X-Forwarded-For", "203.0.113.9"}, 200, 404},
		{"in another case, with a port", "OPS.example.com:8443", nil, 200, 404},
		{"a dot at the end", "ops.example.com.", nil, 200, 404},
		{"localhost", "localhost:5010", nil, 200, 404},
		{"an address of IPv6", "[::1]:5010", nil, 200, 404},
		{"its own page", own, []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://" + own}, 200, 404},
		{"its own page over plain HTTP", "ops.example.com", []string{"Origin", "http://ops.example.com"}, 200, 404},
		{"an address that was typed", own, []string{"Sec-Fetch-Site", "none"}, 200, 404},

		{"DNS rebinding", "evil.example", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://evil.example"}, 401, 401},
		{"DNS rebinding over plain HTTP", "evil.example:80", []string{"Origin", "http://evil.example:80"}, 401, 401},
		{"a name that ends like another", "evil-ops.example.com", nil, 401, 401},
		{"a name below another", "x.ops.example.com", nil, 401, 401},
		{"a name like an address", "127.0.0.1.evil.example", nil, 401, 401},
		{"the name in another header", "evil.example", []string{"X-Forwarded-Host", "ops.example.com"}, 401, 401},
		{"another site", own, []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 401, 403},
		{"a picture on another site", own, []string{"Sec-Fetch-Site", "cross-site"}, 401, 403},
		{"another host of the same site", "ops.example.com", []string{"Sec-Fetch-Site", "same-site"}, 401, 403},
		{"another site over plain HTTP", own, []string{"Origin", "http://evil.example"}, 401, 403},
		{"a page without an origin", own, []string{"Origin", "null"}, 401, 403},
	} {
		if got := ts.anonymousRequest("GET", "/v1/instances", c.host, c.headers...); got.status != c.read {
			t.Errorf("%s reads: %d %s, want %d", c.name, got.status, got.body, c.read)
		}
		if got := ts.anonymousRequest("POST", "/v1/nodes/no-such-node/drain", c.host, c.headers...); got.status != c.write {
			t.Errorf("%s writes: %d %s, want %d", c.name, got.status, got.body, c.write)
		}
	}
	for _, path := range []string{"/ws/node", "/ws/session"} {
		ws, resp, err := websocket.Dial(t.Context(), strings.Replace(ts.url, "http", "ws", 1)+path, dialOptions("", "", false))
		if err == nil {
			_ = ws.CloseNow()
		}
		if resp == nil || resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestAnonymousRoleDependsOnTheConnection: what a header says about the address of the client does not matter.
func TestAnonymousRoleDependsOnTheConnection(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t, anonymous("operator"), func(c *config.Config) { c.Auth.AnonymousFrom = []string{"10.0.0.0/8", "fd00::/8"} })
	own := strings.TrimPrefix(ts.url, "http://")
	for _, header := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "True-Client-Ip", "X-Client-Ip", "Cf-Connecting-Ip"} {
		for _, value := range []string{"10.0.0.5", "for=10.0.0.5", "10.0.0.5, 127.0.0.1", "fd00::1"} {
			if got := ts.anonymousRequest("GET", "/v1/nodes", own, header, value); got.status != http.StatusUnauthorized {
				t.Errorf("%s: %s: %d", header, value, got.status)
			}
		}
	}
}

// TestAnonymousCaller: the dashboard needs no login, and may still have one. The end of a login leaves what everyone has.
func TestAnonymousCaller(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t, anonymous("viewer"))
	caller := func(cookie *http.Cookie) (v wire.Caller) {
		t.Helper()
		ts.requestWith(cookie, "GET", "/v1/caller", nil).decode(&v)
		return v
	}
	if c := caller(nil); c.Role != "viewer" || !c.Anonymous || c.Login || c.Open || c.Key != "anonymous" {
		t.Errorf("%+v", c)
	}
	cookie := ts.login(keySecret("operator"))
	if c := caller(cookie); c.Role != "operator" || c.Anonymous || !c.Login {
		t.Errorf("%+v", c)
	}
	ts.requestWith(cookie, "POST", "/logout", nil).decode(&wire.LogoutResponse{})
	if c := caller(cookie); c.Role != "viewer" || !c.Anonymous {
		t.Errorf("with a cookie that is not valid any more: %+v", c)
	}
	ts.requestWith(cookie, "POST", "/v1/nodes/n1/drain", nil).expectError(wire.Forbidden)
	ts.requestWith(&http.Cookie{Name: "lingua_login", Value: "forged"}, "POST", "/v1/nodes/n1/drain", nil).expectError(wire.Forbidden)
}

// TestAnonymousOperatorCannotRevoke: a request without a credential makes no credential invalid and none valid again, whatever its role is.
// The answer says why, a key or a login may, and the audit log has the denial.
func TestAnonymousOperatorCannotRevoke(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t, anonymous("operator"))
	operator := keySecret("operator")
	token := ts.mint(keySecret("minter-acme"), "room-acme")
	var revoked wire.Revocation
	ts.requestAs(operator, "POST", "/v1/auth/revocations", object{"key": "revoked"}).decode(&revoked)
	for _, what := range []object{{"key": "operator"}, {"key": "anonymous"}, {"kid": "1"}, {"tenant": "acme"}, {"session": "room-acme", "tenant_id": "acme"}, {"node": "gpu-1"}} {
		if e := ts.requestWith(nil, "POST", "/v1/auth/revocations", what).expectError(wire.Forbidden); !strings.Contains(e.Detail, "credential of its own") {
			t.Errorf("%v: %s", what, e.Detail)
		}
	}
	ts.requestWith(nil, "DELETE", "/v1/auth/revocations/"+revoked.ID, nil).expectError(wire.Forbidden)
	ts.requestWith(nil, "DELETE", "/v1/sessions/room-acme?tenant_id=acme", nil).expectError(wire.Forbidden)
	for name, want := range map[string]outcome{"operator": allowed, "revoked": unauthorized} {
		if got := outcomeOf(ts.requestAs(keySecret(name), "GET", "/v1/nodes", nil)); got != want {
			t.Errorf("the key %s is %s, want %s", name, got, want)
		}
	}
	if got := outcomeOf(ts.requestAs(token, "GET", "/ws/session", nil)); got == unauthorized {
		t.Error("the session token is revoked")
	}
	ts.eventually("the audit log has the denials", func() bool {
		var list wire.AuditList
		ts.requestAs(operator, "GET", "/v1/audit?key=anonymous&outcome=denied", nil).decode(&list)
		return len(list.Entries) > 0
	})
	ts.requestWith(ts.login(operator), "POST", "/v1/auth/revocations", object{"node": "gpu-1"}).decode(&wire.Revocation{})
}

// TestAnonymousRoleEnds: it ends at once by a revocation of its name, and by a reload, and what it did is in the audit log.
func TestAnonymousRoleEnds(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t, anonymous("operator"))
	own := strings.TrimPrefix(ts.url, "http://")
	registerKeyed(ts, "gpu-1", keySecret("node-shared"))
	if got := ts.anonymousRequest("POST", "/v1/nodes/gpu-1/drain", own); got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	operator := keySecret("operator")
	ts.eventually("the audit log has it", func() bool {
		var list wire.AuditList
		ts.requestAs(operator, "GET", "/v1/audit?key=anonymous&action=node.drain", nil).decode(&list)
		return len(list.Entries) == 1 && list.Entries[0].Role == "operator" && list.Entries[0].Object == "node/gpu-1"
	})
	var revoked wire.Revocation
	ts.requestAs(operator, "POST", "/v1/auth/revocations", object{"key": "anonymous"}).decode(&revoked)
	if len(revoked.Warnings) != 0 {
		t.Errorf("%v", revoked.Warnings)
	}
	ts.eventually("it is revoked", func() bool { return ts.anonymousRequest("GET", "/v1/nodes", own).status == http.StatusUnauthorized })
	ts.requestAs(operator, "DELETE", "/v1/auth/revocations/"+revoked.ID, nil)
	ts.eventually("that is lifted", func() bool { return ts.anonymousRequest("GET", "/v1/nodes", own).status == http.StatusOK })
	next := config.Default()
	next.Auth.Keys = []config.Key{{Name: "operator", Role: "operator", SHA256: []string{hashOf(operator)}}}
	ts.scheduler.SetConfigSource(func() (config.Config, []string, error) { return next, nil, nil })
	var reloaded wire.ReloadResponse
	ts.requestAs(operator, "POST", "/v1/config/reload", nil).decode(&reloaded)
	if !slices.Contains(reloaded.Changed, "anonymous_role changed") {
		t.Errorf("%v", reloaded.Changed)
	}
	if got := ts.anonymousRequest("GET", "/v1/nodes", own); got.status != http.StatusUnauthorized {
		t.Errorf("after a reload: %d", got.status)
	}
}
