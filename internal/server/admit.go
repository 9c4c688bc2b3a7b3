package server

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// who may use a door.
type who uint8

const (
	operators who = iota
	nodesToo      // operators, and nodes in their own name
	anybody       // or it looks for itself
)

// admit lets only those through who may.
func (s *Server) admit(who who, next http.HandlerFunc) http.HandlerFunc {
	if who == anybody {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		token := socket.Token(r)
		if s.Keys.Operator(token) {
			next(w, r)
			return
		}
		if who == nodesToo {
			if grant, err := s.Keys.Node(token); err == nil {
				next(w, r.WithContext(context.WithValue(r.Context(), grantKey{}, grant)))
				return
			}
		}
		s.deny(w, s.denied(token, "operators: use an operator's key"))
	}
}

// deny answers a request without a credential for it.
func (s *Server) deny(w http.ResponseWriter, e *wire.Error) {
	if e.Code == wire.Unauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	s.fail(w, e)
}

// turnAway refuses a WebSocket without a credential for it. What is not a browser is answered before the upgrade. A page
// cannot see how an upgrade was refused, so a browser is let in, told, and sent away.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, e *wire.Error) {
	if r.Header.Get("Origin") == "" {
		s.deny(w, e)
		return
	}
	s.Hub.Refuse(w, r, socket.CloseCode(e.Code), e)
}

// denied says what is wrong with a credential: it is none, or it is for something else than what it was sent to.
func (s *Server) denied(token, whom string) *wire.Error {
	if s.Keys.Known(token) {
		return wire.Errorf(wire.Forbidden, "this is for %s", whom)
	}
	if token == "" {
		return wire.Errorf(wire.Unauthorized, "this needs a credential: send Authorization: Bearer <key> (lingua: --token, or LINGUA_TOKEN)")
	}
	return wire.Errorf(wire.Unauthorized, "the credential is not valid here, or not any more: use another, or mint a new session token")
}

type grantKey struct{}

// mayBe checks that whoever asks may speak for a node. Operators may for any.
func mayBe(ctx context.Context, id core.NodeID) *wire.Error {
	if grant := grantOf(ctx); grant != nil && !grant.Covers(id) {
		return wire.FieldErrorf(wire.Forbidden, "node_id", "this token is not for node %s", id)
	}
	return nil
}

// grantOf is what the credential of whoever asks allows; nil for operators.
func grantOf(ctx context.Context) *auth.NodeGrant {
	if grant, ok := ctx.Value(grantKey{}).(auth.NodeGrant); ok {
		return &grant
	}
	return nil
}

const (
	mintFor     = time.Hour
	longestMint = 24 * time.Hour
)

// mint makes a token for a session.
func (s *Server) mint(_ context.Context, in *wire.SessionTokenRequest) (any, error) {
	if e := convert.CheckOptionalID("session_id", in.SessionID); e != nil {
		return nil, e
	}
	if e := convert.CheckOptionalID("tenant_id", in.TenantID); e != nil {
		return nil, e
	}
	lasts := mintFor
	if in.TTLSeconds != 0 {
		if lasts = time.Duration(in.TTLSeconds) * time.Second; lasts < time.Second || lasts > longestMint {
			return nil, wire.Invalid("ttl_seconds", "must be between 1 and %d", int(longestMint.Seconds()))
		}
	}
	if in.SessionID == "" {
		in.SessionID = "session-" + uuid.Must(uuid.NewV7()).String()
	}
	until := time.Now().Add(lasts).Truncate(time.Second) // a token knows only seconds
	token, err := s.Keys.Mint(auth.SessionGrant{Session: core.SessionID(in.SessionID), Tenant: core.TenantID(in.TenantID)}, until)
	if err != nil {
		return nil, wire.Errorf(wire.NotFound, "this scheduler mints no tokens: set auth.operator_keys and auth.session_secret")
	}
	return &wire.SessionTokenResponse{SessionID: in.SessionID, Token: token, ExpiresMS: until.UnixMilli()}, nil
}
