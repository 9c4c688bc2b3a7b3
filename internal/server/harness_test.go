package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// testTimeout bounds every wait of these tests. It is long, because it passes only when a test fails.
const testTimeout = 20 * time.Second

// object is a JSON object, with the names of the API instead of those of Go fields.
type object map[string]any

// with is the object with some fields changed; a nil value removes the field.
func (o object) with(changes object) object {
	out := make(object, len(o))
	for k, v := range o {
		out[k] = v
	}
	for k, v := range changes {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

// testScheduler is a scheduler on a free port, with the deliveries to its nodes.
type testScheduler struct {
	t         testing.TB
	scheduler *scheduler.Scheduler
	url       string
	client    *http.Client
	log       *logBuffer
	// deliveries receives every delivery to a callbackNode.
	deliveries chan delivery

	mu    sync.Mutex
	nodes map[string]*callbackNode
}

// logBuffer keeps the log for tests that read it.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = bytes.Buffer{}
}

// startScheduler starts a scheduler and stops it with the test. Each change is made to the default configuration.
func startScheduler(t testing.TB, changes ...func(*config.Config)) *testScheduler {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Port = 0
	cfg.Server.ShutdownSeconds = 0 // tests leave jobs behind, which shutdown must not wait for
	// On a busy machine the nodes of a test acknowledge late and send no heartbeats, and Redis answers late, so that an instance may
	// fail to renew its presence in time and grant nothing.
	cfg.Scheduler.Phase2.HeartbeatTTLSeconds = 60
	cfg.Scheduler.Dispatch.DecideWithinMS = 10_000
	cfg.Scheduler.Dispatch.ACKTimeoutMS, cfg.Scheduler.TaskBinding.ReservedTTLSeconds = 10_000, 60
	cfg.Scheduler.Nodes.PresenceTTLMS, cfg.Scheduler.Dispatch.HeartbeatStaleMS = 600_000, 600_000
	if *redisURL != "" {
		cfg.Store = *redisURL
		cfg.Scheduler.Phase2.Redis.KeyPrefix = "test-" + uuid.NewString()
	}
	for _, change := range changes {
		change(&cfg)
	}
	ts := &testScheduler{t: t, log: new(logBuffer), deliveries: make(chan delivery, 1024), nodes: make(map[string]*callbackNode)}
	log := slog.New(slog.NewTextHandler(ts.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	ts.scheduler, err = scheduler.New(t.Context(), cfg, wire.VersionResponse{Version: "test", Go: "go"}, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ts.scheduler.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ts.url = "http://" + l.Addr().String()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	ts.client = &http.Client{
		Transport:     &validatingTransport{t: t, doc: loadOpenAPI(t, ts.scheduler.Server), next: transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ts.scheduler.Run(ctx, l) }()
	t.Cleanup(func() {
		stop()
		transport.CloseIdleConnections()
		if err := <-ended; err != nil {
			t.Errorf("the scheduler ended with an error: %v", err)
		}
	})
	ts.awaitReady(transport)
	return ts
}

// awaitReady waits until /readyz answers 200.
func (ts *testScheduler) awaitReady(transport http.RoundTripper) {
	ts.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	for end := time.Now().Add(testTimeout); time.Now().Before(end); <-tick.C {
		resp, err := client.Get(ts.url + "/readyz")
		if err != nil {
			ts.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	ts.t.Fatalf("not ready within %v", testTimeout)
}

// response is the answer to a request.
type response struct {
	t      testing.TB
	label  string
	status int
	header http.Header
	body   []byte
}

// request sends a request with this body.
func (ts *testScheduler) request(method, path, contentType string, body []byte) response {
	ts.t.Helper()
	req, err := http.NewRequest(method, ts.url+path, bytes.NewReader(body))
	if err != nil {
		ts.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return ts.sendRequest(req)
}

func (ts *testScheduler) sendRequest(req *http.Request) response {
	ts.t.Helper()
	resp, err := ts.client.Do(req)
	if err != nil {
		ts.t.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		ts.t.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	return response{t: ts.t, label: req.Method + " " + req.URL.Path, status: resp.StatusCode, header: resp.Header, body: got}
}

func (ts *testScheduler) get(path string) response {
	ts.t.Helper()
	return ts.request("GET", path, "", nil)
}

// post sends a JSON body.
func (ts *testScheduler) post(path string, body any) response {
	ts.t.Helper()
	return ts.request("POST", path, "application/json", encode(ts.t, body))
}

func encode(t testing.TB, body any) []byte {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// decode decodes the body of a successful answer.
func (a response) decode(out any) {
	a.t.Helper()
	if a.status != http.StatusOK {
		a.t.Fatalf("%s answered %d: %s", a.label, a.status, a.body)
	}
	if err := json.Unmarshal(a.body, out); err != nil {
		a.t.Fatalf("%s answered %s: %v", a.label, a.body, err)
	}
}

// expectOK wants {"ok": true} and nothing else; from a heartbeat also that there is nothing to cancel.
func (a response) expectOK() {
	a.t.Helper()
	want := object{"ok": true}
	if a.label == "POST /v1/node/heartbeat" {
		want["cancel"] = []any{}
	}
	a.expectBody(want)
}

// expectBody wants exactly these fields.
func (a response) expectBody(want object) {
	a.t.Helper()
	var got, wanted any
	a.decode(&got)
	if err := json.Unmarshal(encode(a.t, want), &wanted); err != nil {
		a.t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		a.t.Fatalf("%s: (-want +got)\n%s", a.label, diff)
	}
}

// expectError wants an error with this code and its status, and returns it.
func (a response) expectError(code wire.Code) *wire.Error {
	a.t.Helper()
	e := new(wire.Error)
	if err := json.Unmarshal(a.body, e); err != nil {
		a.t.Fatalf("%s answered %d without an error: %s", a.label, a.status, a.body)
	}
	if e.Code != code || a.status != wirespec.Status(code) {
		a.t.Fatalf("%s: want %d %s, got %d %s", a.label, wirespec.Status(code), code, a.status, a.body)
	}
	if e.Detail == "" {
		a.t.Errorf("%s: %s has no detail", a.label, code)
	}
	return e
}

// getJob is GET /v1/jobs/{id}.
func (ts *testScheduler) getJob(id string) wire.Job {
	ts.t.Helper()
	var j wire.Job
	ts.get("/v1/jobs/" + id).decode(&j)
	return j
}

// getNode is GET /v1/nodes/{id}.
func (ts *testScheduler) getNode(id string) wire.Node {
	ts.t.Helper()
	var n wire.Node
	ts.get("/v1/nodes/" + id).decode(&n)
	return n
}

// dispatchBody is the body of a dispatch from English to Chinese.
func dispatchBody(changes object) object {
	return object{"session_id": "room-888", "src_lang": "en", "tgt_lang": "zh"}.with(changes)
}

// dispatch sends a dispatch that must be accepted.
func (ts *testScheduler) dispatch(body object) wire.DispatchResponse {
	ts.t.Helper()
	var p wire.DispatchResponse
	ts.post("/v1/dispatch/f2f", body).decode(&p)
	return p
}

// nextDelivery waits for the next delivery to any node.
func (ts *testScheduler) nextDelivery() (delivery, *callbackNode) {
	ts.t.Helper()
	select {
	case d := <-ts.deliveries:
		return d, ts.nodeByID(d.NodeID)
	case <-time.After(testTimeout):
		ts.t.Fatalf("no job was delivered in %s; the log:\n%s", testTimeout, ts.log)
		panic("unreachable")
	}
}

// expectNoDelivery wants that no further delivery was made. It is for moments when it would have been made already: a dispatch
// answers after its delivery.
func (ts *testScheduler) expectNoDelivery() {
	ts.t.Helper()
	select {
	case d := <-ts.deliveries:
		ts.t.Fatalf("an unexpected delivery: %s", d.body)
	default:
	}
}

// discardDeliveries discards the deliveries so far.
func (ts *testScheduler) discardDeliveries() {
	for len(ts.deliveries) > 0 {
		<-ts.deliveries
	}
}

// dispatchAndReceive dispatches an utterance and returns its delivery: the one that the answer names. On a busy machine there may be
// deliveries before it that took too long.
func (ts *testScheduler) dispatchAndReceive(body object) (delivery, *callbackNode) {
	ts.t.Helper()
	p := ts.dispatch(body)
	for {
		d, n := ts.nextDelivery()
		if d.JobID != p.JobID {
			ts.t.Fatalf("the answer is about %s, the delivery about %s", p.JobID, d.JobID)
		}
		if cmp.Equal(p, wire.DispatchResponse{JobID: d.JobID, NodeID: d.NodeID, AttemptID: d.AttemptID}) {
			return d, n
		}
	}
}

// eventually polls until a condition holds. It is for changes that no event announces.
func (ts *testScheduler) eventually(what string, ok func() bool) {
	ts.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(testTimeout); time.Now().Before(end); <-tick.C {
		if ok() {
			return
		}
	}
	ts.t.Fatalf("not within %s: %s; the log:\n%s", testTimeout, what, ts.log)
}

// awaitFree waits until a node has no slot taken: over Redis nothing waits for the release of one.
func (ts *testScheduler) awaitFree(node string) {
	ts.t.Helper()
	ts.eventually("the slots of "+node+" are released", func() bool { return ts.getNode(node).EffectiveLoad == 0 })
}

// awaitNextMillisecond waits until the clock shows another millisecond, which is the resolution of the times of jobs over Redis.
func (ts *testScheduler) awaitNextMillisecond() {
	ts.t.Helper()
	last := time.Now().UnixMilli()
	ts.eventually("the clock shows a later time", func() bool { return time.Now().UnixMilli() > last })
}

// awaitJobState waits until a job is in a state and returns it.
func (ts *testScheduler) awaitJobState(id, state string) wire.Job {
	ts.t.Helper()
	var j wire.Job
	ts.eventually("job "+id+" is "+state, func() bool {
		j = ts.getJob(id)
		return j.State == state
	})
	return j
}

func spaced(list ...string) string { return strings.Join(list, " ") }

var redisURL = flag.String("redis", "", "run the schedulers of these tests over this Redis instead of the memory store")

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain checks that no goroutine outlives the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
