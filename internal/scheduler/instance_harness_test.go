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
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

// testInstance is a running scheduler with one HTTP node and an HTTP client.
type testInstance struct {
	t         *testing.T
	scheduler *scheduler.Scheduler
	listener  net.Listener
	url       string
	client    *http.Client
	stop      context.CancelFunc
	ended     chan error
	node      *httptest.Server
	delivered chan wire.Assignment
	nodeConns atomic.Int64 // open connections to the node
}

// startInstance runs a scheduler with a node. The node passes each delivery to the test and then calls callback.
func startInstance(t *testing.T, callback http.HandlerFunc, changes ...func(*config.Config)) *testInstance {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Port = 0
	patient(&cfg)
	cfg.Scheduler.Dispatch.ACKTimeoutMS = 10_000 // a test's node may be slow to acknowledge on a busy machine
	for _, change := range changes {
		change(&cfg)
	}
	r := &testInstance{t: t, ended: make(chan error, 1), delivered: make(chan wire.Assignment, 16)}
	var err error
	if r.scheduler, err = scheduler.New(t.Context(), cfg, wire.VersionResponse{Version: "test"}, slog.New(slog.DiscardHandler), nil); err != nil {
		t.Fatal(err)
	}
	if r.listener, err = r.scheduler.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + r.listener.Addr().String()
	transport := &http.Transport{}
	r.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)

	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.ended <- r.scheduler.Run(ctx, r.listener) }()
	t.Cleanup(stop)

	r.node = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var a wire.Assignment
		if err := json.NewDecoder(req.Body).Decode(&a); err != nil {
			t.Error(err)
		}
		r.delivered <- a
		if callback != nil {
			callback(w, req)
		}
	}))
	r.node.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			r.nodeConns.Add(1)
		case http.StateClosed, http.StateHijacked:
			r.nodeConns.Add(-1)
		}
	}
	r.node.Start()
	t.Cleanup(r.node.Close)
	r.post(http.StatusOK, "/v1/node/register", map[string]any{
		"node_id": "n1", "semantic_langs": []string{"en", "zh"}, "max_concurrent_jobs": 2, "callback_url": r.node.URL,
	})
	return r
}

// post sends a body, checks the status and returns the response.
func (r *testInstance) post(status int, path string, body any) map[string]any {
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

func (r *testInstance) get(status int, path string) map[string]any {
	r.t.Helper()
	resp, err := r.client.Get(r.url + path)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.read(status, path, resp)
}

func (r *testInstance) read(status int, path string, resp *http.Response) map[string]any {
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

func dispatchBody(request string) map[string]any {
	return map[string]any{"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "request_id": request}
}

// dispatchJob dispatches a request and returns the delivery to the node.
func (r *testInstance) dispatchJob(request string) wire.Assignment {
	r.t.Helper()
	r.post(http.StatusOK, "/v1/dispatch/f2f", dispatchBody(request))
	return r.awaitDelivery()
}

func (r *testInstance) awaitDelivery() wire.Assignment {
	r.t.Helper()
	select {
	case a := <-r.delivered:
		return a
	case <-time.After(waitLimit):
		r.t.Fatal("no job was delivered")
		panic("unreachable")
	}
}

// reportBody is the body of a report about a job by its node.
func reportBody(a wire.Assignment) map[string]any {
	return map[string]any{"job_id": a.JobID, "attempt_id": a.AttemptID, "node_id": a.NodeID}
}

// awaitUnready polls /readyz until the scheduler reports that it is stopping, as a load
// balancer does.
func (r *testInstance) awaitUnready() {
	r.t.Helper()
	waitUntil(r.t, "it to be unready", waitLimit, func() bool {
		resp, err := r.client.Get(r.url + "/readyz")
		if err != nil {
			r.t.Fatalf("it stopped serving before /readyz reported it: %v", err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
}

// awaitLeaving waits until it refuses dispatches because it shuts down, which it does a little later than it is unready. No node serves what it is asked
// for, so nothing is dispatched meanwhile.
func (r *testInstance) awaitLeaving() {
	r.t.Helper()
	body := dispatchBody("served-by-no-node")
	body["tgt_lang"] = "qaa"
	text, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	waitUntil(r.t, "it to refuse dispatches", waitLimit, func() bool {
		resp, err := r.client.Post(r.url+"/v1/dispatch/f2f", "application/json", bytes.NewReader(text))
		if err != nil {
			r.t.Fatalf("it stopped serving before it refused dispatches: %v", err)
		}
		defer func() { _ = resp.Body.Close() }()
		refusal, _ := io.ReadAll(resp.Body)
		return bytes.Contains(refusal, []byte("shutting down"))
	})
}

// awaitEnd waits until Run has returned.
func (r *testInstance) awaitEnd() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(waitLimit):
		r.t.Fatal("it was stopped and Run did not return")
		panic("unreachable")
	}
}

// wantRunning checks that Run has not returned.
func (r *testInstance) wantRunning() {
	r.t.Helper()
	select {
	case err := <-r.ended:
		r.t.Fatalf("it ended while a job was in flight: %v", err)
	default:
	}
}

// dialSession connects as a session and sends a first message.
func dialSession(t *testing.T, url string, first wire.Frame) *fleet.Socket {
	t.Helper()
	s := fleet.Connect(t, url, "/ws/session", "")
	s.Send(first)
	return s
}
