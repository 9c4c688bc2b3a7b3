package server_test

import (
	"testing"
	"time"

	"github.com/coder/websocket"

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

// sessionGrace is for how long an expired token is tolerated in these tests: longer than a busy machine needs for some messages.
const sessionGrace = 6 * time.Second

func withSessionGrace(c *config.Config) {
	c.Auth.SessionGraceSeconds = config.Seconds(sessionGrace / time.Second)
}

// startBriefly starts a session with a token that expires soon. If the token has expired before it was used, the next one is valid for longer.
func (ts *testScheduler) startBriefly(session string) *wsClient {
	ts.t.Helper()
	for seconds := 1; ; seconds *= 2 {
		c, err := ts.tryDialAs("/ws/session", ts.mintToken(session, seconds), false)
		if err != nil && seconds < 16 {
			continue
		} else if err != nil {
			ts.t.Fatal(err)
		}
		c.send(object{"type": "session_start", "langs": []string{"en", "es"}})
		c.readUntil("session_started")
		return c
	}
}

// TestExpiredTokenEndsItsConnection: a connected session is warned when its token expires, and closed after the grace time.
func TestExpiredTokenEndsItsConnection(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, setKeys, withSessionGrace)
	began := time.Now()
	c := ts.startBriefly("room-1")
	if w := c.readUntil("warning"); w["code"] != "TOKEN_EXPIRED" {
		t.Errorf("%v", w)
	}
	c.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
	if open := time.Since(began); open < sessionGrace { // a token has a resolution of seconds
		t.Errorf("it was closed after %s", open)
	}
}

// TestTokenIsRenewed: a session that sends another token in time stays connected.
func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, setKeys, withSessionGrace)
	c := ts.startBriefly("room-1")
	for name, token := range map[string]string{"another session's": ts.mintToken("room-2", 60), "no token": "not-a-token", "an operator's key": operatorKey, "a node's": gpuToken} {
		c.send(object{"type": "session_update", "token": token})
		if e := c.readUntil("error"); e["field"] != "token" || e["fatal"] == true {
			t.Errorf("%s: %v", name, e)
		}
	}
	c.send(object{"type": "session_update", "token": ts.mintToken("room-1", 60)})
	control := ts.startBriefly("room-3") // its token expires after the first one of room-1
	control.readUntil("warning")
	control.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
	c.send(object{"type": "session_end"})
	c.readUntil("session_ended")
}

// TestExpiredKeyClosesItsConnections: the connection of a node does not outlast the key with which it was made.
func TestExpiredKeyClosesItsConnections(t *testing.T) {
	t.Parallel()
	for validity := 2 * time.Second; ; validity *= 2 {
		ts := startScheduler(t, setKeys, func(c *config.Config) {
			c.Auth.Keys = []config.Key{{Name: "short", Role: "node", Nodes: "gpu-*", SHA256: []string{hashOf(gpuToken)}, NotAfter: time.Now().Add(validity)}}
			c.Auth.NodeTokens = nil
		})
		n, err := ts.tryDialAs("/ws/node", gpuToken, false)
		if err != nil && validity < 30*time.Second {
			continue // the key has expired already
		} else if err != nil {
			t.Fatal(err)
		}
		n.send(minimalDeclaration("gpu-1").with(object{"type": "node_register"}))
		if m := n.readUntil("error"); m["error"] != string(wire.Unauthorized) || m["fatal"] != true { // after the acknowledgement, unless that was late
			t.Errorf("%v", m)
		}
		if _, _, err := n.ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusCode(wire.CloseUnauthorized) {
			t.Errorf("closed with %v", err)
		}
		return
	}
}

// TestRepeatedMessagesAreAuditedOnce: a client cannot fill the audit log with messages that change nothing.
func TestRepeatedMessagesAreAuditedOnce(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, setKeys, func(c *config.Config) { c.Scheduler.Sessions.JoinWaitMS = 60_000 })
	token := ts.mintToken("room-1", 60)
	c := ts.startAs(token)
	c.sendUtterance() // nobody can do it, so the session does not end
	for range 30 {
		c.send(object{"type": "session_update", "token": token})
		c.send(object{"type": "session_end"})
	}
	c.send(object{"type": "session_update", "token": "not-a-token"})
	c.readUntil("error")
	ts.requestAs(operatorKey, "POST", "/v1/nodes/gpu-9/drain", nil).expectError(wire.NotFound)
	count := make(map[string]int)
	ts.eventually("the last entry is in the log", func() bool {
		var log wire.AuditList
		ts.requestAs(operatorKey, "GET", "/v1/audit?limit=1000", nil).decode(&log)
		clear(count)
		for _, e := range log.Entries {
			count[e.Action+" "+e.Outcome]++
		}
		return count["node.drain failed"] > 0
	})
	if count["session.end ok"] != 1 || count["session.renew ok"] != 0 || count["session.renew denied"] != 1 {
		t.Errorf("%v", count)
	}
}
