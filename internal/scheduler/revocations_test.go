package scheduler_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// ownSecret is the secret of a node or a session that it chooses itself, so that it may repeat its first message if the answer is lost.
const ownSecret = "a-secret-of-its-own-0001"

// keySecret is the secret of a named key of these tests.
func keySecret(name string) string { return name + "-0123456789abcdef" }

// tenantConfig has an operator, and for each of the tenants a, b and c a minter and a key for nodes; key gpu-d is for nodes without a tenant.
func tenantConfig() config.Config {
	cfg := fastConfig()
	withoutHeartbeats(&cfg)
	cfg.Auth.SessionSecret = "a secret of at least thirty-two characters"
	cfg.Auth.ClusterSecrets = []string{newPeerSecret}
	add := func(k config.Key) {
		sum := sha256.Sum256([]byte(keySecret(k.Name)))
		k.SHA256 = []string{hex.EncodeToString(sum[:])}
		cfg.Auth.Keys = append(cfg.Auth.Keys, k)
	}
	add(config.Key{Name: "ops", Role: "operator"})
	for _, tenant := range []string{"a", "b", "c"} {
		add(config.Key{Name: "mint-" + tenant, Role: "minter", Tenant: tenant})
		add(config.Key{Name: "gpu-" + tenant, Role: "node", Tenant: tenant, Nodes: tenant + "-*"})
	}
	add(config.Key{Name: "gpu-d", Role: "node", Nodes: "d-*"})
	return cfg
}

// call sends a request with a named key, and returns the status and the error, if it is one. It is repeated while Redis does not answer in
// time on a busy machine, unless that is awaited.
func (in *instance) call(t *testing.T, key, method, path string, body, out any) (int, wire.Error) {
	t.Helper()
	for began := time.Now(); ; {
		status, e := in.callOnce(t, key, method, path, body, out)
		if status != http.StatusServiceUnavailable || time.Since(began) > waitLimit {
			return status, e
		}
		run.Sleep(t.Context(), pollInterval(time.Since(began)))
	}
}

func (in *instance) callOnce(t *testing.T, key, method, path string, body, out any) (int, wire.Error) {
	t.Helper()
	api := *in.peer
	api.Token = keySecret(key)
	err := api.Do(t.Context(), method, path, body, out)
	if err == nil {
		return http.StatusOK, wire.Error{}
	}
	var e *wire.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	return wirespec.Status(e.Code), *e
}

// mustCall sends a request with the operator's key that must succeed.
func (in *instance) mustCall(t *testing.T, method, path string, body, out any) {
	t.Helper()
	if status, e := in.call(t, "ops", method, path, body, out); status != http.StatusOK {
		t.Fatalf("%s %s: %d %v", method, path, status, e)
	}
}

// watchedSocket is a WebSocket whose end is recorded.
type watchedSocket struct {
	name   string
	conn   *fleet.Socket
	closed chan struct{}
	code   websocket.StatusCode // both are set before closed is closed
	at     time.Time
}

// openSocket opens a WebSocket of an instance with a token, sends the first message and waits for its answer. On a busy machine Redis may not
// answer in time: then it does so again.
func openSocket(t *testing.T, in *instance, name, path, token string, first map[string]any) *watchedSocket {
	t.Helper()
	var conn *fleet.Socket
	retryUntilOK(t, func() error {
		conn = fleet.Connect(t, in.peer.URL, path, token)
		conn.Send(first)
		_, answer, err := conn.Read(t.Context())
		if err == nil && bytes.Contains(answer, []byte(`"error"`)) {
			err = fmt.Errorf("refused: %s", answer)
		}
		if err != nil {
			_ = conn.CloseNow()
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	w := &watchedSocket{name: name, conn: conn, closed: make(chan struct{})}
	go func() {
		defer close(w.closed)
		for {
			if _, _, err := conn.Read(t.Context()); err != nil {
				w.code, w.at = websocket.CloseStatus(err), time.Now()
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.CloseNow()
		<-w.closed
	})
	return w
}

// openSession opens a session of a tenant.
func openSession(t *testing.T, in *instance, tenant, id string) *watchedSocket {
	t.Helper()
	var minted wire.SessionTokenResponse
	if status, e := in.call(t, "mint-"+tenant, "POST", "/v1/sessions", wire.SessionTokenRequest{SessionID: id}, &minted); status != http.StatusOK {
		t.Fatalf("%d %v", status, e)
	}
	return openSocket(t, in, tenant+"/"+id, "/ws/session", minted.Token, map[string]any{
		"type": "session_start", "resume_token": ownSecret, "langs": []string{"en", "es"},
	})
}

// openNode connects a node with the key that is for its name.
func openNode(t *testing.T, in *instance, id string) *watchedSocket {
	t.Helper()
	return openSocket(t, in, id, "/ws/node", keySecret("gpu-"+id[:1]), map[string]any{
		"type": "node_register", "node_id": id, "resume_token": ownSecret,
		"semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2, "active": []any{},
	})
}

// openEverywhere opens a session of each tenant and a node of each key on every instance, and returns them by name.
func openEverywhere(t *testing.T, instances cluster) map[string]*watchedSocket {
	t.Helper()
	open := make(map[string]*watchedSocket)
	for i, in := range instances {
		for _, tenant := range []string{"a", "b", "c"} {
			w := openSession(t, in, tenant, fmt.Sprintf("s%d", i))
			open[w.name] = w
		}
		for _, tenant := range []string{"a", "b", "c", "d"} {
			w := openNode(t, in, fmt.Sprintf("%s-%d", tenant, i))
			open[w.name] = w
		}
	}
	return open
}

// TestRevocationsTakeEffectOnEveryInstance: with three instances, a revocation that one accepts closes what it covers on all of them within
// a second, with the documented code, and nothing else.
func TestRevocationsTakeEffectOnEveryInstance(t *testing.T) {
	t.Parallel()
	instances := startInstances(t, 3, redistest.Start(t).URL(), tenantConfig(), nil)
	stalled := detectStalls(t)
	open := openEverywhere(t, instances)
	for _, in := range instances {
		var all, own wire.SessionList
		waitUntil(t, "the sessions of all instances", waitLimit, func() bool {
			all, own = wire.SessionList{}, wire.SessionList{}
			in.mustCall(t, "GET", "/v1/sessions", nil, &all)
			in.call(t, "mint-a", "GET", "/v1/sessions", nil, &own)
			return !all.Partial && !own.Partial && len(all.Sessions) >= 9 && len(own.Sessions) >= 3
		})
		if len(all.Sessions) != 9 {
			t.Errorf("%s lists %d sessions, want 9", in.peer.URL, len(all.Sessions))
		}
		if len(own.Sessions) != 3 || own.Sessions[0].Instance == own.Sessions[1].Instance {
			t.Errorf("%s lists for one tenant: %+v", in.peer.URL, own.Sessions)
		}
	}
	for _, step := range []struct {
		name         string
		at           int
		method, path string
		body         wire.RevocationRequest
		closes       []string
		code         wire.CloseCode
	}{
		{"a minter's key", 0, "POST", "/v1/auth/revocations", wire.RevocationRequest{Key: "mint-a"}, []string{"a/s0", "a/s1", "a/s2"}, wire.CloseUnauthorized},
		{"a node", 0, "POST", "/v1/auth/revocations", wire.RevocationRequest{Node: "d-1"}, []string{"d-1"}, wire.CloseUnauthorized},
		{"the key of nodes", 1, "POST", "/v1/auth/revocations", wire.RevocationRequest{Key: "gpu-b"}, []string{"b-0", "b-1", "b-2"}, wire.CloseUnauthorized},
		{"the end of a session", 0, "DELETE", "/v1/sessions/s2?tenant_id=b", wire.RevocationRequest{}, []string{"b/s2"}, wire.CloseEnded},
		{"a session", 2, "POST", "/v1/auth/revocations", wire.RevocationRequest{Session: "s1", TenantID: "b"}, []string{"b/s1"}, wire.CloseUnauthorized},
		{"a tenant", 1, "POST", "/v1/auth/revocations", wire.RevocationRequest{Tenant: "c"}, []string{"c/s0", "c/s1", "c/s2", "c-0", "c-1", "c-2"}, wire.CloseUnauthorized},
	} {
		stalled.TakeDelayed()
		instances[step.at].mustCall(t, step.method, step.path, step.body, nil)
		accepted, longest := time.Now(), time.Duration(0)
		for _, name := range step.closes {
			w := open[name]
			select {
			case <-w.closed:
			case <-time.After(waitLimit):
				t.Fatalf("%s: %s was not closed", step.name, name)
			}
			if w.code != websocket.StatusCode(step.code) {
				t.Errorf("%s: %s was closed with %d, want %d", step.name, name, w.code, step.code)
			}
			longest = max(longest, w.at.Sub(accepted))
			delete(open, name)
		}
		t.Logf("%s: closed on all instances %v after the answer", step.name, longest)
		if stall := stalled.TakeDelayed(); longest > time.Second+3*stall {
			t.Errorf("%s: a connection was closed after %v; this process was delayed for %v", step.name, longest, stall)
		}
	}
	waitUntil(t, "the revoked nodes to be removed everywhere, and only these", waitLimit, func() bool {
		for _, in := range instances {
			var left []string
			for n := range in.Fleet.All() {
				left = append(left, string(n.ID()))
			}
			if diff := cmp.Diff(map[string]bool{"a-0": true, "a-1": true, "a-2": true, "d-0": true, "d-2": true}, setOf(left)); diff != "" {
				return false
			}
		}
		return true
	})
	for name, w := range open {
		if err := w.conn.Ping(t.Context()); err != nil {
			t.Errorf("%s was not revoked, and does not answer: %v", name, err)
		}
	}
	for _, in := range instances {
		for _, key := range []string{"mint-a", "mint-c"} {
			if status, e := in.call(t, key, "POST", "/v1/sessions", wire.SessionTokenRequest{}, nil); status != http.StatusUnauthorized {
				t.Errorf("%s: %d %v", key, status, e)
			}
		}
	}
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool)
	for _, name := range names {
		set[name] = true
	}
	return set
}

// TestLostRevocationsArePutBack: an instance that has read a revocation which Redis lost writes it again, so that an instance that starts
// later has it too. A revocation while Redis is away is refused, and the last list stays in force.
func TestLostRevocationsArePutBack(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	cfg := tenantConfig()
	instances := startInstances(t, 2, redis.URL(), cfg, nil)
	kept := openSession(t, instances[1], "b", "s1")
	instances[0].mustCall(t, "POST", "/v1/auth/revocations", wire.RevocationRequest{Key: "mint-a"}, nil)
	refused := func(in *instance) bool {
		status, _ := in.callOnce(t, "mint-a", "POST", "/v1/sessions", wire.SessionTokenRequest{}, nil)
		return status == http.StatusUnauthorized
	}
	waitUntil(t, "the other instance to refuse the key", waitLimit, func() bool { return refused(instances[1]) })
	entries := "lingua:v1:auth:{revocations}:entries"
	stored := func() bool {
		n, err := redis.Do("HEXISTS", entries, "key~mint-a")
		return err == nil && fmt.Sprint(n) == "1"
	}
	for _, loss := range []func(){
		func() {
			do(t, redis, "DEL", entries, "lingua:v1:auth:{revocations}:times", "lingua:v1:auth:{revocations}:expiries", "lingua:v1:auth:{revocations}:version")
		},
		func() { do(t, redis, "FLUSHALL") },
	} {
		if !stored() {
			t.Fatal("the revocation is not stored")
		}
		loss()
		waitUntil(t, "the revocation to be put back", waitLimit, stored)
	}

	redis.Kill() // nothing of it is on disk
	waitUntil(t, "a revocation to be refused", waitLimit, func() bool {
		status, e := instances[0].callOnce(t, "ops", "POST", "/v1/auth/revocations", wire.RevocationRequest{Key: "mint-b"}, nil)
		return status == http.StatusServiceUnavailable && e.Code == wire.SchedulerDependencyDown
	})
	for _, in := range instances {
		if !refused(in) {
			t.Error("without Redis the key is not revoked any more")
		}
	}
	if err := kept.conn.Ping(t.Context()); err != nil {
		t.Errorf("a session whose revocation was refused: %v", err)
	}
	redis.Restart()
	waitUntil(t, "the revocation to be in the new Redis", waitLimit, stored)
	next := startInstances(t, 1, redis.URL(), cfg, nil)[0]
	waitUntil(t, "an instance that starts later to refuse the key", waitLimit, func() bool { return refused(next) })
	instances[0].mustCall(t, "POST", "/v1/auth/revocations", wire.RevocationRequest{Key: "mint-b"}, nil)
	select {
	case <-kept.closed:
	case <-time.After(waitLimit):
		t.Error("after Redis is back a revocation closes nothing")
	}
}
