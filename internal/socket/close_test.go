package socket_test

import (
	"errors"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestTheCloseIsEchoed: the other side's close is answered with its code, and the connection ends.
func TestTheCloseIsEchoed(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		send []byte
		echo wire.CloseCode // 0: none
		said wire.CloseCode
	}{
		"1000":                     {leaving(1000, ""), 1000, 1000},
		"1001 with a reason":       {leaving(1001, "going away"), 1001, 1001},
		"1002":                     {leaving(1002, ""), 1002, 1002},
		"1003":                     {leaving(1003, ""), 1003, 1003},
		"1007":                     {leaving(1007, ""), 1007, 1007},
		"1011":                     {leaving(1011, ""), 1011, 1011},
		"1014":                     {leaving(1014, ""), 1014, 1014},
		"3000":                     {leaving(3000, ""), 3000, 3000},
		"4409":                     {leaving(4409, ""), 4409, 4409},
		"4999, the longest reason": {leaving(4999, strings.Repeat("é", 61)+"x"), 4999, 4999},
		"no code":                  {frame(fin|closeFrame, ""), 0, socket.CloseEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, socket.Options{}, nil)
			c := dial(t, p.address)
			conn := soon(t, p.opened)
			c.send(row.send, frame(fin|text, "after the close"), leaving(1000, ""))
			c.expectClose(row.echo)
			for range 50 { // which is not met with a reset, as that could overtake the answer
				c.send(frame(fin|text, strings.Repeat("x", 10_000)))
			}
			if end := p.closed(); end != (socket.CloseError{Code: row.said, ByPeer: true}) {
				t.Errorf("Read returned %+v", end)
			}
			if conn.Send(said{}) || conn.SendBinary(nil) {
				t.Error("something could be sent after the close")
			}
			c.Close()
			p.gone(conn)
			if _, err := conn.Read(); err == nil {
				t.Error("Read returned a message after its error")
			}
		})
	}
}

// TestACloseWithinAMessage ends it there.
func TestACloseWithinAMessage(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{}, nil)
	c := dial(t, p.address)
	c.send(frame(text, "half a "), leaving(1001, ""))
	c.expectClose(1001)
	if end := p.closed(); end != (socket.CloseError{Code: 1001, ByPeer: true}) {
		t.Errorf("Read returned %+v", end)
	}
}

// TestALostConnection: without a close, at whatever point it is lost.
func TestALostConnection(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string][]byte{
		"at rest":              nil,
		"within a head":        {fin | text},
		"within a mask":        frame(fin|text, "hello")[:4],
		"within a frame":       frame(fin|text, "hello")[:8],
		"between fragments":    frame(text, "hello"),
		"within a close":       leaving(1000, "")[:7],
		"within a ping":        frame(fin|ping, "hello")[:9],
		"of a length of 2^62":  announced(fin|binaryFrame, 1<<62),
		"after a whole frame":  frame(fin|binaryFrame, "hello"),
		"after an empty frame": frame(binaryFrame, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, socket.Options{}, nil)
			c := dial(t, p.address)
			conn := soon(t, p.opened)
			c.send(sent)
			c.Close()
			if end := p.closed(); end != (socket.CloseError{Code: socket.CloseLost}) {
				t.Errorf("Read returned %+v", end)
			}
			p.gone(conn)
		})
	}
}

// TestCloseFromHere: the error frame, the close, and then the end, while a Read waits and when none does.
func TestCloseFromHere(t *testing.T) {
	t.Parallel()
	replaced := wire.Errorf(wire.StaleEpoch, "another connection took your place")
	closeIt := func(c *socket.Conn) {
		c.Send(said{N: 1})
		c.Close(wire.CloseReplaced, replaced)
		c.Close(wire.CloseInternal, nil) // only the first counts
		if c.Send(said{N: 2}) {
			panic("something could be sent after the close")
		}
	}
	for name, serve := range map[string]func(*socket.Conn, socket.Message){
		"while a Read waits":      nil,
		"when no Read waits":      func(c *socket.Conn, _ socket.Message) { closeIt(c) },
		"when no Read ever again": func(c *socket.Conn, _ socket.Message) { closeIt(c); <-c.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, socket.Options{}, serve)
			c := dial(t, p.address)
			conn := soon(t, p.opened)
			if serve == nil {
				closeIt(conn)
			} else {
				c.send(frame(fin|text, "close, please"))
			}
			c.expect(fin|text, `{"type":"said","n":1}`)
			c.expectError(wire.StaleEpoch)
			c.expectClose(wire.CloseReplaced)
			c.send(frame(fin|text, "this is dropped"), leaving(4409, ""))
			c.Conn.(*net.TCPConn).CloseWrite()
			if end := p.closed(); end != (socket.CloseError{Code: wire.CloseReplaced}) {
				t.Errorf("Read returned %+v", end)
			}
			p.gone(conn)
		})
	}
}

// TestTheCloseCompletesByTheAnswer: the other side need not end its TCP connection first.
func TestTheCloseCompletesByTheAnswer(t *testing.T) {
	t.Parallel()
	p := unwatched(t, socket.Options{}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	c.send(frame(fin|ping, ""))
	c.expect(fin|pong, "") // so a Read is going on
	conn.Close(wire.CloseNormal, nil)
	c.expectClose(wire.CloseNormal)
	conn.Heard()
	answer := slices.Concat(frame(fin|text, "dropped"), leaving(1000, ""))
	for _, b := range answer {
		c.send([]byte{b})
		for late := time.Now().Add(patience); !conn.Heard(); runtime.Gosched() {
			if time.Now().After(late) {
				t.Fatal("the answer is not read")
			}
		}
	}
	p.gone(conn)
}

// TestALostConnectionIsFoundByWriting, also when nobody reads.
func TestALostConnectionIsFoundByWriting(t *testing.T) {
	t.Parallel()
	busy := make(chan struct{})
	p := unwatched(t, socket.Options{QueueMessages: math.MaxInt, QueueBytes: math.MaxInt}, func(c *socket.Conn, _ socket.Message) {
		close(busy)
		<-c.Done()
	})
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	c.send(frame(fin|text, "do something long"))
	soon(t, busy)
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
	for conn.Send(said{}) {
		runtime.Gosched()
	}
	p.gone(conn)
	if end := p.closed(); end != (socket.CloseError{Code: socket.CloseLost}) {
		t.Errorf("Read returned %+v", end)
	}
}

// TestCut drops a connection without a word.
func TestCut(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	conn.Abort()
	conn.Abort()
	conn.Close(wire.CloseNormal, nil)
	if end := p.closed(); end != (socket.CloseError{Code: socket.CloseLost}) {
		t.Errorf("Read returned %+v", end)
	}
	p.gone(conn)
	if g, err := readFrame(c.r); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the cut came %x %q, %v", g.First, g.Payload, err)
	}
	if conn.Send(said{}) {
		t.Error("something could be sent after the cut")
	}
	if _, err := conn.Read(); !errors.As(err, new(*socket.CloseError)) {
		t.Errorf("Read returned %v", err)
	}
}
