package socket_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	pingInterval = 15 * time.Second
	stallTimeout = 10 * time.Second
)

// TestSilentPeerIsPingedThenClosed: after two unanswered pings the connection is closed.
func TestSilentPeerIsPingedThenClosed(t *testing.T) {
	t.Parallel()
	s := startServerWithoutWatchdog(t, socket.Options{Stall: time.Hour}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	now := time.Second
	socket.CheckHealth(conn, now)
	for range 2 {
		socket.CheckHealth(conn, now+pingInterval*79/100) // too early
		now += pingInterval * 121 / 100
		socket.CheckHealth(conn, now)
		c.expect(fin|ping, "")
	}
	conn.Send(testFrame{N: 1})
	socket.CheckHealth(conn, now+pingInterval*79/100)
	c.expect(fin|text, `{"type":"test","n":1}`) // no third ping; and what is sent to the peer is no sign that it is alive
	socket.CheckHealth(conn, now+pingInterval*121/100)
	c.expectError(wire.DeadlineExceeded)
	c.expectClose(wire.CloseSlow)
	c.Close()
	if end := s.awaitClose(); end != (socket.CloseError{Code: wire.CloseSlow}) {
		t.Errorf("Read returned %+v", end)
	}
	s.awaitDone(conn)
}

// TestReceivedBytesResetThePings: any received bytes count as a sign that the peer is alive.
func TestReceivedBytesResetThePings(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string][]byte{
		"a pong":                    frame(fin|pong, ""),
		"an unsolicited pong":       frame(fin|pong, "?"),
		"a message":                 frame(fin|text, "x"),
		"the beginning of one":      frame(text, "x")[:3],
		"a fragment without an end": frame(text, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServerWithoutWatchdog(t, socket.Options{Stall: time.Hour}, nil)
			c := dial(t, s.address)
			conn := receive(t, s.accepted)
			now := time.Second
			socket.CheckHealth(conn, now)
			for range 2 {
				now += pingInterval * 121 / 100
				socket.CheckHealth(conn, now)
				c.expect(fin|ping, "")
			}
			c.send(sent)
			before := socket.NextPing(conn)
			for socket.CheckHealth(conn, now+1); socket.NextPing(conn) == before; { // until the bytes are received
				socket.CheckHealth(conn, now+1)
			}
			if due := socket.NextPing(conn) - now; due < pingInterval*79/100 || due > pingInterval*121/100 {
				t.Errorf("the next ping is due in %v", due)
			}
			now += pingInterval * 122 / 100
			socket.CheckHealth(conn, now)
			g := c.next()
			if name == "a message" && g.First == fin|text { // its echo may come before or after the ping
				g = c.next()
			}
			if g.First != fin|ping {
				t.Errorf("got %x %q; want a ping", g.First, g.Payload)
			}
		})
	}
}

// TestKeepalive: a peer that asked for it gets a message at least every 1.5 s, and no keepalive while there are others. Pings are none: a
// page in a browser does not see them.
func TestKeepalive(t *testing.T) {
	t.Parallel()
	const checkInterval = stallTimeout / 16
	for _, asks := range []bool{true, false} {
		s := startServerWithoutWatchdog(t, socket.Options{}, nil)
		c := dial(t, s.address)
		conn := receive(t, s.accepted)
		if asks {
			conn.SetKeepalive(1500)
		}
		for check := range 10 {
			if check == 4 {
				conn.Send(testFrame{N: check})
			}
			if check == 7 {
				conn.Ping(nil)
			}
			socket.CheckHealth(conn, time.Second+time.Duration(check)*checkInterval)
			if keepalive := `{"type":"keepalive"}`; asks {
				switch check {
				case 0, 2, 5, 9:
					c.expect(fin|text, keepalive)
				case 4:
					c.expect(fin|text, `{"type":"test","n":4}`)
				case 7:
					c.expect(fin|ping, "")
					c.expect(fin|text, keepalive)
				}
			}
		}
		conn.Send(testFrame{N: 10})
		if !asks {
			c.expect(fin|text, `{"type":"test","n":4}`)
			c.expect(fin|ping, "")
		}
		c.expect(fin|text, `{"type":"test","n":10}`)
	}
}

// TestKeepaliveInterval: what a peer may ask for.
func TestKeepaliveInterval(t *testing.T) {
	t.Parallel()
	for ms, valid := range map[int64]bool{-1: false, 0: true, 1: false, 1499: false, 1500: true, 60_000: true, 60_001: false} {
		if e := socket.CheckKeepalive(ms); (e == nil) != valid {
			t.Errorf("%d: %v", ms, e)
		}
	}
}

// TestPingsAreJittered: connections that were opened together are not pinged together.
func TestPingsAreJittered(t *testing.T) {
	t.Parallel()
	s := startServerWithoutWatchdog(t, socket.Options{Stall: time.Hour}, nil)
	early := 0
	for range 40 {
		dial(t, s.address)
		conn := receive(t, s.accepted)
		socket.CheckHealth(conn, time.Second)
		if due := socket.NextPing(conn) - time.Second; due < pingInterval {
			early++
		}
	}
	if early == 0 || early == 40 { // by chance once in 5·10¹¹
		t.Errorf("%d of 40 pings are due early", early)
	}
}

// TestStuckWriteIsAborted: a write without progress for Options.Stall aborts the connection.
func TestStuckWriteIsAborted(t *testing.T) {
	t.Parallel()
	s := startServerWithoutWatchdog(t, socket.Options{QueueBytes: 64 << 20, Ping: time.Hour}, nil)
	dial(t, s.address)
	conn := receive(t, s.accepted)
	conn.SendBinary(make([]byte, 32<<20))
	for now := time.Second; ; now += stallTimeout - 1 { // each check that sees progress starts the timeout again
		select {
		case <-conn.Done():
			if end := s.awaitClose(); end != (socket.CloseError{Code: wire.CloseSlow}) {
				t.Errorf("Read returned %+v", end)
			}
			return
		default:
			socket.CheckHealth(conn, now)
		}
	}
}

// TestSlowWriteIsNotAborted: a write that makes progress is not stuck, also within one frame.
func TestSlowWriteIsNotAborted(t *testing.T) {
	t.Parallel()
	s := startServerWithoutWatchdog(t, socket.Options{QueueBytes: 64 << 20, Ping: time.Hour}, nil)
	c := dial(t, s.address)
	c.Conn.(*net.TCPConn).SetReadBuffer(256 << 10)
	conn := receive(t, s.accepted)
	const checks, between = 10, 2 << 20 // more than the kernel buffers hold, so something is written between two checks
	conn.SendBinary(make([]byte, checks*between))
	for i := range checks {
		socket.CheckHealth(conn, time.Second+time.Duration(i)*stallTimeout)
		if _, err := io.CopyN(io.Discard, c.r, between); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnansweredCloseIsAborted: a close that the peer does not answer within Options.Stall aborts the connection.
func TestUnansweredCloseIsAborted(t *testing.T) {
	t.Parallel()
	s := startServerWithoutWatchdog(t, socket.Options{}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	conn.Close(wire.CloseNormal, nil)
	c.expectClose(wire.CloseNormal)
	socket.CheckHealth(conn, time.Second)
	socket.CheckHealth(conn, time.Second+stallTimeout-1)
	select {
	case <-conn.Done():
		t.Fatal("the connection was aborted too early")
	default:
	}
	socket.CheckHealth(conn, time.Second+stallTimeout)
	s.awaitDone(conn)
	if end := s.awaitClose(); end != (socket.CloseError{Code: wire.CloseNormal}) {
		t.Errorf("Read returned %+v", end)
	}
}

// TestWatchdogRun: the watchdog itself, with short timeouts. A busy machine must read the close before Stall aborts the connection.
func TestWatchdogRun(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{Ping: 20 * time.Millisecond, Stall: 3 * time.Second}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	c.expect(fin|ping, "")
	_, _ = c.Write(frame(fin|pong, ""))
	for g := c.next(); ; g = c.next() { // more than two pings, if the pong was received after the second
		if g.First == fin|ping {
			continue
		}
		if g.First != fin|text {
			t.Fatalf("got %x %q", g.First, g.Payload)
		}
		break
	}
	c.expectClose(wire.CloseSlow)
	s.awaitDone(conn) // though the peer does not answer
	if n := s.Len(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
