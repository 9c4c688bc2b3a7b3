package redistest

import (
	"errors"
	"os"
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

// expectNoAnswer sends a command and checks that there is no answer for a while.
func expectNoAnswer(t *testing.T, c *conn, args ...string) {
	t.Helper()
	if err := c.send(args...); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if reply, err := c.receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("an answer while there should be none: %v, %v", reply, err)
	}
}

// expectAnswer reads the answer to the command of expectNoAnswer.
func expectAnswer(t *testing.T, c *conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(answerTimeout))
	if reply, err := c.receive(); err != nil {
		t.Fatalf("no answer afterwards: %v, %v", reply, err)
	}
}

// TestProxyFreezes: while the proxy is frozen nothing reaches the server, and afterwards everything does.
func TestProxyFreezes(t *testing.T) {
	t.Parallel()
	s, p, c := startProxied(t)
	p.Freeze(true)
	fresh := connect(t, p.Addr())
	expectNoAnswer(t, c, "INCR", "key")
	expectNoAnswer(t, fresh, "INCR", "key")
	expect(t, s.Do, nil, "GET", "key")
	p.Freeze(false)
	expectAnswer(t, c)
	expectAnswer(t, fresh)
	expect(t, s.Do, "2", "GET", "key")
}

// TestProxyDropsReplies: the command whose reply is dropped was executed.
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
