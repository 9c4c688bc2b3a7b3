package scheduler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/wire"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// running is a scheduler that runs, with one node and somebody who asks.
type running struct {
	t        *testing.T
	s        *scheduler.Scheduler
	listener net.Listener
	url      string
	client   *http.Client
	stop     context.CancelFunc
	ended    chan error
	node     *httptest.Server
	took     chan wire.Assignment
	lines    atomic.Int64 // connections to the node that are open
}

// start runs a scheduler. What the node's callback does beyond telling the test is up to the test.
func start(t *testing.T, callback http.HandlerFunc, changes ...func(*config.Config)) *running {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Port = 0
	cfg.Scheduler.Dispatch.ACKTimeoutMS = 10_000 // a test's node may be slow to confirm on a busy machine
	for _, change := range changes {
		change(&cfg)
	}
	r := &running{t: t, ended: make(chan error, 1), took: make(chan wire.Assignment, 16)}
	var err error
	if r.s, err = scheduler.New(t.Context(), cfg, wire.VersionResponse{Version: "test"}, slog.New(slog.DiscardHandler), nil); err != nil {
		t.Fatal(err)
	}
	if r.listener, err = r.s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + r.listener.Addr().String()
	transport := &http.Transport{}
	r.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)

	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.ended <- r.s.Run(ctx, r.listener) }()
	t.Cleanup(stop)

	r.node = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var a wire.Assignment
		if err := json.NewDecoder(req.Body).Decode(&a); err != nil {
			t.Error(err)
		}
		r.took <- a
		if callback != nil {
			callback(w, req)
		}
	}))
	r.node.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			r.lines.Add(1)
		case http.StateClosed, http.StateHijacked:
			r.lines.Add(-1)
		}
	}
	r.node.Start()
	t.Cleanup(r.node.Close)
	r.post(http.StatusOK, "/v1/node/register", map[string]any{
		"node_id": "n1", "semantic_langs": []string{"en", "zh"}, "max_concurrent_jobs": 2, "callback_url": r.node.URL,
	})
	return r
}

// post wants a status and returns the body.
func (r *running) post(status int, path string, body any) map[string]any {
	r.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.client.Post(r.url+path, "application/json", bytes.NewReader(b))
	if err != nil {
		r.t.Fatal(err)
	}
	return r.read(status, path, resp)
}

func (r *running) get(status int, path string) map[string]any {
	r.t.Helper()
	resp, err := r.client.Get(r.url + path)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.read(status, path, resp)
}

func (r *running) read(status int, path string, resp *http.Response) map[string]any {
	r.t.Helper()
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != status {
		r.t.Fatalf("%s: want %d, got %d %v (%v)", path, status, resp.StatusCode, out, err)
	}
	if status == http.StatusServiceUnavailable && path != "/readyz" && resp.Header.Get("Retry-After") == "" {
		r.t.Errorf("%s: 503 without Retry-After", path)
	}
	return out
}

func utterance(request string) map[string]any {
	return map[string]any{"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "request_id": request}
}

// job dispatches an utterance and returns what its node was given.
func (r *running) job(request string) wire.Assignment {
	r.t.Helper()
	r.post(http.StatusOK, "/v1/dispatch/f2f", utterance(request))
	return r.delivery()
}

func (r *running) delivery() wire.Assignment {
	r.t.Helper()
	select {
	case a := <-r.took:
		return a
	case <-time.After(patience):
		r.t.Fatal("no job was delivered")
		panic("unreachable")
	}
}

// report names a job in its node's name.
func report(a wire.Assignment) map[string]any {
	return map[string]any{"job_id": a.JobID, "attempt_id": a.AttemptID, "node_id": a.NodeID}
}

// unready waits until the scheduler says that it is about to stop. It is asked again and again, as a load
// balancer does.
func (r *running) unready() {
	r.t.Helper()
	r.eventually("it was asked to stop and says that it is not ready", func() bool {
		resp, err := r.client.Get(r.url + "/readyz")
		if err != nil {
			r.t.Fatalf("it stopped serving before it said that it would: %v", err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
}

// eventually waits for something that nobody announces.
func (r *running) eventually(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if ok() {
			return
		}
	}
	r.t.Fatalf("not in %s: %s", patience, what)
}

// end waits until Run has returned.
func (r *running) end() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		r.t.Fatal("it was asked to stop and did not")
		panic("unreachable")
	}
}

// serving wants that Run has not returned.
func (r *running) serving() {
	r.t.Helper()
	select {
	case err := <-r.ended:
		r.t.Fatalf("it ended while a job was in flight: %v", err)
	default:
	}
}
