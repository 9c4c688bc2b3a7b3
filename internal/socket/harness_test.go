package socket_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// testFrame is a frame of these tests.
type testFrame struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

// Type implements wire.Frame.
func (testFrame) Type() wire.FrameType { return "test" }

// testServer is a hub behind an HTTP server.
type testServer struct {
	*socket.Hub
	t          *testing.T
	address    string
	accepted   chan *socket.Conn
	readErrors chan error // the error of the last Read of each connection
}

// startServer serves a hub with its watchdog. serve handles the messages of each connection; nil echoes them.
func startServer(t *testing.T, o socket.Options, serve func(*socket.Conn, socket.Message)) *testServer {
	t.Helper()
	s := startServerWithoutWatchdog(t, o, serve)
	ctx, stop := context.WithCancel(t.Context())
	var watchdog sync.WaitGroup
	watchdog.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		watchdog.Wait()
	})
	return s
}

// startServerWithoutWatchdog serves a hub without a watchdog: the test calls CheckHealth itself.
func startServerWithoutWatchdog(t *testing.T, o socket.Options, serve func(*socket.Conn, socket.Message)) *testServer {
	t.Helper()
	if serve == nil {
		serve = echo
	}
	return startServerWith(t, o, func(c *socket.Conn) error {
		for {
			m, err := c.Read()
			if err != nil {
				return err
			}
			serve(c, m)
		}
	})
}

// startServerWith serves a hub without a watchdog. read reads each connection until it returns the error of the last Read.
func startServerWith(t *testing.T, o socket.Options, read func(*socket.Conn) error) *testServer {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &testServer{Hub: socket.NewHub(o), t: t, accepted: make(chan *socket.Conn, 1000), readErrors: make(chan error, 1000)}
	var running sync.WaitGroup // handlers and readers
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1) // before Accept: srv.Close waits for a request until its connection is hijacked
		defer running.Done()
		c, err := s.Accept(w, r)
		if err != nil {
			return
		}
		s.accepted <- c
		running.Go(func() { s.readErrors <- read(c) })
	}))
	s.address = strings.TrimPrefix(srv.URL, "http://")
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Close(ended)
		srv.Close()
		running.Wait()
		if n := s.Len(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
	return s
}

// echo sends a message back.
func echo(c *socket.Conn, m socket.Message) {
	if m.Binary {
		c.SendBinary(m.Data)
		return
	}
	c.Send(echoFrame(m.Data))
}

// echoFrame is the answer to a text message.
type echoFrame string

// Type implements wire.Frame.
func (echoFrame) Type() wire.FrameType { return "echo" }

// MarshalJSON encodes the text as a field of an object, because every frame is an object.
func (r echoFrame) MarshalJSON() ([]byte, error) {
	return []byte(`{"x":` + jsonString(string(r)) + `}`), nil
}

// receive receives from a channel, or fails the test after testTimeout.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(testTimeout):
		t.Fatal("timeout: nothing was received")
		panic("unreachable")
	}
}

// awaitClose waits until a connection ends, and returns how.
func (s *testServer) awaitClose() socket.CloseError {
	s.t.Helper()
	var c *socket.CloseError
	if err := receive(s.t, s.readErrors); !errors.As(err, &c) {
		s.t.Fatalf("Read returned %v, which is not a *CloseError", err)
	}
	return *c
}

// awaitDone waits until everything of a connection has ended.
func (s *testServer) awaitDone(c *socket.Conn) {
	s.t.Helper()
	receive(s.t, c.Done())
}

// jsonString encodes a JSON string.
func jsonString(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// echoOf is the echo of a text message.
func echoOf(s string) string { return `{"type":"echo","x":` + jsonString(s) + `}` }

// TestMain checks that no goroutine outlives the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
