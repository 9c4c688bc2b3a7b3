package server

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// access is who may call a route.
type access uint8

const (
	operatorsOnly access = iota
	nodesToo             // operators, and nodes for themselves
	public               // everyone, or the handler checks the credential itself
)

// accessControl checks the credentials of requests.
type accessControl struct {
	responder
	keys *auth.Keys
	hub  *socket.Hub
}

func (a *accessControl) routes() []route {
	return []route{
		{
			method: "POST", path: "/v1/sessions", tag: "sockets", summary: "Mint a session token",
			description: "The token is valid for one session and for a limited time: give it to the client, and keep the key. A browser offers it as a second subprotocol, lingua.token.<token>.",
			handler:     handleBody(a.responder, a.mintToken), in: reflect.TypeFor[wire.SessionTokenRequest](), out: reflect.TypeFor[wire.SessionTokenResponse](),
			codes: []wire.Code{wire.NotFound},
		},
	}
}

// require is a handler that calls next only for requests whose credential allows it.
func (a *accessControl) require(level access, next http.HandlerFunc) http.HandlerFunc {
	if level == public {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		token := socket.Token(r)
		if a.keys.IsOperator(token) {
			next(w, r)
			return
		}
		if level == nodesToo {
			if grant, err := a.keys.NodeGrant(token); err == nil {
				next(w, r.WithContext(context.WithValue(r.Context(), grantKey{}, grant)))
				return
			}
		}
		a.writeDenied(w, a.errDenied(token, "operators: use an operator's key"))
	}
}

// writeDenied answers a request whose credential does not allow it.
func (a *accessControl) writeDenied(w http.ResponseWriter, e *wire.Error) {
	if e.Code == wire.Unauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeWireError(w, e)
}

// refuseSocket refuses a WebSocket whose credential does not allow it. Clients that are no browsers are answered before the upgrade.
// A page cannot see the answer to a refused upgrade, so a browser is upgraded and closed with an error frame.
func (a *accessControl) refuseSocket(w http.ResponseWriter, r *http.Request, e *wire.Error) {
	if r.Header.Get("Origin") == "" {
		a.writeDenied(w, e)
		return
	}
	a.hub.Refuse(w, r, socket.CloseCode(e.Code), e)
}

// errDenied is the error for a credential that is invalid, or that is not for what it was used for.
func (a *accessControl) errDenied(token, audience string) *wire.Error {
	if a.keys.IsValid(token) {
		return wire.Errorf(wire.Forbidden, "this is for %s", audience)
	}
	if token == "" {
		return wire.Errorf(wire.Unauthorized, "this needs a credential: send Authorization: Bearer <key> (lingua: --token, or LINGUA_TOKEN)")
	}
	return wire.Errorf(wire.Unauthorized, "the credential is not valid here, or not any more: use another, or mint a new session token")
}

type grantKey struct{}

// checkNode checks that the caller may act for a node. An operator may for any.
func checkNode(ctx context.Context, id core.NodeID) *wire.Error {
	if grant := grantOf(ctx); grant != nil && !grant.Covers(id) {
		return wire.FieldErrorf(wire.Forbidden, "node_id", "this token is not for node %s", id)
	}
	return nil
}

// grantOf is the grant of the caller's node token; nil for operators.
func grantOf(ctx context.Context) *auth.NodeGrant {
	if grant, ok := ctx.Value(grantKey{}).(auth.NodeGrant); ok {
		return &grant
	}
	return nil
}

const (
	defaultTokenTTL = time.Hour
	maxTokenTTL     = 24 * time.Hour
)

// mintToken makes a token for a session.
func (a *accessControl) mintToken(_ context.Context, in *wire.SessionTokenRequest) (any, error) {
	if e := convert.CheckOptionalID("session_id", in.SessionID); e != nil {
		return nil, e
	}
	if e := convert.CheckOptionalID("tenant_id", in.TenantID); e != nil {
		return nil, e
	}
	ttl := defaultTokenTTL
	if in.TTLSeconds != 0 {
		if ttl = time.Duration(in.TTLSeconds) * time.Second; ttl < time.Second || ttl > maxTokenTTL {
			return nil, wire.Invalid("ttl_seconds", "must be between 1 and %d", int(maxTokenTTL.Seconds()))
		}
	}
	if in.SessionID == "" {
		in.SessionID = "session-" + uuid.Must(uuid.NewV7()).String()
	}
	expires := time.Now().Add(ttl).Truncate(time.Second) // a token has a resolution of seconds
	token, err := a.keys.MintSession(auth.SessionGrant{Session: core.SessionID(in.SessionID), Tenant: core.TenantID(in.TenantID)}, expires)
	if err != nil {
		return nil, wire.Errorf(wire.NotFound, "this scheduler mints no tokens: set auth.operator_keys and auth.session_secret")
	}
	return &wire.SessionTokenResponse{SessionID: in.SessionID, Token: token, ExpiresMS: expires.UnixMilli()}, nil
}
