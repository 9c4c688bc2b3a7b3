package server

import (
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/lockwait"
	"github.com/lingua-scheduler/lingua/internal/peeraddr"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/window"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// loginCookie is the cookie with a login. It has no path: a browser then sends it with every request below the directory of /login, which
	// is that of the scheduler also behind a proxy that adds a prefix.
	loginCookie = "lingua_login"
	// maxLoginFailures is how many logins of an address may fail in each loginWindow.
	maxLoginFailures = 30
	loginWindow      = time.Minute
)

// loginHandlers exchange keys for logins, which browsers send as a cookie.
type loginHandlers struct {
	responder
	auth        *auth.Authenticator
	revocations *revocation.Follower
	ttl         time.Duration
	context     func() wire.CallerContext

	mu       lockwait.Mutex[lockwait.ServerLogins] // guards failures
	failures *window.Limit[netip.Addr]
}

func newLoginHandlers(p responder, o *Options) *loginHandlers {
	return &loginHandlers{
		responder: p, auth: o.Auth, revocations: o.Access.Revocations, ttl: o.Access.LoginTTL, context: o.callerContext,
		failures: window.New[netip.Addr](maxLoginFailures, loginWindow),
	}
}

func (h *loginHandlers) routes() []route {
	return []route{
		{
			method: "POST", path: "/login", rule: everyone, action: "login.begin", tag: "credentials", summary: "Exchange a key for a cookie",
			description: "For the dashboard: takes the key of an operator or a viewer, and answers with a cookie that a page cannot read. Every route that admits these roles accepts it, except WebSockets. It ends with its lifetime, with POST /logout, when the key is revoked, and when the secret of the key is removed.",
			handler:     h.login, in: reflect.TypeFor[wire.LoginRequest](), out: reflect.TypeFor[wire.Caller](), codes: []wire.Code{wire.Unauthorized, wire.Forbidden, wire.RateLimited, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/logout", rule: readers, action: "login.end", tag: "credentials", summary: "End a login",
			description: "The login is not valid any more on any instance. If the store does not answer, only the cookie is removed, and the answer says so.",
			handler:     h.logout, out: reflect.TypeFor[wire.LogoutResponse](),
		},
		{
			method: "GET", path: "/v1/caller", rule: readers, tag: "credentials", summary: "Show who the caller is",
			handler: handle(h.responder, h.caller), out: reflect.TypeFor[wire.Caller](),
		},
	}
}

// login makes a login of a key.
func (h *loginHandlers) login(w http.ResponseWriter, r *http.Request) {
	var in wire.LoginRequest
	if err := readBody(w, r, &in); err != nil {
		h.writeError(w, err)
		return
	}
	c, address := callOf(r.Context()), peeraddr.Of(r.RemoteAddr)
	if wait := h.blockedFor(address); wait > 0 {
		c.fail(wire.Errorf(wire.RateLimited, "too many logins of your address have failed: try again later").RetryIn(wait), limitLogins)
		writeWireError(w, c.failure)
		return
	}
	if !h.revocations.Ready() { // a key that was revoked would be admitted
		writeWireError(w, store.Unavailable())
		return
	}
	if h.auth.Keyring().Empty() { // everyone is an operator already
		p, _ := h.auth.Authenticate("")
		writeJSON(w, http.StatusOK, h.viewCaller(p))
		return
	}
	login, reason := h.auth.NewLogin(strings.TrimSpace(in.Key), h.ttl)
	if reason != "" {
		h.countFailure(address)
		e := wire.FieldErrorf(wire.Unauthorized, "key", "the key is not valid here, or not any more")
		if reason == auth.WrongRole {
			e = wire.FieldErrorf(wire.Forbidden, "key", "log in with the key of an operator or a viewer")
		}
		c.fail(e, string(reason))
		writeWireError(w, e)
		return
	}
	c.caller = login.Caller
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

// blockedFor returns for how long no login of an address is tried.
func (h *loginHandlers) blockedFor(address netip.Addr) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures.Remaining(address)
}

func (h *loginHandlers) countFailure(address netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures.Allow(address)
}

// logout ends the login of the caller.
func (h *loginHandlers) logout(w http.ResponseWriter, r *http.Request) {
	gone := newLoginCookie(r, "", time.Unix(1, 0))
	gone.MaxAge = -1
	http.SetCookie(w, gone)
	out := wire.LogoutResponse{Ended: true}
	if p := principalOf(r.Context()); p.IsLogin() {
		_, err := h.revocations.Add(r.Context(), store.Revocation{
			RevocationTarget: store.RevocationTarget{Kind: store.RevokedLogin, Name: p.TokenID}, By: p.Key, Reason: "logout",
		})
		if err != nil {
			h.log.Warn("a login could not be ended", "error", err)
			out = wire.LogoutResponse{Warning: "the store does not answer: the cookie is gone, but the login stays valid until it expires"}
		}
	}
	writeJSON(w, http.StatusOK, &out)
}

// caller answers with who the caller is.
func (h *loginHandlers) caller(r *http.Request) (any, error) {
	return h.viewCaller(principalOf(r.Context())), nil
}

func (h *loginHandlers) viewCaller(p *auth.Principal) *wire.Caller {
	v := &wire.Caller{Role: string(p.Role), Key: p.Key, TenantID: string(p.Tenant), Login: p.IsLogin(), Open: h.auth.Keyring().Empty(), Anonymous: p.Anonymous, CallerContext: h.context()}
	if p.IsLogin() {
		v.ExpiresMS = p.Expires.UnixMilli()
	}
	return v
}
