package nodeconn_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodeconn"
	"github.com/lingua-scheduler/lingua/wire"
)

// outcome is the outcome of a delivery.
type outcome string

const (
	delivered outcome = "delivered"
	busy      outcome = "busy"    // certainly not delivered: no free slot
	refused   outcome = "refused" // certainly not delivered
	unknown   outcome = "unknown" // it may have been delivered
)

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return delivered
	case errors.Is(err, dispatch.ErrBusy):
		return busy
	case errors.Is(err, dispatch.ErrRefused):
		return refused
	}
	return unknown
}

func newCaller(t *testing.T, cfg nodeconn.CallbackConfig) *nodeconn.Callbacks {
	if cfg.Allowed == nil {
		cfg.Allowed = loopback
	}
	c := nodeconn.NewCallbacks(cfg)
	t.Cleanup(c.Close)
	return c
}

var job = &wire.Assignment{JobID: "job-1", AttemptID: 1, NodeID: "n1", SessionID: "s", SrcLang: "en", TgtLang: "zh"}

func deliver(t *testing.T, c *nodeconn.Callbacks, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return c.Deliver(ctx, &core.Node{ID: "n1", Declaration: core.Declaration{Callback: url}}, job)
}

// TestOutcomeByResponse checks the outcome of each response. Only a job that was certainly not delivered may be moved at
// once.
func TestOutcomeByResponse(t *testing.T) {
	t.Parallel()
	const nodeBusy = `{"error":"NODE_BUSY","detail":"no room"}`
	for _, c := range []struct {
		status int
		body   string
		want   outcome
	}{
		{200, "", delivered}, {201, "", delivered}, {202, `{"ok":true}`, delivered}, {204, "", delivered},
		{200, nodeBusy, delivered}, // 2xx accepts, whatever the body
		{301, "", refused}, {302, "", refused}, {303, "", refused}, {307, "", refused}, {308, "", refused},
		{400, "", refused}, {401, "", refused}, {403, "", refused}, {404, "", refused}, {405, "", refused}, {410, "", refused}, {422, "", refused},
		{408, "", refused},
		{429, "", busy}, {429, "slow down", busy},
		{400, nodeBusy, busy}, {409, nodeBusy, busy}, {503, nodeBusy, busy}, {500, nodeBusy, busy},
		{500, "", unknown}, {502, "", unknown}, {503, "", unknown}, {504, "", unknown}, {500, `{"error":"INTERNAL"}`, unknown},
		{503, `{"error":"NODE_BUSY"`, unknown}, {503, "NODE_BUSY", unknown},
		{503, `{"detail":"` + strings.Repeat("x", 1<<20) + `","error":"NODE_BUSY"}`, unknown}, // only the beginning is read
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.status/100 == 3 {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		err := deliver(t, newCaller(t, nodeconn.CallbackConfig{}), srv.URL)
		srv.Close()
		if got := outcomeOf(err); got != c.want {
			t.Errorf("%d %.40q: want %s, got %s (%v)", c.status, c.body, c.want, got, err)
		}
	}
}

// TestRefusedConnection checks that a refused connection counts as not delivered.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	const closed = "http://127.0.0.1:1" // where nothing listens
	if err := deliver(t, newCaller(t, nodeconn.CallbackConfig{}), closed); outcomeOf(err) != refused {
		t.Errorf("want refused, got %v", err)
	}
}

// TestUnknownName checks that a name that cannot be resolved counts as not delivered. Names under .invalid never exist.
func TestUnknownName(t *testing.T) {
	t.Parallel()
	if err := deliver(t, newCaller(t, nodeconn.CallbackConfig{}), "http://node.invalid/jobs"); outcomeOf(err) != refused {
		t.Errorf("want refused, got %v", err)
	}
}

// TestInvalidURL checks that an invalid URL counts as not delivered. A node may withdraw its URL between the reservation and
// the delivery.
func TestInvalidURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "http://[::1", "http://127.0.0.1:99999/"} {
		if err := deliver(t, newCaller(t, nodeconn.CallbackConfig{}), url); outcomeOf(err) != refused {
			t.Errorf("%q: want refused, got %s: %v", url, outcomeOf(err), err)
		}
	}
}

// TestTimeout checks that a job without a response may have been delivered.
func TestTimeout(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-arrived
		cancel()
	}()
	err := newCaller(t, nodeconn.CallbackConfig{}).Deliver(ctx, &core.Node{Declaration: core.Declaration{Callback: srv.URL}}, job)
	if outcomeOf(err) != unknown {
		t.Errorf("want unknown, got %v", err)
	}
}

// TestNoRequestAfterTheDeadline checks that no request is sent after the deadline.
func TestNoRequestAfterTheDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	t.Cleanup(srv.Close)
	if err := newCaller(t, nodeconn.CallbackConfig{}).Deliver(ctx, &core.Node{Declaration: core.Declaration{Callback: srv.URL}}, job); outcomeOf(err) != refused {
		t.Errorf("want refused, for nothing was sent, got %v", err)
	}
}

// TestCutConnection checks that a job may have been delivered if the connection was cut.
func TestCutConnection(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(srv.Close)
	if err := deliver(t, newCaller(t, nodeconn.CallbackConfig{}), srv.URL); outcomeOf(err) != unknown {
		t.Errorf("want unknown, got %v", err)
	}
}

// TestClosedKeptConnection checks that a job is sent again over a new connection if the node closes the kept one instead of an answer. What
// the node answers then counts only if it accepts the job: the first request may have arrived.
func TestClosedKeptConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		repeat func(w http.ResponseWriter)
		want   outcome
	}{
		{"accepted", func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, delivered},
		{"busy", func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, unknown},
		{"not found", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, unknown},
		{"not listening", nil, unknown},
	} {
		var requests atomic.Int32
		srv := httptest.NewUnstartedServer(nil)
		_ = srv.Listener.Close()
		l, err := net.Listen("tcp", "127.0.0.3:0") // where no other test listens after it is closed
		if err != nil {
			t.Fatal(err)
		}
		srv.Listener = l
		srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			switch requests.Add(1) {
			case 1: // its connection is kept
			case 2:
				if c.repeat == nil {
					_ = srv.Listener.Close()
				}
				panic(http.ErrAbortHandler)
			default:
				c.repeat(w)
			}
		})
		srv.Start()
		caller := newCaller(t, nodeconn.CallbackConfig{})
		if err := deliver(t, caller, srv.URL); err != nil {
			t.Fatal(err)
		}
		err = deliver(t, caller, srv.URL)
		if got := outcomeOf(err); got != c.want {
			t.Errorf("%s: want %s, got %s (%v)", c.name, c.want, got, err)
		}
		if c.repeat != nil && requests.Load() != 3 {
			t.Errorf("%s: the node got %d requests, want 3", c.name, requests.Load())
		}
		srv.Close()
	}
}

// TestRedirectIsNotFollowed checks that a node cannot redirect the scheduler to another address.
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var redirected atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected.Store(true) }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		err := deliver(t, newCaller(t, nodeconn.CallbackConfig{}), srv.URL)
		srv.Close()
		if outcomeOf(err) != refused || redirected.Load() {
			t.Errorf("%d: want refused and no request, got %v, request %t", status, err, redirected.Load())
		}
	}
}

// TestNameResolvesToForbiddenAddress checks a DNS name that resolves to an address that is not allowed.
func TestNameResolvesToForbiddenAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var called atomic.Bool
	srv := &httptest.Server{Listener: l, Config: &http.Server{
		Handler:   http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Store(true) }),
		ConnState: func(net.Conn, http.ConnState) { called.Store(true) },
	}}
	srv.Start()
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	url := "http://localhost:" + port + "/jobs?key=hidden"

	elsewhere := newCaller(t, nodeconn.CallbackConfig{Allowed: prefixes("10.0.0.0/8")})
	if err := elsewhere.Check(url); err != nil {
		t.Fatalf("a name cannot be checked before it is dialled: %v", err)
	}
	err = deliver(t, elsewhere, url)
	if outcomeOf(err) != refused || called.Load() {
		t.Errorf("want refused and no connection, got %v, connected %t", err, called.Load())
	}
	if err != nil && strings.Contains(err.Error(), "hidden") {
		t.Errorf("the error contains the query: %v", err)
	}
	if err := deliver(t, newCaller(t, nodeconn.CallbackConfig{}), url); err != nil || !called.Load() {
		t.Errorf("the same name where it is allowed: %v", err)
	}
}

// TestErrorsHideTheQuery checks that errors, which are logged, do not contain the query, which may hold a key.
func TestErrorsHideTheQuery(t *testing.T) {
	t.Parallel()
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(cut.Close)
	for _, base := range []string{
		cut.URL, "http://127.0.0.1:1/", "http://node.invalid/", "http://192.0.2.1/", "nothing://127.0.0.1/", "http://127.0.0.1:99999/", "http://[::1", "http://exa mple/",
	} {
		err := deliver(t, newCaller(t, nodeconn.CallbackConfig{}), base+"?key=hidden")
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", base, err)
		}
	}
}

// TestRequest checks the request that a node receives; it is signed only if there is a secret.
func TestRequest(t *testing.T) {
	t.Parallel()
	type call struct {
		method, path, contentType, signature string
		body                                 []byte
	}
	calls := make(chan call, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- call{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), r.Header.Get(wire.SignatureHeader), body}
	}))
	t.Cleanup(srv.Close)
	for _, secret := range []string{"", "top secret"} {
		if err := deliver(t, newCaller(t, nodeconn.CallbackConfig{Secret: []byte(secret)}), srv.URL+"/jobs?key=1"); err != nil {
			t.Fatal(err)
		}
		got := <-calls
		var a wire.Assignment
		if err := json.Unmarshal(got.body, &a); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*job, a); diff != "" {
			t.Errorf("(-sent +received)\n%s", diff)
		}
		if got.method != "POST" || got.path != "/jobs?key=1" || got.contentType != "application/json" {
			t.Errorf("got %s %s, %s", got.method, got.path, got.contentType)
		}
		if signed := got.signature != ""; signed != (secret != "") {
			t.Errorf("secret %q, signature %q", secret, got.signature)
		}
	}
}

// TestNodeSignature: a node that has a secret gets requests that are signed with a key that only it can derive.
func TestNodeSignature(t *testing.T) {
	t.Parallel()
	type call struct {
		signature string
		body      []byte
	}
	calls := make(chan call, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- call{r.Header.Get(wire.NodeSignatureHeader), body}
	}))
	t.Cleanup(srv.Close)
	const token = "the-node-token-of-n1"
	n := &core.Node{ID: "n1", Declaration: core.Declaration{Callback: srv.URL, SecretHash: core.HashSecret(token)}}
	if err := newCaller(t, nodeconn.CallbackConfig{}).Deliver(t.Context(), n, job); err != nil {
		t.Fatal(err)
	}
	got := <-calls
	unix, sum, _ := strings.Cut(strings.TrimPrefix(got.signature, "t="), ",v1=")
	hashed := sha256.Sum256([]byte(token))
	mac := hmac.New(sha256.New, []byte(hex.EncodeToString(hashed[:])))
	mac.Write([]byte(unix + "." + string(got.body)))
	if want := hex.EncodeToString(mac.Sum(nil)); sum != want {
		t.Errorf("the signature is %q, want v1=%s", got.signature, want)
	}
}
