package redistest

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// proxied is a server, a proxy before it, and a connection through that.
func proxied(t *testing.T) (*Server, *Proxy, *conn) {
	t.Helper()
	s := Start(t)
	p := StartProxy(t, s.Addr())
	c := connect(t, p.Addr())
	expect(t, c.do, "PONG", "PING")
	return s, p, c
}

// ended sees that a connection was closed, at once and not after a timeout.
func ended(t *testing.T, c *conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	var timeout interface{ Timeout() bool }
	if reply, err := c.receive(); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("a connection that should be closed: %v, %v", reply, err)
	}
}

func TestProxyPassesOn(t *testing.T) {
	t.Parallel()
	s, p, c := proxied(t)
	if want := "redis://" + p.Addr() + "/0"; p.URL() != want {
		t.Errorf("URL %s, want %s", p.URL(), want)
	}
	large := string(make([]byte, 1<<20))
	expect(t, c.do, "OK", "SET", "key", large)
	expect(t, c.do, large, "GET", "key")

	s.Kill()
	ended(t, c)
	ended(t, connect(t, p.Addr())) // there is nobody to pass on to
	s.Restart()
	expect(t, connect(t, p.Addr()).do, "PONG", "PING")
}

func TestProxyDelays(t *testing.T) {
	t.Parallel()
	_, p, c := proxied(t)
	const delay = 150 * time.Millisecond
	p.Delay(delay)
	began := time.Now()
	for i := range 3 {
		expect(t, c.do, int64(i+1), "INCR", "key")
	}
	if took := time.Since(began); took < 3*delay {
		t.Errorf("three replies took %v, want %v each", took, delay)
	}
	// What follows a late reply does not overtake it.
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
	p.Cut() // does not wait for what is late, nor does the end of the test
	ended(t, c)
}

func TestProxyCuts(t *testing.T) {
	t.Parallel()
	_, p, c := proxied(t)
	second := connect(t, p.Addr())
	expect(t, second.do, "PONG", "PING")
	p.Cut()
	ended(t, c)
	ended(t, second)
	expect(t, connect(t, p.Addr()).do, "PONG", "PING")
}

func TestProxyRefuses(t *testing.T) {
	t.Parallel()
	_, p, c := proxied(t)
	p.Refuse(true)
	ended(t, c)
	if c, err := dial(t.Context(), p.Addr(), patience); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection that should be refused: %v, %v", c, err)
	}
	p.Refuse(true) // twice is no mistake
	p.Refuse(false)
	p.Refuse(false)
	expect(t, connect(t, p.Addr()).do, "PONG", "PING")
}

func TestProxyFreezes(t *testing.T) {
	t.Parallel()
	s, p, c := proxied(t)
	p.Freeze(true)
	fresh := connect(t, p.Addr())
	silent(t, c, "INCR", "key")
	silent(t, fresh, "INCR", "key")
	expect(t, s.Do, nil, "GET", "key") // nothing reached the server
	p.Freeze(false)
	answersLater(t, c)
	answersLater(t, fresh)
	expect(t, s.Do, "2", "GET", "key")

	// A reply waits as a request does.
	if err := c.send("BLPOP", "list", "0"); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, func() error { return blocked(s) })
	p.Freeze(true)
	expect(t, s.Do, int64(1), "RPUSH", "list", "item")
	silent(t, c, "PING")
	p.Freeze(false)
	answersLater(t, c)
	answersLater(t, c)

	// What was cut while it was frozen never arrives.
	p.Freeze(true)
	silent(t, c, "INCR", "key")
	p.Cut()
	p.Freeze(false)
	ended(t, c)
	expect(t, connect(t, p.Addr()).do, "2", "GET", "key")
}

// blocked says that no client waits for a list yet.
func blocked(s *Server) error {
	info, err := s.info("clients")
	if err == nil && info["blocked_clients"] != "1" {
		err = fmt.Errorf("%s clients are blocked, want 1", info["blocked_clients"])
	}
	return err
}

// TestProxyLosesReplies: the server did what it was asked to, and the client did not hear of it.
func TestProxyLosesReplies(t *testing.T) {
	t.Parallel()
	s, p, _ := proxied(t)
	p.DropReplies(2)
	for i := range 2 {
		c := connect(t, p.Addr())
		if err := c.send("INCR", "key"); err != nil {
			t.Fatal(err)
		}
		ended(t, c)
		if p.Dropped() != i+1 {
			t.Errorf("%d replies lost, want %d", p.Dropped(), i+1)
		}
	}
	expect(t, s.Do, "2", "GET", "key")
	expect(t, connect(t, p.Addr()).do, int64(3), "INCR", "key")

	p.DropReplies(1)
	p.DropReplies(0)
	expect(t, connect(t, p.Addr()).do, int64(4), "INCR", "key")
	if p.Dropped() != 2 {
		t.Errorf("%d replies lost, want 2", p.Dropped())
	}
}
