package server

import (
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// tokenExpiry closes the connection of a session some time after its token has expired, unless the client sends another token.
type tokenExpiry struct {
	ws    *socket.Conn
	grace time.Duration

	mu      run.Mutex
	caller  *auth.Principal
	timer   *time.Timer
	stopped bool
}

// watchExpiry watches the token of a caller. It returns nil for a caller whose credential does not expire. End it with stop.
func watchExpiry(ws *socket.Conn, caller *auth.Principal, grace time.Duration) *tokenExpiry {
	if caller.Role != auth.Session {
		return nil
	}
	e := &tokenExpiry{ws: ws, grace: grace, caller: caller, mu: run.NewMutex("server_token_expiry")}
	e.timer = time.AfterFunc(time.Until(caller.Expires), e.warn)
	return e
}

// warn reports to the client that its token has expired, and closes the connection after the grace time.
func (e *tokenExpiry) warn() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped || time.Now().Before(e.caller.Expires) {
		return // it was renewed
	}
	e.ws.Send(wire.Warning{
		Code: wire.TokenExpired, Detail: fmt.Sprintf("the session token has expired: send session_update with another one within %s, or "+
			"the connection is closed", e.grace),
	})
	e.timer = time.AfterFunc(time.Until(e.caller.Expires.Add(e.grace)), e.close)
}

func (e *tokenExpiry) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.stopped && !time.Now().Before(e.caller.Expires.Add(e.grace)) {
		e.ws.Close(wire.CloseUnauthorized,
			wire.Errorf(wire.Unauthorized, "the session token has expired: mint another one for this session, and resume"))
	}
}

// renew replaces the token by another one of the same session and of the same issuer. It reports false if the one in force is valid for
// longer.
func (e *tokenExpiry) renew(p *auth.Principal) (renewed bool, _ *wire.Error) {
	if e == nil {
		return false, wire.Invalid("token", "this connection was not made with a session token")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.Role != auth.Session || p.Session != e.caller.Session || p.Tenant != e.caller.Tenant || p.Key != e.caller.Key {
		return false, wire.FieldErrorf(wire.InvalidRequest, "token", "must be a token for this session that was minted with the same key")
	}
	if e.stopped || !p.Expires.After(e.caller.Expires) {
		return false, nil
	}
	e.caller = p
	e.ws.SetOwner(p)
	e.timer.Stop()
	e.timer = time.AfterFunc(time.Until(p.Expires), e.warn)
	return true, nil
}

// current returns the caller with the token that is in force.
func (e *tokenExpiry) current() *auth.Principal {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.caller
}

// stop ends the watch.
func (e *tokenExpiry) stop() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	e.timer.Stop()
}
