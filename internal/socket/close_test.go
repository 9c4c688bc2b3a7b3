package socket_test

import (
	"errors"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestPeerCloseIsAnswered: the peer's close is answered with its code, and the connection ends.
func TestPeerCloseIsAnswered(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		send []byte
		echo wire.CloseCode // 0: none
		want wire.CloseCode
	}{
		"1000":                     {encodeClose(1000, ""), 1000, 1000},
		"1001 with a reason":       {encodeClose(1001, "going away"), 1001, 1001},
		"1002":                     {encodeClose(1002, ""), 1002, 1002},
		"1003":                     {encodeClose(1003, ""), 1003, 1003},
		"1007":                     {encodeClose(1007, ""), 1007, 1007},
		"1011":                     {encodeClose(1011, ""), 1011, 1011},
		"1014":                     {encodeClose(1014, ""), 1014, 1014},
		"3000":                     {encodeClose(3000, ""), 3000, 3000},
		"4409":                     {encodeClose(4409, ""), 4409, 4409},
		"4999, the longest reason": {encodeClose(4999, strings.Repeat("é", 61)+"x"), 4999, 4999},
		"no code":                  {frame(fin|closeFrame, ""), 0, socket.CloseNoStatus},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, socket.Options{}, nil)
			c := dial(t, s.address)
			conn := receive(t, s.accepted)
			c.send(row.send, frame(fin|text, "after the close"), encodeClose(1000, ""))
			c.expectClose(row.echo)
			for range 50 { // a reset in answer to these could overtake the close frame
				c.send(frame(fin|text, strings.Repeat("x", 10_000)))
			}
			if end := s.awaitClose(); end != (socket.CloseError{Code: row.want, ByPeer: true}) {
				t.Errorf("Read returned %+v", end)
			}
			if conn.Send(testFrame{}) || conn.SendBinary(nil) {
				t.Error("Send succeeded after the close")
			}
			c.Close()
			s.awaitDone(conn)
			if _, err := conn.Read(); err == nil {
				t.Error("Read returned a message after its error")
			}
		})
	}
}

// TestPeerCloseWithinAMessage: a close between the fragments of a message ends the connection.
func TestPeerCloseWithinAMessage(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{}, nil)
	c := dial(t, s.address)
	c.send(frame(text, "half a "), encodeClose(1001, ""))
	c.expectClose(1001)
	if end := s.awaitClose(); end != (socket.CloseError{Code: 1001, ByPeer: true}) {
		t.Errorf("Read returned %+v", end)
	}
}

// TestLostConnection: without a close frame the code is 1006, wherever the stream ends.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string][]byte{
		"at rest":              nil,
		"within a head":        {fin | text},
		"within a mask":        frame(fin|text, "hello")[:4],
		"within a frame":       frame(fin|text, "hello")[:8],
		"between fragments":    frame(text, "hello"),
		"within a close":       encodeClose(1000, "")[:7],
		"within a ping":        frame(fin|ping, "hello")[:9],
		"of a length of 2^62":  headerOnly(fin|binaryFrame, 1<<62),
		"after a whole frame":  frame(fin|binaryFrame, "hello"),
		"after an empty frame": frame(binaryFrame, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, socket.Options{}, nil)
			c := dial(t, s.address)
			conn := receive(t, s.accepted)
			c.send(sent)
			c.Close()
			if end := s.awaitClose(); end != (socket.CloseError{Code: socket.CloseAbnormal}) {
				t.Errorf("Read returned %+v", end)
			}
			s.awaitDone(conn)
		})
	}
}

// TestCloseSendsErrorAndCloseFrame: Close sends the error frame and the close frame, whether or not a Read is in progress.
func TestCloseSendsErrorAndCloseFrame(t *testing.T) {
	t.Parallel()
	replaced := wire.Errorf(wire.StaleEpoch, "another connection replaced this one")
	closeReplaced := func(c *socket.Conn) {
		c.Send(testFrame{N: 1})
		c.Close(wire.CloseReplaced, replaced)
		c.Close(wire.CloseInternal, nil) // only the first counts
		if c.Send(testFrame{N: 2}) {
			panic("Send succeeded after the close")
		}
	}
	for name, serve := range map[string]func(*socket.Conn, socket.Message){
		"during a Read":        nil,
		"before a Read":        func(c *socket.Conn, _ socket.Message) { closeReplaced(c) },
		"without another Read": func(c *socket.Conn, _ socket.Message) { closeReplaced(c); <-c.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, socket.Options{}, serve)
			c := dial(t, s.address)
			conn := receive(t, s.accepted)
			if serve == nil {
				closeReplaced(conn)
			} else {
				c.send(frame(fin|text, "close, please"))
			}
			c.expect(fin|text, `{"type":"test","n":1}`)
			c.expectError(wire.StaleEpoch)
			c.expectClose(wire.CloseReplaced)
			c.send(frame(fin|text, "this is dropped"), encodeClose(4409, ""))
			c.Conn.(*net.TCPConn).CloseWrite()
			if end := s.awaitClose(); end != (socket.CloseError{Code: wire.CloseReplaced}) {
				t.Errorf("Read returned %+v", end)
			}
			s.awaitDone(conn)
		})
	}
}

// TestCloseCompletesWithPeerClose: the peer's close frame is enough; it need not close its TCP connection first.
func TestCloseCompletesWithPeerClose(t *testing.T) {
	t.Parallel()
	s := startServerWithoutWatchdog(t, socket.Options{}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	c.send(frame(fin|ping, ""))
	c.expect(fin|pong, "") // so a Read is in progress
	conn.Close(wire.CloseNormal, nil)
	c.expectClose(wire.CloseNormal)
	reads := socket.Reads(conn)
	answer := slices.Concat(frame(fin|text, "dropped"), encodeClose(1000, ""))
	for _, b := range answer {
		c.send([]byte{b})
		for deadline := time.Now().Add(testTimeout); socket.Reads(conn) == reads; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatal("the answer is not read")
			}
		}
		reads = socket.Reads(conn)
	}
	s.awaitDone(conn)
}

// TestLostConnectionIsDetectedByWriting: a failed write ends the connection, also when no Read is in progress.
func TestLostConnectionIsDetectedByWriting(t *testing.T) {
	t.Parallel()
	busy := make(chan struct{})
	s := startServerWithoutWatchdog(t, socket.Options{QueueMessages: math.MaxInt, QueueBytes: math.MaxInt}, func(c *socket.Conn, _ socket.Message) {
		close(busy)
		<-c.Done()
	})
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	c.send(frame(fin|text, "block the reader"))
	receive(t, busy)
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
	for conn.Send(testFrame{}) {
		runtime.Gosched()
	}
	s.awaitDone(conn)
	if end := s.awaitClose(); end != (socket.CloseError{Code: socket.CloseAbnormal}) {
		t.Errorf("Read returned %+v", end)
	}
}

// TestAbortResetsTheConnection: Abort sends neither an error frame nor a close frame.
func TestAbortResetsTheConnection(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	conn.Abort()
	conn.Abort()
	conn.Close(wire.CloseNormal, nil)
	if end := s.awaitClose(); end != (socket.CloseError{Code: socket.CloseAbnormal}) {
		t.Errorf("Read returned %+v", end)
	}
	s.awaitDone(conn)
	if g, err := readFrame(c.r); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after Abort came %x %q, %v", g.First, g.Payload, err)
	}
	if conn.Send(testFrame{}) {
		t.Error("Send succeeded after Abort")
	}
	if _, err := conn.Read(); !errors.As(err, new(*socket.CloseError)) {
		t.Errorf("Read returned %v", err)
	}
}

// TestProgressOfAnEndingConnection: what a connection has done can be asked until after its end.
func TestProgressOfAnEndingConnection(t *testing.T) {
	t.Parallel()
	s := startServerWithoutWatchdog(t, socket.Options{}, nil)
	for range 20 {
		c := dial(t, s.address)
		conn := receive(t, s.accepted)
		var asking sync.WaitGroup
		asking.Go(func() {
			for {
				conn.Progress()
				select {
				case <-conn.Done():
					return
				default:
				}
			}
		})
		c.send(frame(fin|ping, ""))
		c.expect(fin|pong, "")
		conn.Abort()
		asking.Wait()
		if conn.Progress().Unsent {
			t.Error("something is unsent after the end")
		}
	}
}
