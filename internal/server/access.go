package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// rule says who may use a route. The zero rule is invalid, so that no route is without one.
type rule struct {
	public     bool        // everyone: there is nothing to protect, or the request has a credential of its own
	roles      []auth.Role // who may use it
	allTenants bool        // only callers that have access to all tenants
	credential bool        // only callers with a credential of their own, whatever the role of those without one
}

// The rules of all routes. A handler of a rule that admits callers of one tenant limits itself to the objects of that tenant.
var (
	everyone       = rule{public: true}
	operators      = rule{roles: []auth.Role{auth.Operator}}
	namedOperators = rule{roles: []auth.Role{auth.Operator}, credential: true}
	readers        = rule{roles: []auth.Role{auth.Operator, auth.Viewer}}
	fleetReaders   = rule{roles: []auth.Role{auth.Operator, auth.Viewer}, allTenants: true}
	metricsReaders = rule{roles: []auth.Role{auth.Operator, auth.Viewer, auth.Metrics}, allTenants: true}
	jobReaders     = rule{roles: []auth.Role{auth.Operator, auth.Viewer, auth.Minter}}
	jobOwners      = rule{roles: []auth.Role{auth.Operator, auth.Minter}}
	jobSenders     = rule{roles: []auth.Role{auth.Operator, auth.Minter}, credential: true}
	nodesOnly      = rule{roles: []auth.Role{auth.Operator, auth.Node}, credential: true}
	sessionsOnly   = rule{roles: []auth.Role{auth.Operator, auth.Session}, credential: true}
)

// valid reports whether the rule says something.
func (r *rule) valid() bool { return r.public || len(r.roles) > 0 }

// check returns why a caller may not use the route, empty if it may.
func (r *rule) check(p *auth.Principal) auth.Reason {
	switch {
	case !slices.Contains(r.roles, p.Role), r.credential && p.Anonymous:
		return auth.WrongRole
	case r.allTenants && !p.AllTenants():
		return auth.WrongTenant
	}
	return ""
}

// accessControl authenticates callers and checks what they may use.
type accessControl struct {
	auth        *auth.Authenticator
	revocations *revocation.Follower
	hub         *socket.Hub
	// secrets verify the requests of other instances to self, the address of this one.
	secrets *auth.PeerSecrets
	self    func() string
	reads   *readLimit
}

// require is the handler of a route for callers that its rule admits.
func (a *accessControl) require(r *route) http.HandlerFunc {
	switch {
	case !r.rule.valid():
		panic("the route " + r.method + " " + r.path + " has no rule: nobody says who may use it")
	case r.peers && r.method != http.MethodGet:
		panic("the route " + r.method + " " + r.path + " changes something: a request of another instance could be repeated")
	}
	next := func(w http.ResponseWriter, req *http.Request) {
		if e := cmp.Or(checkQuery(r, req), checkParams(r, req)); e != nil {
			callOf(req.Context()).fail(e, "")
			writeWireError(w, e)
			return
		}
		r.handler.serve(w, req)
	}
	if r.rule.public {
		return next
	}
	if r.forPeople() {
		next = a.reads.limit(r, next)
	}
	deny := a.writeDenied
	if r.upgrade {
		deny = a.refuseSocket
	}
	return func(w http.ResponseWriter, req *http.Request) {
		if e := a.authenticate(callOf(req.Context()), req, r); e != nil {
			deny(w, req, e)
			return
		}
		next(w, req)
	}
}

// authenticate sets the caller of a request, and checks that the rule admits it.
func (a *accessControl) authenticate(c *call, req *http.Request, r *route) (e *wire.Error) {
	if !a.revocations.Ready() { // callers that were revoked would be admitted
		return store.Unavailable()
	}
	p, reason := a.identify(req, r)
	if c.caller = p; reason != "" {
		e = errUnauthorized(reason)
	} else if reason = r.rule.check(p); reason != "" {
		e = errForbidden(&r.rule, p, reason)
	}
	if e != nil && (reason != auth.Missing || !r.asksCaller) {
		c.fail(e, string(reason))
	}
	return e
}

// identify returns the caller of a request. For a route that instances ask of each other it may be one that another instance has
// authenticated.
func (a *accessControl) identify(req *http.Request, r *route) (*auth.Principal, auth.Reason) {
	if r.peers && req.Header.Get(auth.Header) != "" && !a.auth.Keyring().Empty() {
		return a.secrets.Verify(req, a.self())
	}
	return a.identifyDirect(req, r)
}

// identifyDirect returns the caller by its own credential: a key or a token, or the cookie of a login. Without one it may have a role by
// the configuration; a cookie that is not valid any more counts as none then. A WebSocket takes no cookie and needs a credential, because a
// browser lets pages of other sites open one.
func (a *accessControl) identifyDirect(req *http.Request, r *route) (p *auth.Principal, reason auth.Reason) {
	token := socket.Token(req)
	if token != "" || r.upgrade {
		return a.auth.Authenticate(token)
	}
	cookies := req.CookiesNamed(loginCookie)
	if len(cookies) == 0 {
		p, reason = a.auth.Authenticate("")
	}
	for _, cookie := range cookies { // a browser may send one of another path or host with the same name
		if p, reason = a.auth.AuthenticateLogin(cookie.Value); reason == "" {
			break
		}
	}
	if reason == "" {
		return p, ""
	}
	p, denied := a.identifyAnonymous(req)
	if denied == auth.Missing {
		denied = reason
	}
	return p, denied
}

// stillAdmits reports whether a stream may go on: the credential of its request is valid, and has the role and the tenant that it had when
// the stream began, which decide what the stream shows.
func (a *accessControl) stillAdmits(req *http.Request) bool {
	began := principalOf(req.Context())
	now, denied := a.identifyDirect(req, &route{})
	return denied == "" && now.Role == began.Role && now.Tenant == began.Tenant
}

// errUnauthorized is the answer to a credential that is not valid. It does not say why: that would help to guess.
func errUnauthorized(reason auth.Reason) *wire.Error {
	switch reason {
	case deniedHost:
		return wire.Errorf(wire.Unauthorized, "this needs a credential, unless auth.anonymous_hosts names the host of the request")
	case deniedCrossOrigin:
		return wire.Errorf(wire.Unauthorized, "a page of another site needs a credential")
	case auth.Missing:
		return wire.Errorf(wire.Unauthorized,
			"this needs a credential: send Authorization: Bearer <key> (lingua: --token, or LINGUA_TOKEN)")
	}
	return wire.Errorf(wire.Unauthorized, "the credential is not valid here, or not any more: use another, or mint a new session token")
}

// errForbidden is the answer to a valid credential that the rule does not admit.
func errForbidden(r *rule, p *auth.Principal, reason auth.Reason) *wire.Error {
	if reason == auth.WrongTenant {
		return wire.Errorf(wire.Forbidden, "this is about all tenants: use a key without a tenant")
	}
	if r.credential && p.Anonymous {
		return wire.Errorf(wire.Forbidden, "this needs a credential of its own: send Authorization: Bearer <key>, or log in")
	}
	roles := make([]string, len(r.roles))
	for i, role := range r.roles {
		roles[i] = string(role)
	}
	return wire.Errorf(wire.Forbidden, "this is for the role %s, and this credential has the role %s: use another key",
		strings.Join(roles, " or "), p.Role)
}

// writeDenied answers a request whose credential does not allow it.
func (a *accessControl) writeDenied(w http.ResponseWriter, _ *http.Request, e *wire.Error) {
	if e.Code == wire.Unauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeWireError(w, e)
}

// refuseSocket refuses a WebSocket whose credential does not allow it. Clients that are no browsers are answered before the upgrade.
// A page cannot see the answer to a refused upgrade, so a browser is upgraded and closed with an error frame.
func (a *accessControl) refuseSocket(w http.ResponseWriter, r *http.Request, e *wire.Error) {
	if r.Header.Get("Origin") == "" {
		a.writeDenied(w, r, e)
		return
	}
	a.hub.Refuse(w, r, socket.CloseCode(e.Code), e)
}

// checkNode checks that the caller may act for a node, whose id is valid, and records that the call is about it.
func checkNode(ctx context.Context, id core.NodeID) *wire.Error {
	c := callOf(ctx)
	if id != "" {
		c.concerns("node", string(id), "")
	}
	if !c.caller.ActsForNode(id) {
		return wire.FieldErrorf(wire.Forbidden, "node_id", "this key is not for a node of this name")
	}
	return nil
}

// tenantOf is the tenant that a request is about: the caller's. A caller with access to all tenants may name one; what any other
// names must be its own.
func tenantOf(ctx context.Context, named string) (core.TenantID, *wire.Error) {
	p := principalOf(ctx)
	if p.AllTenants() {
		return core.TenantID(named), nil
	}
	if named != "" && core.TenantID(named) != p.Tenant {
		return "", wire.FieldErrorf(wire.Forbidden, "tenant_id", "this key is of another tenant: leave it out")
	}
	return p.Tenant, nil
}

// visibleTenant is the tenant whose objects the caller sees; nil: those of all tenants.
func visibleTenant(ctx context.Context) *core.TenantID {
	if p := principalOf(ctx); !p.AllTenants() {
		return &p.Tenant
	}
	return nil
}
