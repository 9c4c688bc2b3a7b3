package redistest

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// startProxied starts a server with a proxy before it, and connects through the proxy.
func startProxied(t *testing.T) (*Server, *Proxy, *conn) {
	t.Helper()
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := connect(t, p.Addr())
	expect(t, c.do, "PONG", "PING")
	return s, p, c
}

// expectClosed checks that a connection was closed, and did not time out.
func expectClosed(t *testing.T, c *conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(answerTimeout))
	var timeout interface{ Timeout() bool }
	if reply, err := c.receive(); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("a connection that should be closed replied %v, %v", reply, err)
	}
}

func TestProxyForwards(t *testing.T) {
	t.Parallel()
	s, p, c := startProxied(t)
	if want := "redis://" + p.Addr() + "/0"; p.URL() != want {
		t.Errorf("URL %s, want %s", p.URL(), want)
	}
	large := string(make([]byte, 1<<20))
	expect(t, c.do, "OK", "SET", "key", large)
	expect(t, c.do, large, "GET", "key")

	s.Kill()
	expectClosed(t, c)
	expectClosed(t, connect(t, p.Addr())) // there is no server to forward to
	s.Restart()
	expect(t, connect(t, p.Addr()).do, "PONG", "PING")
}

func TestProxyDelays(t *testing.T) {
	t.Parallel()
	_, p, c := startProxied(t)
	const delay = 150 * time.Millisecond
	p.Delay(delay)
	began := time.Now()
	for i := range 3 {
		expect(t, c.do, int64(i+1), "INCR", "key")
	}
	if took := time.Since(began); took < 3*delay {
		t.Errorf("three replies took %v, want %v each", took, delay)
	}
	// A reply does not overtake a delayed one.
	if err := c.send("INCR", "key"); err != nil {
		t.Fatal(err)
	}
	p.Delay(0)
	if err := c.send("PING"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []any{int64(4), "PONG"} {
		if got, err := c.receive(); err != nil || got != want {
			t.Fatalf("got %v, %v; want %v", got, err, want)
		}
	}
	p.Delay(time.Hour)
	if err := c.send("PING"); err != nil {
		t.Fatal(err)
	}
	p.Cut() // neither this nor the end of the test waits for delayed replies
	expectClosed(t, c)
}

func TestProxyCuts(t *testing.T) {
	t.Parallel()
	_, p, c := startProxied(t)
	second := connect(t, p.Addr())
	expect(t, second.do, "PONG", "PING")
	p.Cut()
	expectClosed(t, c)
	expectClosed(t, second)
	expect(t, connect(t, p.Addr()).do, "PONG", "PING")
}

func TestProxyRefuses(t *testing.T) {
	t.Parallel()
	_, p, c := startProxied(t)
	p.Refuse(true)
	expectClosed(t, c)
	if c, err := dial(t.Context(), p.Addr(), answerTimeout); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection that should be refused: %v, %v", c, err)
	}
	p.Refuse(true) // a repeated call changes nothing
	p.Refuse(false)
	p.Refuse(false)
	expect(t, connect(t, p.Addr()).do, "PONG", "PING")
}

func TestProxyFreezes(t *testing.T) {
	t.Parallel()
	s, p, c := startProxied(t)
	p.Freeze(true)
	fresh := connect(t, p.Addr())
	expectNoAnswer(t, c, "INCR", "key")
	expectNoAnswer(t, fresh, "INCR", "key")
	expect(t, s.Do, nil, "GET", "key") // nothing reached the server
	p.Freeze(false)
	expectAnswer(t, c)
	expectAnswer(t, fresh)
	expect(t, s.Do, "2", "GET", "key")

	// A reply waits as a request does.
	if err := c.send("BLPOP", "list", "0"); err != nil {
		t.Fatal(err)
	}
	eventually(t, answerTimeout, func() error { return checkBlocked(s) })
	p.Freeze(true)
	expect(t, s.Do, int64(1), "RPUSH", "list", "item")
	expectNoAnswer(t, c, "PING")
	p.Freeze(false)
	expectAnswer(t, c)
	expectAnswer(t, c)

	// Requests that were cut while frozen never arrive.
	p.Freeze(true)
	expectNoAnswer(t, c, "INCR", "key")
	p.Cut()
	p.Freeze(false)
	expectClosed(t, c)
	expect(t, connect(t, p.Addr()).do, "2", "GET", "key")
}

// checkBlocked returns an error until one client is blocked.
func checkBlocked(s *Server) error {
	info, err := s.info("clients")
	if err == nil && info["blocked_clients"] != "1" {
		err = fmt.Errorf("%s clients are blocked, want 1", info["blocked_clients"])
	}
	return err
}

func TestProxyDropsReplies(t *testing.T) {
	t.Parallel()
	s, p, _ := startProxied(t)
	p.DropReplies(2)
	for i := range 2 {
		c := connect(t, p.Addr())
		if err := c.send("INCR", "key"); err != nil {
			t.Fatal(err)
		}
		expectClosed(t, c)
		if p.Dropped() != i+1 {
			t.Errorf("%d replies dropped, want %d", p.Dropped(), i+1)
		}
	}
	expect(t, s.Do, "2", "GET", "key")
	expect(t, connect(t, p.Addr()).do, int64(3), "INCR", "key")

	p.DropReplies(1)
	p.DropReplies(0)
	expect(t, connect(t, p.Addr()).do, int64(4), "INCR", "key")
	if p.Dropped() != 2 {
		t.Errorf("%d replies dropped, want 2", p.Dropped())
	}
}
