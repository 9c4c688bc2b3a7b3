package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/test/child"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

// result is the outcome of a command.
type result struct {
	code     int
	out, err string
}

// runCommand runs a command with an empty environment.
func runCommand(t *testing.T, args ...string) result {
	t.Helper()
	return runCommandEnv(t.Context(), nil, args...)
}

// runCommandEnv runs a command with an environment.
func runCommandEnv(ctx context.Context, environ []string, args ...string) result {
	var out, err bytes.Buffer
	code := execute(ctx, args, streams{out: &out, err: &err, environ: environ})
	return result{code: code, out: out.String(), err: err.String()}
}

// testServer is `lingua serve` on a free port.
type testServer struct {
	url  string
	stop func() int // stops the command and returns its exit code
}

// startServer starts a scheduler with `lingua serve` and reads its address from its log.
func startServer(t *testing.T, args ...string) *testServer {
	t.Helper()
	return startServerWithSignals(t, nil, args...)
}

// startServerWithSignals is startServer with signals that reload the configuration.
func startServerWithSignals(t *testing.T, hangups <-chan os.Signal, args ...string) *testServer {
	t.Helper()
	notify := func() (<-chan os.Signal, func()) { return hangups, func() {} }
	ctx, cancel := context.WithCancel(context.Background())
	read, write := io.Pipe()
	code := make(chan int, 1)
	environ := []string{
		"LINGUA_SERVER_SHUTDOWN_SECONDS=0", // tests leave jobs in flight
		// On a busy machine their nodes are slow to acknowledge and to end jobs, they send no heartbeats, and Redis answers late.
		"LINGUA_SCHEDULER_DISPATCH_ACK_TIMEOUT_MS=10000", "LINGUA_SCHEDULER_TASK_BINDING_RESERVED_TTL_SECONDS=60",
		"LINGUA_SCHEDULER_DISPATCH_ATTEMPT_TIMEOUT_MS=600000", "LINGUA_SCHEDULER_DISPATCH_JOB_TIMEOUT_MS=1200000",
		"LINGUA_SCHEDULER_NODES_PRESENCE_TTL_MS=600000", "LINGUA_SCHEDULER_DISPATCH_HEARTBEAT_STALE_MS=600000",
		"LINGUA_SCHEDULER_DISPATCH_DECIDE_WITHIN_MS=10000", "LINGUA_SCHEDULER_PHASE2_HEARTBEAT_TTL_SECONDS=60",
	}
	go func() {
		code <- execute(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args...),
			streams{out: io.Discard, err: write, environ: environ, hangups: notify})
		_ = write.Close()
	}()
	address, logRead := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(logRead)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
				address <- line.Address
			}
		}
	}()
	exit := -1
	s := &testServer{stop: func() int {
		cancel()
		if exit < 0 {
			exit = <-code
			<-logRead
		}
		return exit
	}}
	t.Cleanup(func() { s.stop() })
	select {
	case a := <-address:
		s.url = "http://" + a
	case <-time.After(20 * time.Second):
		t.Fatal("serve did not log its address")
	}
	return s
}

// post sends JSON to the scheduler and fails the test unless the status is 200.
func (s *testServer) post(t *testing.T, path, body string, args ...any) map[string]any {
	t.Helper()
	resp, err := http.Post(s.url+path, "application/json", bytes.NewBufferString(fmt.Sprintf(body, args...)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v %v", path, resp.StatusCode, out, err)
	}
	return out
}

// registerNode registers a node that accepts every job.
func (s *testServer) registerNode(t *testing.T, id string, slots int) {
	t.Helper()
	callback := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(callback.Close)
	s.post(t, "/v1/node/register", `{"node_id":%q,"semantic_langs":["en","zh"],"max_concurrent_jobs":%d,"callback_url":%q}`, id, slots, callback.URL)
}

// unusedURL returns the URL of a port on which no program listens.
func unusedURL(t *testing.T) string {
	t.Helper()
	return "http://" + child.Address(child.Port(t))
}

// startSession starts a session and returns the close code of its connection when it ends.
func (s *testServer) startSession(t *testing.T, id string) <-chan wire.CloseCode {
	t.Helper()
	conn := fleet.Connect(t, s.url, "/ws/session", "")
	conn.Send(wire.SessionStart{SessionID: id, Langs: []string{"en", "zh"}})
	conn.Await(new(wire.SessionStarted))
	closed := make(chan wire.CloseCode, 1)
	go func() {
		for {
			if _, _, err := conn.Read(t.Context()); err != nil {
				closed <- wire.CloseCode(websocket.CloseStatus(err))
				return
			}
		}
	}()
	return closed
}
