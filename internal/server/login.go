package server

import (
	"context"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// loginCookie is the cookie with a login. It has no path: a browser then sends it with every request below the directory of /login,
	// which is that of the scheduler also behind a proxy that adds a prefix.
	loginCookie = "lingua_login"
	// maxLoginFailures is how many logins of an address may fail in each loginWindow.
	maxLoginFailures = 30
	// maxLogins is how many logins of a key may begin in each loginWindow, and maxEndedLogins how many of a key are kept that were ended:
	// each is an entry of the list of revocations until it would have expired.
	maxLogins      = 30
	maxEndedLogins = 10_000
	loginWindow    = time.Minute
)

// loginLimits limits how many logins an address may fail at, and how many a key may begin.
type loginLimits struct {
	mu       run.Mutex // guards the rest
	failures *run.KeyLimit[netip.Addr]
	begun    *run.KeyLimit[string] // by the name of the key
}

func newLoginLimits() *loginLimits {
	return &loginLimits{
		mu:       run.NewMutex("server_logins"),
		failures: run.NewKeyLimit[netip.Addr](maxLoginFailures, loginWindow), begun: run.NewKeyLimit[string](maxLogins, loginWindow),
	}
}

func (h *credentialHandlers) loginRoutes() []route {
	return []route{
		{
			method: "POST", path: "/login", rule: everyone, action: "login.begin", tag: "credentials",
			summary: "Exchange a key for a cookie",
			description: "For the dashboard: takes the key of an operator or a viewer, and answers with a cookie that a page cannot " +
				"read. Every route that admits these roles accepts it, except WebSockets. It ends with its lifetime, with POST /logout, " +
				"when the key is revoked, and when the secret of the key is removed.",
			handler: handler{h.login, reflect.TypeFor[wire.LoginRequest](), reflect.TypeFor[wire.Caller]()},
			codes:   []wire.Code{wire.Unauthorized, wire.Forbidden, wire.RateLimited, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/logout", rule: readers, action: "login.end", tag: "credentials", summary: "End a login",
			description: "The login is not valid any more on any instance. If the store does not answer, only the cookie is removed, " +
				"and the answer says so.",
			handler: handler{serve: h.logout, out: reflect.TypeFor[wire.LogoutResponse]()},
		},
		{
			method: "GET", path: "/v1/caller", rule: readers, tag: "credentials", summary: "Show who the caller is", asksCaller: true,
			handler: handle(h.responder, h.caller),
		},
	}
}

// login makes a login of a key.
func (h *credentialHandlers) login(w http.ResponseWriter, r *http.Request) {
	var in wire.LoginRequest
	if err := readBody(w, r, &in); err != nil {
		h.writeError(w, err)
		return
	}
	c := callOf(r.Context())
	if !h.revocations.Ready() { // a key that was revoked would be admitted
		writeWireError(w, store.Unavailable())
		return
	}
	if h.auth.Keyring().Empty() { // everyone is an operator already
		p, _ := h.auth.Authenticate("")
		writeJSON(w, http.StatusOK, h.viewCaller(p))
		return
	}
	login, reason := h.auth.NewLogin(strings.TrimSpace(in.Key), h.loginTTL)
	if reason != "" {
		c.fail(h.logins.refusal(socket.PeerAddr(r.RemoteAddr), reason))
		writeWireError(w, c.failure)
		return
	}
	c.caller = login.Caller
	if wait := h.logins.count(login.Caller.Key); wait > 0 {
		c.fail(wire.Errorf(wire.RateLimited, "this key has begun %d logins in a minute: try again later", maxLogins).RetryIn(wait),
			limitLogins)
		writeWireError(w, c.failure)
		return
	}
	http.SetCookie(w, newLoginCookie(r, login.Token, login.Caller.Expires))
	writeJSON(w, http.StatusOK, h.viewCaller(login.Caller))
}

// newLoginCookie makes the cookie of a login.
func newLoginCookie(r *http.Request, token string, expires time.Time) *http.Cookie {
	return &http.Cookie{
		Name: loginCookie, Value: token, Expires: expires, MaxAge: max(1, int(time.Until(expires).Seconds())), HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	}
}

// refusal counts a login that failed, and returns the answer to it and the reason for the audit log. An address that has failed too often
// gets no other answer than that, so that nobody can try many keys; one that has the right key logs in nevertheless, because others may
// share its address.
func (l *loginLimits) refusal(address netip.Addr, reason auth.Reason) (*wire.Error, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.failures.Remaining(address); wait > 0 {
		return wire.Errorf(wire.RateLimited, "too many logins of your address have failed: try again later").RetryIn(wait), limitLogins
	}
	l.failures.Allow(address)
	if reason == auth.WrongRole {
		return wire.FieldErrorf(wire.Forbidden, "key", "log in with the key of an operator or a viewer"), string(reason)
	}
	return wire.FieldErrorf(wire.Unauthorized, "key", "the key is not valid here, or not any more"), string(reason)
}

// count counts a login of a key. It returns for how long the key may not begin another one, 0 if it may.
func (l *loginLimits) count(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun.Allow(key) {
		return 0
	}
	return l.begun.Remaining(key)
}

// logout ends the logins of the cookies that the request has, also if it has another credential, which then is the caller.
func (h *credentialHandlers) logout(w http.ResponseWriter, r *http.Request) {
	gone := newLoginCookie(r, "", time.Unix(1, 0))
	gone.MaxAge = -1
	http.SetCookie(w, gone)
	out := wire.LogoutResponse{Ended: true}
	for _, cookie := range r.CookiesNamed(loginCookie) {
		p, reason := h.auth.AuthenticateLogin(cookie.Value)
		if reason != "" || !p.IsLogin() {
			continue // it is not valid anyway
		}
		if warning := h.endLogin(r.Context(), p); warning != "" {
			out = wire.LogoutResponse{Warning: warning}
			callOf(r.Context()).reason = "not_ended"
		}
	}
	writeJSON(w, http.StatusOK, &out)
}

// endLogin ends a login on all instances. The warning says why it could not.
func (h *credentialHandlers) endLogin(ctx context.Context, p *auth.Principal) (warning string) {
	if h.revocations.CountLogins(p.Key) >= maxEndedLogins {
		return "too many logins of this key were ended: the cookie is gone, but the login stays valid until it expires"
	}
	_, err := h.revocations.Add(ctx, store.Revocation{
		RevocationTarget: store.RevocationTarget{Kind: store.RevokedLogin, Name: p.TokenID}, By: p.Key, Reason: "logout", Until: p.Expires,
	})
	if err != nil {
		h.log.Warn("a login could not be ended", "error", err)
		return "the store does not answer: the cookie is gone, but the login stays valid until it expires"
	}
	return ""
}

// caller answers with who the caller is.
func (h *credentialHandlers) caller(r *http.Request) (*wire.Caller, error) {
	return h.viewCaller(principalOf(r.Context())), nil
}

func (h *credentialHandlers) viewCaller(p *auth.Principal) *wire.Caller {
	v := &wire.Caller{Role: string(p.Role), Key: p.Key, TenantID: string(p.Tenant), Login: p.IsLogin(), Open: h.auth.Keyring().Empty(),
		Anonymous: p.Anonymous, CallerContext: h.context()}
	if p.IsLogin() {
		v.ExpiresMS = p.Expires.UnixMilli()
	}
	return v
}
