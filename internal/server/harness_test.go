package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/wire"
)

// patience bounds every wait of these tests. It is long, because it only passes when something is broken.
const testTimeout = 20 * time.Second

// obj is a JSON object as a test writes it: by the contract's names, not by the names of Go fields.
type object map[string]any

// with is the object with some fields changed; a nil value takes the field out.
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

// world is a scheduler that runs on a free port, with everything the test's nodes were handed.
type testScheduler struct {
	t         testing.TB
	scheduler *scheduler.Scheduler
	url       string
	client    *http.Client
	log       *logBuffer
	// delivered gets every delivery to every node of the world.
	deliveries chan delivery

	mu    sync.Mutex
	nodes map[string]*callbackNode
}

// logBook keeps the log for tests that read it.
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

// newWorld starts a scheduler and stops it with the test. Each change is made to the default configuration.
func startScheduler(t testing.TB, changes ...func(*config.Config)) *testScheduler {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Port = 0
	cfg.Server.ShutdownSeconds = 0 // tests leave jobs behind; nobody has to wait for them
	// On a machine with other things to do, a test's nodes are slow to confirm and send no heartbeats meanwhile, and
	// Redis is slow to answer, so that an instance may not get to say that it is present: it would grant nothing.
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
			t.Errorf("the scheduler did not end well: %v", err)
		}
	})
	ts.awaitReady(transport)
	return ts
}

// ready waits until the scheduler says that it is.
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

// answer is what came back.
type response struct {
	t      testing.TB
	label  string
	status int
	header http.Header
	body   []byte
}

// ask sends a request as it is.
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

// post sends an object as JSON.
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

// into decodes a good answer.
func (a response) decode(out any) {
	a.t.Helper()
	if a.status != http.StatusOK {
		a.t.Fatalf("%s answered %d: %s", a.label, a.status, a.body)
	}
	if err := json.Unmarshal(a.body, out); err != nil {
		a.t.Fatalf("%s answered %s: %v", a.label, a.body, err)
	}
}

// ok wants {"ok": true} and nothing else; of a heartbeat also that there is nothing to stop.
func (a response) expectOK() {
	a.t.Helper()
	want := object{"ok": true}
	if a.label == "POST /v1/node/heartbeat" {
		want["cancel"] = []any{}
	}
	a.expectBody(want)
}

// is wants exactly these fields.
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

// refused wants an error with this code and its status, and returns it.
func (a response) expectError(code wire.Code) *wire.Error {
	a.t.Helper()
	e := new(wire.Error)
	if err := json.Unmarshal(a.body, e); err != nil {
		a.t.Fatalf("%s answered %d with something else than an error: %s", a.label, a.status, a.body)
	}
	if e.Code != code || a.status != code.Traits().Status {
		a.t.Fatalf("%s: want %d %s, got %d %s", a.label, code.Traits().Status, code, a.status, a.body)
	}
	if e.Detail == "" {
		a.t.Errorf("%s: %s does not say what to do", a.label, code)
	}
	return e
}

// job is GET /v1/jobs/{id}.
func (ts *testScheduler) getJob(id string) wire.Job {
	ts.t.Helper()
	var j wire.Job
	ts.get("/v1/jobs/" + id).decode(&j)
	return j
}

// status is GET /v1/nodes/{id}.
func (ts *testScheduler) getNode(id string) wire.Node {
	ts.t.Helper()
	var n wire.Node
	ts.get("/v1/nodes/" + id).decode(&n)
	return n
}

// utterance is a dispatch of English to Chinese.
func dispatchBody(changes object) object {
	return object{"session_id": "room-888", "src_lang": "en", "tgt_lang": "zh"}.with(changes)
}

// placed is an accepted dispatch.
func (ts *testScheduler) dispatch(body object) wire.DispatchResponse {
	ts.t.Helper()
	var p wire.DispatchResponse
	ts.post("/v1/dispatch/f2f", body).decode(&p)
	return p
}

// next waits for the next delivery to any node.
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

// nothing wants that no further delivery was made. It is meant for moments at which one would have been
// made already: a dispatch answers after its delivery.
func (ts *testScheduler) expectNoDelivery() {
	ts.t.Helper()
	select {
	case d := <-ts.deliveries:
		ts.t.Fatalf("an unexpected delivery: %s", d.body)
	default:
	}
}

// drain forgets the deliveries that were made.
func (ts *testScheduler) discardDeliveries() {
	for len(ts.deliveries) > 0 {
		<-ts.deliveries
	}
}

// begin dispatches an utterance and returns its delivery.
func (ts *testScheduler) dispatchAndReceive(body object) (delivery, *callbackNode) {
	ts.t.Helper()
	p := ts.dispatch(body)
	d, n := ts.nextDelivery()
	if diff := cmp.Diff(p, wire.DispatchResponse{JobID: d.JobID, NodeID: d.NodeID, AttemptID: d.AttemptID}); diff != "" {
		ts.t.Fatalf("the caller and the node were told different things: (-caller +node)\n%s", diff)
	}
	return d, n
}

// eventually waits for something that happens beside the test. It is the only place here that looks again
// and again, and only for what nobody announces.
func (ts *testScheduler) eventually(what string, ok func() bool) {
	ts.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(testTimeout); time.Now().Before(end); <-tick.C {
		if ok() {
			return
		}
	}
	ts.t.Fatalf("not in %s: %s; the log:\n%s", testTimeout, what, ts.log)
}

// reaches waits until a job is in a state and returns it.
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

var update = flag.Bool("update", false, "write the golden files anew")

// TestMain sees to it that no scheduler of these tests leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEverythingOverRedis runs every other test of this package once more, with schedulers that keep their truth in
// Redis: whoever uses the API must not be able to tell. It does not run beside the others: with twice as many schedulers on
// a busy machine Redis gets too little of the processor to answer in time.
func TestAllOverRedis(t *testing.T) {
	if *redisURL != "" {
		return // this is that run
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-redis", redistest.Start(t).URL(), "-test.timeout=5m")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
