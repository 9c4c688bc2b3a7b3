package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// The secrets of the named keys of these tests. The name of a key is its secret without the padding.
const (
	alice    = "alice-0123456789abcdef"
	bob      = "bob-0123456789abcdef"
	viewer   = "viewer-0123456789abcdef"
	acmeView = "acme-view-0123456789abcdef"
	acmeMint = "acme-mint-0123456789abcdef"
	zetaMint = "zeta-mint-0123456789abcdef"
	acmeGPU  = "acme-gpu-0123456789abcdef"
	sharedGP = "shared-gpu-0123456789abcdef"
)

// startSchedulerWithNamedKeys starts a scheduler with a key of each role, for two tenants.
func startSchedulerWithNamedKeys(t *testing.T, changes ...func(*config.Config)) *testScheduler {
	t.Helper()
	key := func(secret string, k config.Key) config.Key {
		sum := sha256.Sum256([]byte(secret))
		k.Name, k.SHA256 = secret[:len(secret)-len("-0123456789abcdef")], []string{hex.EncodeToString(sum[:])}
		return k
	}
	return startScheduler(t, append(changes, func(c *config.Config) {
		c.Auth = config.Auth{SessionSecret: namedSecret, Keys: []config.Key{
			key(alice, config.Key{Role: "operator"}), key(bob, config.Key{Role: "operator"}), key(viewer, config.Key{Role: "viewer"}),
			key(acmeView, config.Key{Role: "viewer", Tenant: "acme"}),
			key(acmeMint, config.Key{Role: "minter", Tenant: "acme"}), key(zetaMint, config.Key{Role: "minter", Tenant: "zeta"}),
			key(acmeGPU, config.Key{Role: "node", Tenant: "acme", Nodes: "acme-*"}), key(sharedGP, config.Key{Role: "node", Nodes: "shared-*"}),
		}}
	})...)
}

// mint mints a token for a session.
func (ts *testScheduler) mint(key, session string) string {
	ts.t.Helper()
	var minted wire.SessionTokenResponse
	ts.requestAs(key, "POST", "/v1/sessions", object{"session_id": session}).decode(&minted)
	return minted.Token
}

// namedSecret signs the session tokens of startSchedulerWithNamedKeys.
const namedSecret = "a secret of at least thirty-two characters"

// mintUnaware mints a token as an instance does that has not read any revocation.
func (ts *testScheduler) mintUnaware(by auth.Principal) string {
	ts.t.Helper()
	ring, err := auth.NewKeyring(auth.Config{OperatorKeys: []string{operatorKey}, SessionSecret: namedSecret})
	if err != nil {
		ts.t.Fatal(err)
	}
	token, _, err := ring.MintSession(&by, "room-1", by.Tenant, time.Hour, time.Time{})
	if err != nil {
		ts.t.Fatal(err)
	}
	return token
}

// startSessionAs starts the session of a token.
func (ts *testScheduler) startSessionAs(token string, more object) *wsClient {
	ts.t.Helper()
	s := ts.dialAs("/ws/session", token, false)
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}}.with(more))
	s.readUntil("session_started")
	return s
}

// connectNodeAs connects a node with a key.
func (ts *testScheduler) connectNodeAs(key, id string) *wsClient {
	ts.t.Helper()
	n := ts.dialAs("/ws/node", key, false)
	n.send(minimalDeclaration(id).with(object{"type": "node_register", "max_concurrent_jobs": 4}))
	n.readUntil("node_register_ack")
	return n
}

// revoke adds a revocation with alice's key.
func (ts *testScheduler) revoke(body object) wire.Revocation {
	ts.t.Helper()
	var r wire.Revocation
	ts.requestAs(alice, "POST", "/v1/auth/revocations", body).decode(&r)
	return r
}

// lift lifts a revocation.
func (ts *testScheduler) lift(id string) response {
	ts.t.Helper()
	return ts.requestAs(alice, "DELETE", "/v1/auth/revocations/"+url.PathEscape(id), nil)
}

// expectOpen wants that a connection still answers.
func (c *wsClient) expectOpen(what string) {
	c.t.Helper()
	if err := c.ws.Ping(c.ws.CloseRead(c.t.Context())); err != nil {
		c.t.Errorf("%s was closed: %v", what, err)
	}
}

// TestRevokeKey: the key, the tokens that it minted, their sessions and its nodes are refused and closed when the answer comes; others are
// not. A lifted revocation admits the key again.
func TestRevokeKey(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t)
	token, other := ts.mint(acmeMint, "room-1"), ts.mint(zetaMint, "room-1")
	s, otherSession := ts.startSessionAs(token, nil), ts.startSessionAs(other, nil)
	n, otherNode := ts.connectNodeAs(acmeGPU, "acme-1"), ts.connectNodeAs(sharedGP, "shared-1")
	r := ts.revoke(object{"key": "acme-mint", "reason": "it was published"})
	if r.ID != "key~acme-mint" || r.By != "alice" || r.Reason != "it was published" || r.BeforeMS == 0 || r.UntilMS != 0 || r.Warnings != nil {
		t.Errorf("%+v", r)
	}
	s.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
	ts.requestAs(acmeMint, "POST", "/v1/sessions", object{}).expectError(wire.Unauthorized)
	expectNotUpgraded(ts, "/ws/session", token, wire.Unauthorized)
	minter := auth.Principal{Key: "acme-mint", Role: auth.Minter, Tenant: "acme"}
	// An instance that has not read the revocation yet may mint with the key.
	expectNotUpgraded(ts, "/ws/session", ts.mintUnaware(minter), wire.Unauthorized)
	ts.revoke(object{"key": "acme-gpu"})
	n.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
	ts.eventually("the node is removed", func() bool { return ts.requestAs(alice, "GET", "/v1/nodes/acme-1", nil).status == 404 })
	expectNotUpgraded(ts, "/ws/node", acmeGPU, wire.Unauthorized)
	otherSession.expectOpen("the session of another key")
	otherNode.expectOpen("the node of another key")
	ts.requestAs(alice, "GET", "/v1/nodes/shared-1", nil).decode(&wire.Node{})

	ts.lift("key~acme-mint").decode(&r)
	ts.dialAs("/ws/session", ts.mintUnaware(minter), false) // it was refused for the revocation alone
	ts.startSessionAs(token, object{"session_id": "room-1"})
	ts.lift("key~acme-mint").expectError(wire.NotFound)
}

// TestTokensBetweenTwoRevocations: a token that was minted after one revocation does not survive the next, however soon that comes. One that is
// minted after both is valid.
func TestTokensBetweenTwoRevocations(t *testing.T) {
	t.Parallel()
	const room = "room-1"
	end, signer := object(nil), object{"kid": "session_secret"} // nil: the session is ended, which revokes its tokens
	for name, c := range map[string]struct{ first, second object }{
		"end and end":         {end, end},
		"end and signer":      {end, signer},
		"signer and end":      {signer, end},
		"end and the session": {end, object{"tenant_id": "acme", "session": room}},
		"signer and key":      {signer, object{"key": "acme-mint"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // tokens are dated in seconds, for which each case waits
			ts := startSchedulerWithNamedKeys(t)
			revoke := func(what object) {
				if what == nil {
					ts.requestAs(acmeMint, "DELETE", "/v1/sessions/"+room, nil).decode(new(wire.SessionTerminated))
					return
				}
				ts.revoke(what)
			}
			revoke(c.first)
			token := ts.mint(acmeMint, room)
			revoke(c.second)
			expectNotUpgraded(ts, "/ws/session", token, wire.Unauthorized)
			if c.second["key"] == nil {
				ts.startSessionAs(ts.mint(acmeMint, room), object{"session_id": room}).expectOpen("a session of a token that was minted after both")
			}
		})
	}
}

// TestRevokeTenant: everything of the tenant is refused and closed, its HTTP nodes are removed and their jobs move.
func TestRevokeTenant(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t)
	s, otherSession := ts.startSessionAs(ts.mint(acmeMint, "room-1"), nil), ts.startSessionAs(ts.mint(zetaMint, "room-1"), nil)
	n := ts.connectNodeAs(acmeGPU, "acme-1")
	ts.requestAs(acmeGPU, "POST", "/v1/node/register", nodeDeclaration(object{"node_id": "acme-http"})).decode(&wire.RegisterResponse{})
	ts.revoke(object{"tenant": "acme"})
	s.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
	n.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
	ts.eventually("the nodes are removed", func() bool {
		var list wire.NodeList
		ts.requestAs(alice, "GET", "/v1/nodes", nil).decode(&list)
		return len(list.Nodes) == 0
	})
	for _, key := range []string{acmeMint, acmeView, acmeGPU} {
		ts.requestAs(key, "GET", "/v1/nodes", nil).expectError(wire.Unauthorized)
	}
	otherSession.expectOpen("the session of another tenant")
	// What is issued from now on is valid: an operator may mint for the tenant.
	var minted wire.SessionTokenResponse
	ts.requestAs(alice, "POST", "/v1/sessions", object{"session_id": "room-2", "tenant_id": "acme"}).decode(&minted)
	ts.startSessionAs(minted.Token, nil).expectOpen("a session that started after the revocation")
}

// TestRevokeSigner: tokens that were signed with it until now are refused; later ones are not.
func TestRevokeSigner(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t)
	token := ts.mint(acmeMint, "room-1")
	s := ts.startSessionAs(token, nil)
	r := ts.revoke(object{"kid": "session_secret"})
	if day := 24 * time.Hour.Milliseconds(); r.UntilMS < time.Now().UnixMilli()+day || r.UntilMS > time.Now().UnixMilli()+2*day {
		t.Errorf("%+v", r)
	}
	s.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
	expectNotUpgraded(ts, "/ws/session", token, wire.Unauthorized)
	ts.startSessionAs(ts.mint(acmeMint, "room-2"), nil)
}

// TestRevokeNode: the name of a node cannot register, send heartbeats or report until the revocation is lifted, with any key; its jobs move.
func TestRevokeNode(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n2 := ts.registerNode("n2", nil)
	connected := ts.connectNode("n3")
	for _, id := range []string{"n1", "n3"} {
		ts.post("/v1/auth/revocations", object{"node": id}).decode(&wire.Revocation{})
	}
	connected.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
	if moved, at := ts.nextDelivery(); moved.JobID != d.JobID || at != n2 {
		t.Errorf("%s was delivered to %s", moved.JobID, at.id)
	}
	for _, id := range []string{"n1", "n3"} {
		ts.eventually(id+" is removed", func() bool { return ts.get("/v1/nodes/"+id).status == 404 })
	}
	for _, a := range []response{
		ts.post("/v1/node/register", n.declaration), ts.post("/v1/node/heartbeat", n.declaration), n.ack(d, nil), n.done(d, nil), n.fail(d, nil),
		ts.post("/v1/node/model_not_available", object{"node_id": "n1", "service_id": "s"}),
	} {
		if e := a.expectError(wire.Forbidden); e.Field != "node_id" {
			t.Errorf("%s: %+v", a.label, e)
		}
	}
	again := ts.connect("/ws/node")
	again.send(minimalDeclaration("n3").with(object{"type": "node_register"}))
	again.expectClose(wire.Forbidden, wire.CloseForbidden)
	ts.request("DELETE", "/v1/auth/revocations/node~n1", "", nil).decode(&wire.Revocation{})
	n.register(nil)
	ts.eventually("events say why the nodes were removed", func() bool {
		list, _ := ts.eventsAfter("?kind=node_removed")
		return len(list.Events) == 2 && list.Events[0].Detail == "revoked"
	})
}

// TestNotReadyBeforeRevocationsAreRead: an instance that has not read the list is not ready and admits nobody; what needs no credential is
// answered.
func TestNotReadyBeforeRevocationsAreRead(t *testing.T) {
	t.Parallel()
	list := revocation.NewFollower(memstore.New(store.Timing{}), slog.New(slog.DiscardHandler))
	ring, err := auth.NewKeyring(auth.Config{OperatorKeys: []string{operatorKey}})
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(server.Options{
		Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler), SlowAfter: time.Hour, Revocations: list, Auth: auth.NewAuthenticator(ring, list),
		StoreHealth: storeCheck(nil),
	})
	get := func(path string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+operatorKey)
		w := httptest.NewRecorder()
		srv.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if status, body := get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "revocations") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, body := get("/metrics"); status != http.StatusServiceUnavailable || !strings.Contains(body, string(wire.SchedulerDependencyDown)) {
		t.Errorf("/metrics: %d %s", status, body)
	}
	if status, body := get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d %s", status, body)
	}
	if err := list.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/readyz", "/metrics"} {
		if status, body := get(path); status != http.StatusOK {
			t.Errorf("after the list was read %s: %d %s", path, status, body)
		}
	}
}

// TestRevocationRequests: what is not one target with a valid name and time is refused, and changes nothing.
func TestRevocationRequests(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t)
	future, past := time.Now().Add(time.Hour).Format(time.RFC3339), time.Now().Add(-time.Hour).Format(time.RFC3339)
	for _, body := range []object{
		{}, {"reason": "no target"}, {"key": "a", "node": "b"}, {"key": "a b"}, {"key": "a/b/c"}, {"node": "a/b"}, {"session": "ä"}, {"tenant": "~"},
		{"key": "bob", "before": "yesterday"}, {"key": "bob", "before": future}, {"node": "n", "before": past}, {"key": "bob", "tenant_id": "acme"},
		{"session": "s", "tenant_id": "a b"}, {"key": "alice"},
	} {
		ts.requestAs(alice, "POST", "/v1/auth/revocations", body).expectError(wire.InvalidRequest)
	}
	for _, key := range []string{viewer, acmeMint, acmeView, acmeGPU} {
		ts.requestAs(key, "POST", "/v1/auth/revocations", object{"key": "bob"}).expectError(wire.Forbidden)
		ts.requestAs(key, "DELETE", "/v1/auth/revocations/key~bob", nil).expectError(wire.Forbidden)
	}
	for _, key := range []string{acmeMint, acmeView, acmeGPU} {
		ts.requestAs(key, "GET", "/v1/auth/revocations", nil).expectError(wire.Forbidden)
	}
	for _, id := range []string{"key", "bob", "session~room-1", "key~", "party~x~y"} {
		ts.lift(id).expectError(wire.InvalidRequest)
	}
	var list wire.RevocationList
	if ts.requestAs(viewer, "GET", "/v1/auth/revocations", nil).decode(&list); len(list.Revocations) != 0 {
		t.Errorf("%+v", list)
	}
	ts.revoke(object{"session": "room-1", "tenant_id": "acme", "before": past})
	ts.revoke(object{"node": "n1"})
	if r := ts.revoke(object{"key": "node_tokens/1"}); len(r.Warnings) != 1 {
		t.Errorf("a key that is not configured: %+v", r)
	}
	if r := ts.revoke(object{"kid": "2024"}); len(r.Warnings) != 1 {
		t.Errorf("a signer that is not configured: %+v", r)
	}
	var ids []string
	for cursor := ""; ; {
		var page wire.RevocationList
		ts.requestAs(viewer, "GET", "/v1/auth/revocations?limit=3&cursor="+cursor, nil).decode(&page)
		for _, r := range page.Revocations {
			ids = append(ids, r.ID)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if want := []string{"key~node_tokens/1", "kid~2024", "node~n1", "session~acme~room-1"}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
	ts.lift("key~node_tokens/1").decode(&wire.Revocation{})
	ts.startSessionAs(ts.mint(acmeMint, "room-1"), nil) // which was minted after the time of the revocation
}

// TestRevokedDuringUpgrade: a caller that is revoked between its authentication and the end of its upgrade is closed, although the
// revocation could not find its connection.
func TestRevokedDuringUpgrade(t *testing.T) {
	t.Parallel()
	list := revocation.NewFollower(memstore.New(store.Timing{}), slog.New(slog.DiscardHandler))
	hub := socket.NewHub(socket.Options{Log: slog.New(slog.DiscardHandler)})
	srv := server.New(server.Options{Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler), Revocations: list, Hub: hub, StoreHealth: storeCheck(nil)})
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := &auth.Principal{Key: "gpus", Role: auth.Node}
		if _, err := list.Add(r.Context(), store.Revocation{RevocationTarget: store.RevocationTarget{Kind: store.RevokedKey, Name: "gpus"}}); err != nil {
			t.Error(err)
		}
		conn, err := hub.Accept(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		srv.AdmitConnection(conn, caller)
		go func() { _, _ = conn.Read() }()
	}))
	defer listener.Close()
	defer func() { _ = hub.Close(t.Context()) }()
	ws, _, err := websocket.Dial(t.Context(), strings.Replace(listener.URL, "http", "ws", 1), dialOptions(listener.URL, "", false))
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	(&wsClient{t: t, ws: ws, path: "/ws/node"}).expectClose(wire.Unauthorized, wire.CloseUnauthorized)
}

// TestRevokeWhileConnecting: whatever connects at the moment of a revocation is refused or closed: none stays open.
func TestRevokeWhileConnecting(t *testing.T) {
	t.Parallel()
	const rounds, clients = 5, 16
	ts := startSchedulerWithNamedKeys(t)
	for round := range rounds {
		var clientsEnded sync.WaitGroup
		begin := make(chan struct{})
		for i := range clients {
			name := fmt.Sprintf("room-%d-%d", round, i)
			token, path := ts.mint(acmeMint, name), "/ws/session"
			first := object{"type": "session_start", "langs": []string{"en", "es"}}
			if i%2 == 0 {
				token, path = acmeGPU, "/ws/node"
				first = minimalDeclaration(fmt.Sprintf("acme-%d-%d", round, i)).with(object{"type": "node_register"})
			}
			clientsEnded.Go(func() {
				<-begin
				ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
				defer cancel()
				ws, _, err := websocket.Dial(ctx, strings.Replace(ts.url, "http", "ws", 1)+path, dialOptions(ts.url, token, false))
				if err != nil {
					return // it came too late
				}
				defer ws.CloseNow()
				for err = ws.Write(ctx, websocket.MessageText, encode(t, first)); err == nil; {
					_, _, err = ws.Read(ctx)
				}
				if ctx.Err() != nil {
					t.Errorf("%s stays open", path)
				}
			})
		}
		close(begin)
		ts.revoke(object{"tenant": "acme"})
		clientsEnded.Wait()
		ts.eventually("no session and no node is left", func() bool {
			var sessions wire.SessionList
			var nodes wire.NodeList
			ts.requestAs(alice, "GET", "/v1/sessions", nil).decode(&sessions)
			ts.requestAs(alice, "GET", "/v1/nodes", nil).decode(&nodes)
			return len(sessions.Sessions)+len(nodes.Nodes) == 0
		})
		ts.lift("tenant~acme").decode(&wire.Revocation{})
	}
}
