package server_test

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// mintToken mints a token for a session of acme.
func (ts *testScheduler) mintToken(session string, seconds int) string {
	ts.t.Helper()
	var minted wire.SessionTokenResponse
	ts.requestAs(operatorKey, "POST", "/v1/sessions", object{"session_id": session, "tenant_id": "acme", "ttl_seconds": seconds}).decode(&minted)
	return minted.Token
}

// startAs starts a session with a token.
func (ts *testScheduler) startAs(token string) *wsClient {
	ts.t.Helper()
	c := ts.dialAs("/ws/session", token, false)
	c.send(object{"type": "session_start", "langs": []string{"en", "es"}})
	c.readUntil("session_started")
	return c
}

// TestExpiredTokenEndsItsConnection: a connected session is warned when its token expires, and closed after the grace time.
func TestExpiredTokenEndsItsConnection(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, setKeys, func(c *config.Config) { c.Auth.SessionGraceSeconds = 1 })
	began := time.Now()
	c := ts.startAs(ts.mintToken("room-1", 1))
	if w := c.readUntil("warning"); w["code"] != "TOKEN_EXPIRED" {
		t.Errorf("%v", w)
	}
	c.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
	if open := time.Since(began); open < time.Second { // a token has a resolution of seconds
		t.Errorf("it was closed after %s", open)
	}
}

// TestTokenIsRenewed: a session that sends another token in time stays connected.
func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, setKeys, func(c *config.Config) { c.Auth.SessionGraceSeconds = 1 })
	c := ts.startAs(ts.mintToken("room-1", 1))
	for name, token := range map[string]string{"another session's": ts.mintToken("room-2", 60), "no token": "not-a-token", "an operator's key": operatorKey, "a node's": gpuToken} {
		c.send(object{"type": "session_update", "token": token})
		if e := c.readUntil("error"); e["field"] != "token" || e["fatal"] == true {
			t.Errorf("%s: %v", name, e)
		}
	}
	c.send(object{"type": "session_update", "token": ts.mintToken("room-1", 60)})
	control := ts.startAs(ts.mintToken("room-3", 1)) // its token expires after the first one of room-1
	control.readUntil("warning")
	control.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
	c.send(object{"type": "session_end"})
	c.readUntil("session_ended")
}
