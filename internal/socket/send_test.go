package socket_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestWhatIsSentArrivesInOrder, text and binary, of every size of a head, and b may be used again at once.
func TestWhatIsSentArrivesInOrder(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{QueueMessages: math.MaxInt, QueueBytes: 64 << 20}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	sizes := []int{0, 1, 100, 125, 126, 127, 4096, 65535, 65536, 70_000, 300_000}
	b := make([]byte, 300_000)
	for i := range 200 {
		size := sizes[i%len(sizes)]
		for j := range b {
			b[j] = byte(i)
		}
		if !conn.Send(said{N: i}) || !conn.SendText([]byte("as it is")) || !conn.SendBinary(b[:size]) {
			t.Fatal("could not send")
		}
	}
	for i := range 200 {
		c.expect(fin|text, fmt.Sprintf(`{"type":"said","n":%d}`, i))
		c.expect(fin|text, "as it is")
		c.expect(fin|binaryFrame, strings.Repeat(string([]byte{byte(i)}), sizes[i%len(sizes)]))
	}
}

// TestManySenders: each one's frames are in order among themselves, and none is lost.
func TestManySenders(t *testing.T) {
	t.Parallel()
	const senders, frames = 100, 50
	p := open(t, socket.Options{QueueMessages: senders * frames}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for n := range frames {
				conn.Send(said{N: n, Text: fmt.Sprint(s)})
			}
		})
	}
	var next = make(map[string]int)
	for range senders * frames {
		var f said
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

// TestASlowReaderIsClosed: it gets whole frames, in order, then an error and 4504. Others notice nothing.
func TestASlowReaderIsClosed(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]socket.Options{
		"too many messages": {QueueMessages: 20, QueueBytes: math.MaxInt},
		"too many bytes":    {QueueMessages: math.MaxInt, QueueBytes: 500_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, o, nil)
			slow := dial(t, p.address)
			conn := soon(t, p.opened)
			other := dial(t, p.address)
			sent, filler := 0, strings.Repeat("x", 20_000)
			for ; conn.Send(said{N: sent, Text: filler}); sent++ {
				if sent > 10_000 {
					t.Fatal("200 MB could be sent to one who does not read")
				}
				other.send(frame(fin|text, fmt.Sprint(sent)))
				other.expect(fin|text, shown(fmt.Sprint(sent)))
			}
			if conn.Send(said{}) {
				t.Error("something could be sent after the close")
			}
			arrived := 0
			for ; ; arrived++ {
				g := slow.next()
				if strings.Contains(g.Payload, string(wire.RateLimited)) {
					break
				}
				if want := fmt.Sprintf(`{"type":"said","n":%d,"text":%q}`, arrived, filler); g.Payload != want {
					t.Fatalf("got %.40q as frame %d", g.Payload, arrived)
				}
			}
			if waiting := sent - arrived; waiting < 1 {
				t.Errorf("%d frames were sent and %d arrived: the queue was not dropped", sent, arrived)
			}
			slow.expectClose(wire.CloseSlow)
			slow.Close()
			if end := p.closed(); end != (socket.CloseError{Code: wire.CloseSlow}) {
				t.Errorf("Read returned %+v", end)
			}
			p.gone(conn)
			other.send(frame(fin|text, "still here"))
			other.expect(fin|text, shown("still here"))
		})
	}
}

// TestCloseWhileWriting: what was queued before the close is still written.
func TestCloseWhileWriting(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{QueueBytes: 16 << 20}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
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

// TestCutWhileWriting ends a write that waits for a reader.
func TestCutWhileWriting(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{QueueBytes: 64 << 20}, nil)
	dial(t, p.address)
	conn := soon(t, p.opened)
	for range 50 {
		conn.SendBinary(make([]byte, 1<<20))
	}
	conn.Abort()
	p.gone(conn)
}

// TestPingsThatAreNotReadAreNotAnsweredForEver: the answers wait in the same bounded queue.
func TestPingsThatAreNotReadAreNotAnsweredForEver(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{QueueBytes: 100_000, QueueMessages: math.MaxInt, Stall: 100 * time.Millisecond}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	many := []byte(strings.Repeat(string(frame(fin|ping, strings.Repeat("x", 125))), 1000))
	var err error
	for err == nil {
		_, err = c.Write(many)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("its pings were taken for ever")
	}
	if end := p.closed(); end != (socket.CloseError{Code: wire.CloseSlow}) {
		t.Errorf("Read returned %+v", end)
	}
	p.gone(conn)
}

// unwritable is a frame that JSON cannot express.
type unwritable struct{ F float64 }

// Type implements wire.Frame.
func (unwritable) Type() wire.FrameType { return "unwritable" }

func TestAFrameThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{}, nil)
	c := dial(t, p.address)
	if soon(t, p.opened).Send(unwritable{math.NaN()}) {
		t.Error("it was sent")
	}
	c.expectError(wire.Internal)
	c.expectClose(wire.CloseInternal)
}

// TestEverythingAtOnce: whatever is done at the same time, the connection ends.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{}, nil)
	for i := range 50 {
		c := dial(t, p.address)
		conn := soon(t, p.opened)
		var all sync.WaitGroup
		all.Go(func() { c.Write(append(frame(fin|text, "hello"), leaving(1000, "")...)) })
		all.Go(func() { conn.Send(said{}) })
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
		p.gone(conn)
		p.closed()
	}
}
