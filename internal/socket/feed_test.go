package socket_test

import (
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// frames hands out so many frames of a letter.
func frames(letter string, n, size int) func() []byte {
	return func() []byte {
		if n == 0 {
			return nil
		}
		n--
		return []byte(strings.Repeat(letter, size))
	}
}

// TestALongFeedIsNotASlowReader: far more goes out than may wait, to one who reads, and it comes before a close that is
// none of an error.
func TestALongFeedIsNotASlowReader(t *testing.T) {
	t.Parallel()
	const n, size = 60, 200_000
	p := open(t, socket.Options{QueueBytes: 500_000}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	conn.Send(said{N: 1})
	if !conn.Feed(frames("a", n, size)) || !conn.Feed(frames("b", n, size)) {
		t.Fatal("could not feed")
	}
	conn.SendFinal(said{N: 2})
	if conn.Feed(frames("c", 1, 1)) {
		t.Error("a closing connection is fed")
	}
	c.expect(fin|text, `{"type":"said","n":1}`)
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
	c.expect(fin|text, `{"type":"said","n":2}`)
	c.expectClose(wire.CloseNormal)
}

// TestWhatIsQueuedOvertakesAFeed: a long feed does not hold up messages.
func TestWhatIsQueuedOvertakesAFeed(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	conn.Feed(frames("a", 1000, 200_000)) // 200 MB: it cannot all be on its way
	c.expect(fin|binaryFrame, strings.Repeat("a", 200_000))
	conn.Send(said{N: 1})
	for i := 1; ; i++ {
		if f := c.next(); f.First == fin|text {
			break
		}
		if i > 900 {
			t.Fatal("the message waits for the feed")
		}
	}
}

// TestAnErrorDropsAFeed: nobody waits for the rest of it.
func TestAnErrorDropsAFeed(t *testing.T) {
	t.Parallel()
	p := open(t, socket.Options{}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
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

// TestSmallFramesGoTogether: a feed of many small frames takes few writes.
func TestSmallFramesGoTogether(t *testing.T) {
	t.Parallel()
	const n, size = 1000, 100
	p := open(t, socket.Options{}, nil)
	c := dial(t, p.address)
	conn := soon(t, p.opened)
	before := conn.Writes()
	conn.Feed(frames("a", n, size))
	for range n {
		c.expect(fin|binaryFrame, strings.Repeat("a", size))
	}
	if got := conn.Writes() - before; got > n*size/(8<<10) {
		t.Errorf("%d frames of %d bytes took %d writes", n, size, got)
	}
}
