package server

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

func (h *sessionHandlers) mintRoute() route {
	return route{
		method: "POST", path: "/v1/sessions", rule: jobSenders, action: "session.mint", tag: "sockets", summary: "Mint a session token",
		description: "The token is valid for one session and for a limited time: give it to the client, and keep the key. A browser " +
			"offers it as a second subprotocol, lingua.token.<token>.",
		handler: handleBody(h.responder, h.mint), codes: []wire.Code{wire.NotFound},
	}
}

const defaultTokenTTL = time.Hour

// mint makes a token for a session.
func (h *sessionHandlers) mint(ctx context.Context, in *wire.SessionTokenRequest) (*wire.SessionTokenResponse, error) {
	if e := convert.CheckOptionalID("session_id", in.SessionID); e != nil {
		return nil, e
	}
	if e := convert.CheckOptionalID("tenant_id", in.TenantID); e != nil {
		return nil, e
	}
	tenant, e := tenantOf(ctx, in.TenantID)
	if e != nil {
		return nil, e
	}
	p := principalOf(ctx)
	longest := auth.MaxTokenTTL
	if p.MaxTTL > 0 {
		longest = p.MaxTTL
	}
	ttl := min(defaultTokenTTL, longest)
	if in.TTLSeconds != 0 {
		if ttl = time.Duration(in.TTLSeconds) * time.Second; ttl < time.Second || ttl > longest {
			return nil, wire.Invalid("ttl_seconds", "must be between 1 and %d", int(longest.Seconds()))
		}
	}
	if in.SessionID == "" {
		in.SessionID = "session-" + uuid.Must(uuid.NewV7()).String()
	}
	id := core.SessionID(in.SessionID)
	callOf(ctx).concerns("session", in.SessionID, tenant)
	ring := h.auth.Keyring()
	token, expires, err := ring.MintSession(p, id, tenant, ttl, h.revocations.Latest())
	if err != nil {
		return nil, wire.Errorf(wire.NotFound,
			"this scheduler mints no tokens: set auth.operator_keys and auth.session_secret, or auth.keys and auth.signers")
	}
	return &wire.SessionTokenResponse{SessionID: in.SessionID, Token: token, ExpiresMS: expires.UnixMilli()}, nil
}
