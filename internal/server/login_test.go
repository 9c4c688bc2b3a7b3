package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// requestWith sends a request with a cookie and further headers.
func (ts *testScheduler) requestWith(cookie *http.Cookie, method, path string, body any, headers ...string) response {
	ts.t.Helper()
	req, err := http.NewRequestWithContext(ts.t.Context(), method, ts.url+path, strings.NewReader(string(encode(ts.t, body))))
	if err != nil {
		ts.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if cookie != nil {
		req.AddCookie(cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return ts.sendRequest(req)
}

// login logs in with a key, and returns the cookie.
func (ts *testScheduler) login(key string, headers ...string) *http.Cookie {
	ts.t.Helper()
	answer := ts.requestWith(nil, "POST", "/login", object{"key": key}, headers...)
	cookies := (&http.Response{Header: answer.header}).Cookies()
	if answer.status != http.StatusOK || len(cookies) != 1 {
		ts.t.Fatalf("login: %d %s, %d cookies", answer.status, answer.body, len(cookies))
	}
	if strings.Contains(string(answer.body), key) || strings.Contains(string(answer.body), cookies[0].Value) {
		ts.t.Error("the answer to a login contains a secret")
	}
	return cookies[0]
}

// TestLoginCookie: a page cannot read the cookie, no other site sends it, and it has no path, so that it holds below any prefix.
func TestLoginCookie(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	for forwarded, secure := range map[string]bool{"http": false, "https": true} {
		c := ts.login(keySecret("viewer"), "X-Forwarded-Proto", forwarded)
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "" || c.Domain != "" || c.Secure != secure || c.MaxAge < 43_000 || c.MaxAge > 43_200 {
			t.Errorf("behind %s: %+v", forwarded, c)
		}
	}
	cookie := ts.login(keySecret("viewer-acme"))
	var caller wire.Caller
	ts.requestWith(cookie, "GET", "/v1/caller", nil).decode(&caller)
	want := wire.Caller{Role: "viewer", Key: "viewer-acme", TenantID: "acme", Login: true, ExpiresMS: caller.ExpiresMS, CallerContext: caller.CallerContext}
	if diff := cmp.Diff(want, caller); diff != "" || caller.ExpiresMS == 0 {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLoginHasTheRoleOfItsKey: the server refuses what the role of the key does not allow, and what is of another tenant.
func TestLoginHasTheRoleOfItsKey(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	ts.requestWith(ts.login(keySecret("viewer")), "POST", "/v1/config/reload", nil).expectError(wire.Forbidden)
	ts.requestWith(ts.login(keySecret("viewer-acme")), "GET", "/v1/instances", nil).expectError(wire.Forbidden)
	ts.requestWith(ts.login(keySecret("operator")), "GET", "/v1/instances", nil).decode(&wire.InstanceList{})
	for _, key := range []string{"minter-acme", "node-shared", "metrics"} {
		ts.requestWith(nil, "POST", "/login", object{"key": keySecret(key)}).expectError(wire.Forbidden)
	}
	ts.requestWith(nil, "POST", "/login", object{"key": "nobody has this key"}).expectError(wire.Unauthorized)
	ts.requestWith(nil, "POST", "/login", object{}).expectError(wire.Unauthorized)
	ts.requestWith(&http.Cookie{Name: "lingua_login", Value: "forged.forged.forged"}, "GET", "/v1/nodes", nil).expectError(wire.Unauthorized)
}

// TestLoginIsNotForOtherSites: a page of another site can neither write with the cookie nor open a WebSocket with it.
func TestLoginIsNotForOtherSites(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	cookie := ts.login(keySecret("operator"))
	for name, headers := range map[string][]string{
		"by Sec-Fetch-Site":     {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		"by Origin alone, HTTP": {"Origin", "http://evil.example"},
	} {
		if a := ts.requestWith(cookie, "POST", "/logout", nil, headers...); a.status != http.StatusForbidden {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	if a := ts.requestWith(cookie, "POST", "/v1/config/reload", nil, "Origin", ts.url); a.status == http.StatusForbidden || a.status == http.StatusUnauthorized {
		t.Errorf("a page of the scheduler itself over plain HTTP: %d %s", a.status, a.body)
	}
	header := http.Header{"Cookie": {cookie.String()}}
	_, resp, err := websocket.Dial(t.Context(), strings.Replace(ts.url, "http", "ws", 1)+"/ws/node", &websocket.DialOptions{HTTPHeader: header, Subprotocols: []string{wire.Subprotocol}})
	if err == nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a WebSocket with the cookie: %v, %v", resp, err)
	}
}

// TestLogoutEndsTheLogin: after a logout the cookie is not accepted any more, also if somebody has kept it.
func TestLogoutEndsTheLogin(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	kept, other := ts.login(keySecret("operator")), ts.login(keySecret("operator"))
	answer := ts.requestWith(kept, "POST", "/logout", nil)
	var out wire.LogoutResponse
	answer.decode(&out)
	gone := (&http.Response{Header: answer.header}).Cookies()
	if !out.Ended || len(gone) != 1 || gone[0].Value != "" || gone[0].MaxAge >= 0 {
		t.Errorf("%+v, %v", out, gone)
	}
	ts.requestWith(kept, "GET", "/v1/nodes", nil).expectError(wire.Unauthorized)
	ts.requestWith(other, "GET", "/v1/nodes", nil).decode(&wire.NodeList{})
}

// TestRevocationEndsLogins: when a key is revoked, its logins end.
func TestRevocationEndsLogins(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	cookie := ts.login(keySecret("viewer"))
	ts.requestAs(keySecret("operator"), "POST", "/v1/auth/revocations", object{"key": "viewer"}).decode(&wire.Revocation{})
	ts.requestWith(cookie, "GET", "/v1/nodes", nil).expectError(wire.Unauthorized)
	ts.requestWith(nil, "POST", "/login", object{"key": keySecret("viewer")}).expectError(wire.Unauthorized)
}

// TestEndedLoginsStayEnded: a login that ended with the revocation of its key, or of its tenant, is not valid again when that is lifted. A new
// one is.
func TestEndedLoginsStayEnded(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	for _, revoked := range []object{{"key": "viewer-acme"}, {"tenant": "acme"}} {
		cookie := ts.login(keySecret("viewer-acme"))
		var r wire.Revocation
		ts.requestAs(keySecret("operator"), "POST", "/v1/auth/revocations", revoked).decode(&r)
		ts.requestAs(keySecret("operator"), "DELETE", "/v1/auth/revocations/"+url.PathEscape(r.ID), nil).decode(&wire.Revocation{})
		ts.requestWith(cookie, "GET", "/v1/nodes", nil).expectError(wire.Unauthorized)
		for next := time.Now().Truncate(time.Second).Add(time.Second); time.Now().Before(next); { // the time of a login is in whole seconds
			run.Sleep(t.Context(), time.Until(next))
		}
		ts.requestWith(ts.login(keySecret("viewer-acme")), "GET", "/v1/nodes", nil).decode(&wire.NodeList{})
	}
}

// TestFailedLoginsAreLimited: after many failures the address learns nothing about further keys. The right key is admitted nevertheless: people
// may share the address of a proxy with somebody who guesses.
func TestFailedLoginsAreLimited(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	failures := 0
	for range 100 {
		a := ts.requestWith(nil, "POST", "/login", object{"key": "a-guess-of-somebody"})
		if a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") != "" {
			break
		}
		failures++
	}
	if failures != 30 {
		t.Errorf("%d logins were tried", failures)
	}
	ts.requestWith(nil, "POST", "/login", object{"key": keySecret("minter-acme")}).expectError(wire.RateLimited)
	ts.login(keySecret("operator"))
}

// TestLoginsOfAKeyAreLimited: nobody can fill the list of revocations by logging in and out.
func TestLoginsOfAKeyAreLimited(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	begun := 0
	for range 100 {
		if a := ts.requestWith(nil, "POST", "/login", object{"key": keySecret("viewer-acme")}); a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") != "" {
			break
		}
		begun++
	}
	if begun != 30 {
		t.Errorf("a key has begun %d logins", begun)
	}
	ts.login(keySecret("viewer"))
}

// TestLogoutBesideAKey: a request with a key and a cookie ends the login of the cookie.
func TestLogoutBesideAKey(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	cookie := ts.login(keySecret("operator"))
	ts.requestWith(cookie, "POST", "/logout", nil, "Authorization", "Bearer "+keySecret("viewer")).decode(&wire.LogoutResponse{})
	ts.requestWith(cookie, "GET", "/v1/nodes", nil).expectError(wire.Unauthorized)
	var list wire.RevocationList
	ts.requestAs(keySecret("operator"), "GET", "/v1/auth/revocations", nil).decode(&list)
	if len(list.Revocations) != 1 || time.Until(time.UnixMilli(list.Revocations[0].UntilMS)) > 13*time.Hour {
		t.Fatalf("the list has the login until it would have expired: %+v", list.Revocations)
	}
	ts.requestAs(keySecret("operator"), "DELETE", "/v1/auth/revocations/"+list.Revocations[0].ID, nil).expectError(wire.InvalidRequest)
	ts.requestWith(cookie, "GET", "/v1/nodes", nil).expectError(wire.Unauthorized)
}

// TestOneOfSeveralCookies: a cookie of the same name from elsewhere does not keep people out.
func TestOneOfSeveralCookies(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	cookie := ts.login(keySecret("viewer"))
	ts.requestWith(nil, "GET", "/v1/nodes", nil, "Cookie", "lingua_login=other; lingua_login="+cookie.Value).decode(&wire.NodeList{})
}

// TestLoginsEndWithTheProcess: without a shared store nobody knows after a restart which logins were ended, so all end.
func TestLoginsEndWithTheProcess(t *testing.T) {
	t.Parallel()
	embedded := func(c *config.Config) {
		c.Store, c.Auth.ClusterSecrets = config.Default().Store, []string{strings.Repeat("c", 64)}
	}
	cookie := startMatrix(t, embedded).login(keySecret("operator"))
	startMatrix(t, embedded).requestWith(cookie, "GET", "/v1/nodes", nil).expectError(wire.Unauthorized)
}

// TestNoLoginWithoutKeys: without keys everyone is an operator, and the answer says so.
func TestNoLoginWithoutKeys(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	var caller wire.Caller
	answer := ts.requestWith(nil, "POST", "/login", object{"key": ""})
	answer.decode(&caller)
	if !caller.Open || caller.Role != "operator" || caller.Login || answer.header.Get("Set-Cookie") != "" {
		t.Errorf("%+v, %q", caller, answer.header.Get("Set-Cookie"))
	}
}
