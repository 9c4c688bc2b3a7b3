package server

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodeconn"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// enforcer ends what is open here and revoked: sessions, and the connections of callers and nodes. Whatever is opened checks the list once
// more after an enforcer can find it, so that a revocation that comes meanwhile is not missed.
type enforcer struct {
	auth        *auth.Authenticator
	revocations *revocation.Follower
	hub         *socket.Hub
	nodes       *nodeconn.Conns
	registry    *nodes.Registry
	sessions    *session.Registry
}

// enforce ends what is open on this instance and revoked. It does not wait until the connections are closed.
func (e *enforcer) enforce() {
	e.sessions.TerminateIf(e.judge)
	e.hub.CloseIf(func(owner any) bool {
		caller, ok := owner.(*auth.Principal)
		return ok && e.revocations.Revoked(caller)
	}, wire.CloseUnauthorized, errRevoked())
	e.nodes.CloseIf(func(id core.NodeID) bool { return nodes.IsRevoked(e.registry, id) }, wire.CloseUnauthorized,
		wire.Errorf(wire.Unauthorized, "this node is revoked: stop it, or let an operator lift that"))
}

// admit records who opened a connection, and closes it if that caller was revoked, or its key removed, since it was authenticated.
func (e *enforcer) admit(conn *socket.Conn, caller *auth.Principal) {
	conn.SetOwner(caller)
	if e.revocations.Revoked(caller) || !e.auth.Keyring().Knows(caller, time.Now()) {
		conn.Close(wire.CloseUnauthorized, errRevoked())
	}
}

// judge is the session.Verdict on sessions that are revoked: themselves, or the credential of their connection.
func (e *enforcer) judge(s *session.Info) (wire.CloseCode, *wire.Error) {
	r := e.revocations.SessionRevoked(s.SessionKey, s.Started, s.Known)
	switch {
	case r != nil && r.Ended:
		return wire.CloseEnded, wire.Errorf(wire.SessionEndedCode,
			"the session was ended: start another one with a new token, if there is to be one")
	case r != nil, s.Caller != nil && e.revocations.Revoked(s.Caller):
		return wire.CloseUnauthorized, errRevoked()
	}
	return 0, nil
}

func errRevoked() *wire.Error {
	return wire.Errorf(wire.Unauthorized,
		"the credential of this connection is not valid any more: use another, or mint a new session token")
}
