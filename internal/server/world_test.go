package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// patience bounds every wait of these tests. It is long, because it only passes when something is broken.
const patience = 20 * time.Second

// obj is a JSON object as a test writes it: by the contract's names, not by the names of Go fields.
type obj map[string]any

// with is the object with some fields changed; a nil value takes the field out.
func (o obj) with(changes obj) obj {
	out := make(obj, len(o))
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
type world struct {
	t      testing.TB
	s      *scheduler.Scheduler
	url    string
	client *http.Client
	log    *logBook
	// delivered gets every delivery to every node of the world.
	delivered chan delivery

	mu    sync.Mutex
	nodes map[string]*node
}

// logBook keeps the log for tests that read it.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newWorld starts a scheduler and stops it with the test. Each change is made to the default configuration.
func newWorld(t testing.TB, changes ...func(*config.Config)) *world {
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
	w := &world{t: t, log: new(logBook), delivered: make(chan delivery, 1024), nodes: make(map[string]*node)}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	w.s, err = scheduler.New(t.Context(), cfg, wire.VersionResponse{Version: "test", Go: "go"}, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := w.s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.url = "http://" + l.Addr().String()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	w.client = &http.Client{
		Transport:     &checked{t: t, described: describedBy(t, w.s.Server), next: transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.s.Run(ctx, l) }()
	t.Cleanup(func() {
		stop()
		transport.CloseIdleConnections()
		if err := <-ended; err != nil {
			t.Errorf("the scheduler did not end well: %v", err)
		}
	})
	w.ready(transport)
	return w
}

// ready waits until the scheduler says that it is.
func (w *world) ready(transport http.RoundTripper) {
	w.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		resp, err := client.Get(w.url + "/readyz")
		if err != nil {
			w.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	w.t.Fatalf("not ready within %v", patience)
}

// answer is what came back.
type answer struct {
	t      testing.TB
	asked  string
	status int
	header http.Header
	body   []byte
}

// ask sends a request as it is.
func (w *world) ask(method, path, contentType string, body []byte) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return w.do(req)
}

func (w *world) do(req *http.Request) answer {
	w.t.Helper()
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	return answer{t: w.t, asked: req.Method + " " + req.URL.Path, status: resp.StatusCode, header: resp.Header, body: got}
}

func (w *world) get(path string) answer {
	w.t.Helper()
	return w.ask("GET", path, "", nil)
}

// post sends an object as JSON.
func (w *world) post(path string, body any) answer {
	w.t.Helper()
	return w.ask("POST", path, "application/json", encode(w.t, body))
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
func (a answer) into(out any) {
	a.t.Helper()
	if a.status != http.StatusOK {
		a.t.Fatalf("%s answered %d: %s", a.asked, a.status, a.body)
	}
	if err := json.Unmarshal(a.body, out); err != nil {
		a.t.Fatalf("%s answered %s: %v", a.asked, a.body, err)
	}
}

// ok wants {"ok": true} and nothing else; of a heartbeat also that there is nothing to stop.
func (a answer) ok() {
	a.t.Helper()
	want := obj{"ok": true}
	if a.asked == "POST /v1/node/heartbeat" {
		want["cancel"] = []any{}
	}
	a.is(want)
}

// is wants exactly these fields.
func (a answer) is(want obj) {
	a.t.Helper()
	var got, wanted any
	a.into(&got)
	if err := json.Unmarshal(encode(a.t, want), &wanted); err != nil {
		a.t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		a.t.Fatalf("%s: (-want +got)\n%s", a.asked, diff)
	}
}

// refused wants an error with this code and its status, and returns it.
func (a answer) refused(code wire.Code) *wire.Error {
	a.t.Helper()
	e := new(wire.Error)
	if err := json.Unmarshal(a.body, e); err != nil {
		a.t.Fatalf("%s answered %d with something else than an error: %s", a.asked, a.status, a.body)
	}
	if e.Code != code || a.status != wirespec.Status(code) {
		a.t.Fatalf("%s: want %d %s, got %d %s", a.asked, wirespec.Status(code), code, a.status, a.body)
	}
	if e.Detail == "" {
		a.t.Errorf("%s: %s does not say what to do", a.asked, code)
	}
	return e
}

// job is GET /v1/jobs/{id}.
func (w *world) job(id string) wire.Job {
	w.t.Helper()
	var j wire.Job
	w.get("/v1/jobs/" + id).into(&j)
	return j
}

// status is GET /v1/nodes/{id}.
func (w *world) status(id string) wire.Node {
	w.t.Helper()
	var n wire.Node
	w.get("/v1/nodes/" + id).into(&n)
	return n
}

// utterance is a dispatch of English to Chinese.
func utterance(changes obj) obj {
	return obj{"session_id": "room-888", "src_lang": "en", "tgt_lang": "zh"}.with(changes)
}

// placed is an accepted dispatch.
func (w *world) placed(body obj) wire.DispatchResponse {
	w.t.Helper()
	var p wire.DispatchResponse
	w.post("/v1/dispatch/f2f", body).into(&p)
	return p
}

// next waits for the next delivery to any node.
func (w *world) next() (delivery, *node) {
	w.t.Helper()
	select {
	case d := <-w.delivered:
		return d, w.nodeOf(d.NodeID)
	case <-time.After(patience):
		w.t.Fatalf("no job was delivered in %s; the log:\n%s", patience, w.log)
		panic("unreachable")
	}
}

// nothing wants that no further delivery was made. It is meant for moments at which one would have been
// made already: a dispatch answers after its delivery.
func (w *world) nothing() {
	w.t.Helper()
	select {
	case d := <-w.delivered:
		w.t.Fatalf("an unexpected delivery: %s", d.body)
	default:
	}
}

// drain forgets the deliveries that were made.
func (w *world) drain() {
	for len(w.delivered) > 0 {
		<-w.delivered
	}
}

// begin dispatches an utterance and returns its delivery.
func (w *world) begin(body obj) (delivery, *node) {
	w.t.Helper()
	p := w.placed(body)
	d, n := w.next()
	if diff := cmp.Diff(p, wire.DispatchResponse{JobID: d.JobID, NodeID: d.NodeID, AttemptID: d.AttemptID}); diff != "" {
		w.t.Fatalf("the caller and the node were told different things: (-caller +node)\n%s", diff)
	}
	return d, n
}

// eventually waits for something that happens beside the test. It is the only place here that looks again
// and again, and only for what nobody announces.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if ok() {
			return
		}
	}
	w.t.Fatalf("not in %s: %s; the log:\n%s", patience, what, w.log)
}

// reaches waits until a job is in a state and returns it.
func (w *world) reaches(id, state string) wire.Job {
	w.t.Helper()
	var j wire.Job
	w.eventually("job "+id+" is "+state, func() bool {
		j = w.job(id)
		return j.State == state
	})
	return j
}

func names(list ...string) string { return strings.Join(list, " ") }
