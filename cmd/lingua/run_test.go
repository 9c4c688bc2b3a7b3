package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// ended is a command that has ended.
type ended struct {
	code     int
	out, err string
}

// call runs a command with nothing in its environment.
func call(t *testing.T, args ...string) ended {
	t.Helper()
	return callIn(t.Context(), nil, args...)
}

func callIn(ctx context.Context, environ []string, args ...string) ended {
	var out, err bytes.Buffer
	code := run(ctx, args, streams{out: &out, err: &err, environ: environ})
	return ended{code: code, out: out.String(), err: err.String()}
}

// serving is `lingua serve` on a free port.
type serving struct {
	url  string
	stop func() int // ends it and returns its exit code
}

// serve starts a scheduler as the command does, and learns its address from its log.
func serve(t *testing.T, args ...string) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	read, write := io.Pipe()
	code := make(chan int, 1)
	environ := []string{
		"LINGUA_SERVER_SHUTDOWN_SECONDS=0", // tests leave jobs behind
		// and their nodes are slow to confirm on a busy machine
		"LINGUA_SCHEDULER_DISPATCH_ACK_TIMEOUT_MS=10000", "LINGUA_SCHEDULER_TASK_BINDING_RESERVED_TTL_SECONDS=60",
	}
	go func() {
		code <- run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args...),
			streams{out: io.Discard, err: write, environ: environ})
		_ = write.Close()
	}()
	address, drained := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
				address <- line.Address
			}
		}
	}()
	exit := -1
	s := &serving{stop: func() int {
		cancel()
		if exit < 0 {
			exit = <-code
			<-drained
		}
		return exit
	}}
	t.Cleanup(func() { s.stop() })
	select {
	case a := <-address:
		s.url = "http://" + a
	case <-time.After(20 * time.Second):
		t.Fatal("serve does not say where it listens")
	}
	return s
}

// post sends JSON to the scheduler and wants 200.
func (s *serving) post(t *testing.T, path, body string, args ...any) map[string]any {
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

// node registers a node that takes every job.
func (s *serving) node(t *testing.T, id string, slots int) {
	t.Helper()
	callback := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(callback.Close)
	s.post(t, "/v1/node/register", `{"node_id":%q,"semantic_langs":["en","zh"],"max_concurrent_jobs":%d,"callback_url":%q}`, id, slots, callback.URL)
}

// nobody is an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}
