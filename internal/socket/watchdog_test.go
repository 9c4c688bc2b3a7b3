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
	pingTime  = 15 * time.Second
	stallTime = 10 * time.Second
)

// TestTheSilentArePingedThenClosed.
func TestTheSilentArePingedThenClosed(t *testing.T) {
	t.Parallel()
	p := unwatched(t, socket.Options{Stall: time.Hour}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	now := time.Second
	conn.Look(now)
	for range 2 {
		conn.Look(now + pingTime*79/100) // too early
		now += pingTime * 121 / 100
		conn.Look(now)
		c.expect(fin|ping, "")
	}
	conn.Send(said{N: 1})
	conn.Look(now + pingTime*79/100)
	c.expect(fin|text, `{"type":"said","n":1}`) // no third ping, and what is sent to it is not life
	conn.Look(now + pingTime*121/100)
	c.expectError(wire.DeadlineExceeded)
	c.expectClose(wire.CloseSlow)
	c.Close()
	if end := p.closed(); end != (socket.CloseError{Code: wire.CloseSlow}) {
		t.Errorf("Read returned %+v", end)
	}
	p.gone(conn)
}

// TestWhoAnswersStays: whatever comes is life.
func TestWhoAnswersStays(t *testing.T) {
	t.Parallel()
	for name, life := range map[string][]byte{
		"a pong":                    frame(fin|pong, ""),
		"a pong nobody asked for":   frame(fin|pong, "?"),
		"a message":                 frame(fin|text, "x"),
		"the beginning of one":      frame(text, "x")[:3],
		"a fragment without an end": frame(text, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := unwatched(t, socket.Options{Stall: time.Hour}, nil)
			c := dial(t, p.address)
			conn := soon(t, p.opened)
			now := time.Second
			conn.Look(now)
			for range 2 {
				now += pingTime * 121 / 100
				conn.Look(now)
				c.expect(fin|ping, "")
			}
			c.send(life)
			before := conn.PingDue()
			for conn.Look(now + 1); conn.PingDue() == before; { // until it is heard
				conn.Look(now + 1)
			}
			if due := conn.PingDue() - now; due < pingTime*79/100 || due > pingTime*121/100 {
				t.Errorf("the next ping is due in %v", due)
			}
			now += pingTime * 122 / 100
			conn.Look(now)
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

// TestPingsDoNotFallTogether: those of connections that came together are spread.
func TestPingsDoNotFallTogether(t *testing.T) {
	t.Parallel()
	p := unwatched(t, socket.Options{Stall: time.Hour}, nil)
	early := 0
	for range 40 {
		dial(t, p.address)
		conn := soon(t, p.opened)
		conn.Look(time.Second)
		if due := conn.PingDue() - time.Second; due < pingTime {
			early++
		}
	}
	if early == 0 || early == 40 { // by chance once in 5·10¹¹
		t.Errorf("%d of 40 pings are due early", early)
	}
}

// TestAStuckWriteIsCut.
func TestAStuckWriteIsCut(t *testing.T) {
	t.Parallel()
	p := unwatched(t, socket.Options{QueueBytes: 64 << 20, Ping: time.Hour}, nil)
	dial(t, p.address)
	conn := soon(t, p.opened)
	conn.SendBinary(make([]byte, 32<<20))
	for now := time.Second; ; now += stallTime - 1 { // each look in which something moved sets its patience back
		select {
		case <-conn.Done():
			if end := p.closed(); end != (socket.CloseError{Code: wire.CloseSlow}) {
				t.Errorf("Read returned %+v", end)
			}
			return
		default:
			conn.Look(now)
		}
	}
}

// TestASlowWriteIsNotCut: one that goes on is not stuck, also within one frame.
func TestASlowWriteIsNotCut(t *testing.T) {
	t.Parallel()
	p := unwatched(t, socket.Options{QueueBytes: 64 << 20, Ping: time.Hour}, nil)
	c := dial(t, p.address)
	c.Conn.(*net.TCPConn).SetReadBuffer(256 << 10)
	conn := soon(t, p.opened)
	const looks, between = 10, 2 << 20 // more than fits between the two sides, so each time something was written
	conn.SendBinary(make([]byte, looks*between))
	for i := range looks {
		conn.Look(time.Second + time.Duration(i)*stallTime)
		if _, err := io.CopyN(io.Discard, c.r, between); err != nil {
			t.Fatal(err)
		}
	}
}

// TestACloseThatIsNotAnsweredIsCut.
func TestACloseThatIsNotAnsweredIsCut(t *testing.T) {
	t.Parallel()
	p := unwatched(t, socket.Options{}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	conn.Close(wire.CloseNormal, nil)
	c.expectClose(wire.CloseNormal)
	conn.Look(time.Second)
	conn.Look(time.Second + stallTime - 1)
	select {
	case <-conn.Done():
		t.Fatal("it was cut too early")
	default:
	}
	conn.Look(time.Second + stallTime)
	p.gone(conn)
	if end := p.closed(); end != (socket.CloseError{Code: wire.CloseNormal}) {
		t.Errorf("Read returned %+v", end)
	}
}

// TestRun is the watchdog itself, in short times.
func TestRun(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{Ping: 20 * time.Millisecond, Stall: 20 * time.Millisecond}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	c.expect(fin|ping, "")
	c.send(frame(fin|pong, ""))
	for g := c.next(); ; g = c.next() { // more pings than two, if the pong was heard after the second
		if g.First == fin|ping {
			continue
		}
		if g.First != fin|text {
			t.Fatalf("got %x %q", g.First, g.Payload)
		}
		break
	}
	c.expectClose(wire.CloseSlow)
	p.gone(conn) // though this side does not answer
	if n := p.Len(); n != 0 {
		t.Errorf("there are %d connections", n)
	}
}
