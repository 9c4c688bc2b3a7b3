package socket_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestFramesArriveInOrder: text and binary frames with headers of every size arrive in order, and the caller may reuse its slice.
func TestFramesArriveInOrder(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{QueueMessages: math.MaxInt, QueueBytes: 64 << 20}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	sizes := []int{0, 1, 100, 125, 126, 127, 4096, 65535, 65536, 70_000, 300_000}
	count := 3 * len(sizes)
	b := make([]byte, 0, 300_000)
	for i := range count {
		b = append(b[:0], bytes.Repeat([]byte{byte(i)}, sizes[i%len(sizes)])...)
		if !conn.Send(testFrame{N: i}) || !conn.SendText([]byte("as it is")) || !conn.SendBinary(b) {
			t.Fatal("Send failed")
		}
	}
	for i := range count {
		c.expect(fin|text, fmt.Sprintf(`{"type":"test","n":%d}`, i))
		c.expect(fin|text, "as it is")
		c.expect(fin|binaryFrame, strings.Repeat(string([]byte{byte(i)}), sizes[i%len(sizes)]))
	}
}

// TestConcurrentSenders: the frames of each sender arrive in order, and none is lost.
func TestConcurrentSenders(t *testing.T) {
	t.Parallel()
	const senders, frames = 100, 50
	s := startServer(t, socket.Options{QueueMessages: senders * frames}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for n := range frames {
				conn.Send(testFrame{N: n, Text: fmt.Sprint(s)})
			}
		})
	}
	var next = make(map[string]int)
	for range senders * frames {
		var f testFrame
		if err := json.Unmarshal([]byte(c.next().Payload), &f); err != nil {
			t.Fatal(err)
		}
		if f.N != next[f.Text] {
			t.Fatalf("sender %s: got %d; want %d", f.Text, f.N, next[f.Text])
		}
		next[f.Text]++
	}
	all.Wait()
}

// TestSlowReaderIsClosed: a slow peer gets complete frames in order, then an error and 4504. Other connections are not affected.
func TestSlowReaderIsClosed(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]socket.Options{
		"too many messages": {QueueMessages: 20, QueueBytes: math.MaxInt},
		"too many bytes":    {QueueMessages: math.MaxInt, QueueBytes: 500_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, o, nil)
			slow := dial(t, s.address)
			conn := receive(t, s.accepted)
			other := dial(t, s.address)
			sent, filler := 0, strings.Repeat("x", 20_000)
			for ; conn.Send(testFrame{N: sent, Text: filler}); sent++ {
				if sent > 10_000 {
					t.Fatal("200 MB were queued for a peer that does not read")
				}
				other.send(frame(fin|text, fmt.Sprint(sent)))
				other.expect(fin|text, echoOf(fmt.Sprint(sent)))
			}
			if conn.Send(testFrame{}) {
				t.Error("Send succeeded after the close")
			}
			arrived := 0
			for ; ; arrived++ {
				g := slow.next()
				if strings.Contains(g.Payload, string(wire.RateLimited)) {
					break
				}
				if want := fmt.Sprintf(`{"type":"test","n":%d,"text":%q}`, arrived, filler); g.Payload != want {
					t.Fatalf("got %.40q as frame %d", g.Payload, arrived)
				}
			}
			if waiting := sent - arrived; waiting < 1 {
				t.Errorf("%d frames were sent and %d arrived: the queue was not dropped", sent, arrived)
			}
			slow.expectClose(wire.CloseSlow)
			slow.Close()
			if end := s.awaitClose(); end != (socket.CloseError{Code: wire.CloseSlow}) {
				t.Errorf("Read returned %+v", end)
			}
			s.awaitDone(conn)
			other.send(frame(fin|text, "still open"))
			other.expect(fin|text, echoOf("still open"))
		})
	}
}

// TestCloseAfterQueuedFrames: frames that were queued before the close are still written.
func TestCloseAfterQueuedFrames(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{QueueBytes: 16 << 20}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	large := strings.Repeat("x", 100_000)
	for range 50 {
		conn.SendBinary([]byte(large))
	}
	conn.Close(wire.CloseDraining, wire.Errorf(wire.Internal, "stopping"))
	for range 50 {
		c.expect(fin|binaryFrame, large)
	}
	c.expectError(wire.Internal)
	c.expectClose(wire.CloseDraining)
}

// TestAbortEndsABlockedWrite: Abort ends a write that waits for the peer.
func TestAbortEndsABlockedWrite(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{QueueBytes: 64 << 20}, nil)
	dial(t, s.address)
	conn := receive(t, s.accepted)
	for range 50 {
		conn.SendBinary(make([]byte, 1<<20))
	}
	conn.Abort()
	s.awaitDone(conn)
}

// TestUnreadPongsAreBounded: pongs wait in the same bounded queue as all frames.
func TestUnreadPongsAreBounded(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{QueueBytes: 100_000, QueueMessages: math.MaxInt, Stall: 100 * time.Millisecond}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	many := []byte(strings.Repeat(string(frame(fin|ping, strings.Repeat("x", 125))), 1000))
	var err error
	for err == nil {
		_, err = c.Write(many)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("pings were accepted without limit")
	}
	if end := s.awaitClose(); end != (socket.CloseError{Code: wire.CloseSlow}) {
		t.Errorf("Read returned %+v", end)
	}
	s.awaitDone(conn)
}

// unencodable is a frame that cannot be encoded as JSON.
type unencodable struct{ F float64 }

// Type implements wire.Frame.
func (unencodable) Type() wire.FrameType { return "unencodable" }

func TestFrameThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{}, nil)
	c := dial(t, s.address)
	if receive(t, s.accepted).Send(unencodable{math.NaN()}) {
		t.Error("Send succeeded")
	}
	c.expectError(wire.Internal)
	c.expectClose(wire.CloseInternal)
}

// TestConcurrentSendCloseAbort: the connection ends, in whatever order concurrent calls take effect.
func TestConcurrentSendCloseAbort(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{}, nil)
	for i := range 50 {
		c := dial(t, s.address)
		conn := receive(t, s.accepted)
		var all sync.WaitGroup
		all.Go(func() { c.Write(append(frame(fin|text, "hello"), encodeClose(1000, "")...)) })
		all.Go(func() { conn.Send(testFrame{}) })
		all.Go(func() { conn.Close(wire.CloseReplaced, wire.Errorf(wire.StaleEpoch, "replaced")) })
		if i%2 == 0 {
			all.Go(func() { conn.Abort() })
		}
		all.Go(func() {
			for {
				if _, err := readFrame(c.r); err != nil {
					c.Close()
					return
				}
			}
		})
		all.Wait()
		s.awaitDone(conn)
		s.awaitClose()
	}
}

// frames is a source of n frames that repeat a character.
func frames(char string, n, size int) func() []byte {
	return func() []byte {
		if n == 0 {
			return nil
		}
		n--
		return []byte(strings.Repeat(char, size))
	}
}

// TestLongFeedDoesNotFillTheQueue: a feed may be far larger than the queue, and is sent before a close without an error.
func TestLongFeedDoesNotFillTheQueue(t *testing.T) {
	t.Parallel()
	const n, size = 15, 200_000
	s := startServer(t, socket.Options{QueueBytes: 500_000}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	conn.Send(testFrame{N: 1})
	if !conn.Feed(frames("a", n, size)) || !conn.Feed(frames("b", n, size)) {
		t.Fatal("Feed failed")
	}
	conn.SendFinal(testFrame{N: 2})
	if conn.Feed(frames("c", 1, 1)) {
		t.Error("Feed succeeded on a closing connection")
	}
	c.expect(fin|text, `{"type":"test","n":1}`)
	seen := map[byte]int{}
	for range 2 * n {
		f := c.next()
		if len(f.Payload) != size {
			t.Fatalf("a frame of %d bytes", len(f.Payload))
		}
		seen[f.Payload[0]]++
	}
	if seen['a'] != n || seen['b'] != n {
		t.Errorf("frames of each source: %v", seen)
	}
	c.expect(fin|text, `{"type":"test","n":2}`)
	c.expectClose(wire.CloseNormal)
}

// TestReadWaitsForWhatIsFed: a reader that comes back while the connection closes learns of its end only when everything was sent. It
// may free what the source still has.
func TestReadWaitsForWhatIsFed(t *testing.T) {
	t.Parallel()
	const n, size = 60, 200_000
	var left atomic.Int64
	left.Store(n)
	s := startServer(t, socket.Options{}, func(conn *socket.Conn, _ socket.Message) {
		feed := frames("a", n, size)
		conn.Feed(func() []byte {
			b := feed()
			if b != nil {
				left.Add(-1)
			}
			return b
		})
		conn.SendFinal(testFrame{N: 1})
	})
	c := dial(t, s.address)
	c.send(frame(fin|text, "end"))
	ended := make(chan int64, 1)
	go func() {
		s.awaitClose()
		ended <- left.Load()
	}()
	for range n {
		if f := c.next(); len(f.Payload) != size {
			t.Fatalf("a frame of %d bytes", len(f.Payload))
		}
	}
	c.expect(fin|text, `{"type":"test","n":1}`)
	c.expectClose(wire.CloseNormal)
	c.Close()
	if n := receive(t, ended); n != 0 {
		t.Errorf("Read returned while %d frames were not sent", n)
	}
}

// TestQueuedFrameOvertakesFeed: a long feed does not delay messages.
func TestQueuedFrameOvertakesFeed(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	conn.Feed(frames("a", 1000, 200_000)) // 200 MB do not fit into the kernel buffers
	c.expect(fin|binaryFrame, strings.Repeat("a", 200_000))
	conn.Send(testFrame{N: 1})
	for i := 1; ; i++ {
		if f := c.next(); f.First == fin|text {
			break
		}
		if i > 900 {
			t.Fatal("the message waits for the feed")
		}
	}
}

// TestCloseWithErrorDropsFeed: a close with an error does not wait for the rest of a feed.
func TestCloseWithErrorDropsFeed(t *testing.T) {
	t.Parallel()
	s := startServer(t, socket.Options{}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	conn.Feed(frames("a", 1000, 200_000))
	c.next()
	conn.Close(wire.CloseBadMessage, wire.Errorf(wire.InvalidRequest, "no"))
	for i := 1; ; i++ {
		if f := c.next(); f.First == fin|text {
			break
		}
		if i > 900 {
			t.Fatal("the error waits for the feed")
		}
	}
	c.expectClose(wire.CloseBadMessage)
}

// TestSmallFramesShareWrites: many small frames of a feed are written in few calls.
func TestSmallFramesShareWrites(t *testing.T) {
	t.Parallel()
	const n, size = 1000, 100
	s := startServer(t, socket.Options{}, nil)
	c := dial(t, s.address)
	conn := receive(t, s.accepted)
	before := socket.Writes(conn)
	conn.Feed(frames("a", n, size))
	for range n {
		c.expect(fin|binaryFrame, strings.Repeat("a", size))
	}
	if got := socket.Writes(conn) - before; got > n*size/(8<<10) {
		t.Errorf("%d frames of %d bytes took %d writes", n, size, got)
	}
}
