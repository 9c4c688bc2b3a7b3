package server_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestConnectionLimitPerAddress: one connection more than the limit is refused with RATE_LIMITED; a connection that is closed, or
// becomes a WebSocket, does not count any more.
func TestConnectionLimitPerAddress(t *testing.T) {
	t.Parallel()
	const limit = 4
	ts := startScheduler(t, func(c *config.Config) { c.Server.PerAddress = limit })
	ask := func(c net.Conn) (int, wire.Error) {
		t.Helper()
		if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")); err != nil {
			return 0, wire.Error{} // refused and closed already
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, wire.Error{}
		}
		defer resp.Body.Close()
		var e wire.Error
		if resp.StatusCode != http.StatusOK {
			if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
				t.Error(err)
			}
		}
		return resp.StatusCode, e
	}
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(ts.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	fill := func() (held []net.Conn) {
		t.Helper()
		ts.eventually("as many connections as the limit can be opened", func() bool {
			for len(held) < limit {
				c := dial()
				if status, _ := ask(c); status != http.StatusOK {
					return false
				}
				held = append(held, c)
			}
			return true
		})
		return held
	}
	held := fill()
	resp, err := http.ReadResponse(bufio.NewReader(dial()), nil) // answered before the request is sent
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var e wire.Error
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || resp.StatusCode != http.StatusTooManyRequests ||
		e.Code != wire.RateLimited || e.RetryAfterMS == 0 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("above the limit: %s %+v, %v", resp.Status, e, err)
	}
	for _, c := range held {
		_ = c.Close()
	}
	for _, c := range fill() {
		_ = c.Close()
	}
	for range 2 * limit {
		ts.eventually("a WebSocket is opened", func() bool {
			s, err := ts.tryDialAs("/ws/session", "", false)
			if err != nil {
				return false
			}
			s.send(object{"type": "session_start", "langs": []string{"en", "es"}})
			s.readUntil("session_started")
			return true
		})
	}
	for _, c := range fill() { // beside twice as many WebSockets
		_ = c.Close()
	}
}

// pipeListener is a listener of net.Pipe connections, which have no buffers and work with synctest.
type pipeListener struct {
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (*pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial opens a connection that ends with the test.
func (p *pipeListener) dial(t *testing.T) net.Conn {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close() })
	p.accepted <- theirs
	return ours
}

// servePipes serves HTTP over pipes until the test ends, with keys, so that requests can be refused.
func servePipes(t *testing.T, version string) *pipeListener {
	t.Helper()
	keyring, err := auth.NewKeyring(auth.Config{OperatorKeys: []string{operatorKey}})
	if err != nil {
		t.Fatal(err)
	}
	return listenPipes(t, server.New(server.Options{
		Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler), SlowAfter: time.Hour, Auth: auth.NewAuthenticator(keyring, nil),
		StoreHealth: storeCheck(nil), Version: wire.VersionResponse{Version: version},
	}).HTTP())
}

// listenPipes runs a server over pipes until the test ends.
func listenPipes(t *testing.T, srv *http.Server) *pipeListener {
	t.Helper()
	p := &pipeListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(p) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return p
}

// TestUnreadAnswersTimeOut: the connection of a client that pipelines requests and reads no answers is closed.
func TestUnreadAnswersTimeOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := servePipes(t, "test")
		for _, path := range []string{"/openapi.yaml", "/healthz", "/metrics", "/v1/nowhere"} {
			c := p.dial(t)
			request := "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + operatorKey + "\r\n\r\n"
			began := time.Now()
			closed := make(chan error, 1)
			go func() {
				for {
					if _, err := c.Write([]byte(request)); err != nil {
						closed <- err
						return
					}
				}
			}()
			select {
			case err := <-closed:
				if took := time.Since(began); !errors.Is(err, io.ErrClosedPipe) || took > time.Minute {
					t.Errorf("%s: closed after %v with %v", path, took, err)
				}
			case <-time.After(10 * time.Minute):
				t.Errorf("%s: the connection is open after ten minutes without a read", path)
			}
		}
	})
}

// TestLargeAnswerMayBeReadSlowly: an answer may take longer than the timeout of one chunk, as long as it is read.
func TestLargeAnswerMayBeReadSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 2 << 20
		p := servePipes(t, strings.Repeat("v", size))
		c := p.dial(t)
		go func() { _, _ = c.Write([]byte("GET /v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")) }()
		began := time.Now()
		slow := readerFunc(func(b []byte) (int, error) {
			time.Sleep(100 * time.Millisecond)
			return c.Read(b[:min(len(b), 2<<10)])
		})
		resp, err := http.ReadResponse(bufio.NewReaderSize(slow, 2<<10), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if took := time.Since(began); err != nil || n < size || took < 90*time.Second {
			t.Errorf("%d bytes in %v, %v", n, took, err)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestRefusedRequestDoesNotWaitForBody: a request that is refused without its body is answered at once, and its connection is
// closed soon if the body does not come.
func TestRefusedRequestDoesNotWaitForBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := servePipes(t, "test")
		for name, c := range map[string]struct {
			head   string
			status int
		}{
			"no key":       {"POST /v1/dispatch/f2f HTTP/1.1\r\nHost: 127.0.0.1\r\n", http.StatusUnauthorized},
			"a wrong key":  {"POST /v1/dispatch/f2f HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer an-unknown-credential\r\n", http.StatusUnauthorized},
			"no such path": {"POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\n", http.StatusNotFound},
			"a method":     {"PUT /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", http.StatusMethodNotAllowed},
			"no JSON":      {"POST /v1/dispatch/f2f HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + operatorKey + "\r\n", http.StatusUnsupportedMediaType},
			"speech":       {"PUT /v1/audio/j/tts HTTP/1.1\r\nHost: 127.0.0.1\r\n", http.StatusUnauthorized},
		} {
			for _, length := range []string{"Content-Length: 1000\r\n", "Transfer-Encoding: chunked\r\n"} {
				conn := p.dial(t)
				began := time.Now()
				go func() { _, _ = conn.Write([]byte(c.head + length + "\r\n")) }() // and no body
				in := bufio.NewReader(conn)
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				_, err = in.ReadByte()
				if took := time.Since(began); resp.StatusCode != c.status || !errors.Is(err, io.EOF) || took > 2*time.Second {
					t.Errorf("%s, %q: %s; the connection was closed after %v with %v", name, length, resp.Status, took, err)
				}
			}
		}
	})
}

// TestRefusedRequestKeepsConnection: if the body of a refused request comes at once, the connection can be used again.
func TestRefusedRequestKeepsConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := servePipes(t, "test").dial(t)
		in := bufio.NewReader(conn)
		for range 3 {
			go func() {
				_, _ = conn.Write([]byte("POST /v1/dispatch/f2f HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 6000\r\n\r\n" + strings.Repeat("x", 6000)))
			}()
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized || resp.Close {
				t.Errorf("%s, close %v", resp.Status, resp.Close)
			}
			time.Sleep(30 * time.Second) // longer than the timeout of an unread body
		}
	})
}
