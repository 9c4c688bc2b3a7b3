package socket_test

import (
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestTheLargestMessage is read, in one frame and in many.
func TestTheLargestMessage(t *testing.T) {
	t.Parallel()
	for _, largest := range []int{1, 125, 126, 4095, 4096, 4097, 65535, 65536, wire.MaxFrame} {
		p := open(t, socket.Options{MaxFrame: int64(largest)}, nil)
		c := dial(t, p.address)
		whole := strings.Repeat("0123456789abcdef", largest/16+1)[:largest]
		c.send(frame(fin|binaryFrame, whole))
		c.expect(fin|binaryFrame, whole)
		c.send(frame(binaryFrame, whole[:largest/2]), frame(fin|ping, "still there?"), frame(more, whole[largest/2:]), frame(fin|more, ""))
		c.expect(fin|pong, "still there?")
		c.expect(fin|binaryFrame, whole)
		c.send(leaving(1000, ""))
		c.expectClose(1000)
	}
}

// TestTooLarge: one byte more, in whatever way, is answered with an error frame and 4413, also while it is being sent.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	const largest = 10_000
	whole := strings.Repeat("x", largest)
	for name, parts := range map[string][][]byte{
		"in one frame":                  {frame(fin|text, whole+"x")},
		"in two":                        {frame(text, whole), frame(fin|more, "x")},
		"in many":                       {frame(text, whole), frame(more, ""), frame(fin|ping, ""), frame(more, "x")},
		"much larger":                   {frame(fin|binaryFrame, strings.Repeat("x", 3<<20))},
		"of which the rest never comes": {announced(fin|binaryFrame, 1<<62), []byte(whole + "x")},
		"with many after it":            {frame(fin|text, whole+"x"), frame(fin|text, whole), frame(fin|text, whole), frame(fin|text, whole)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, socket.Options{MaxFrame: largest}, nil)
			c := dial(t, p.address)
			conn := soon(t, p.opened)
			c.send(parts...)
			if name == "in many" {
				c.expect(fin|pong, "")
			}
			c.expectError(wire.PayloadTooLarge)
			c.expectClose(wire.CloseTooLarge)
			if end := p.closed(); end != (socket.CloseError{Code: wire.CloseTooLarge}) {
				t.Errorf("Read returned %+v", end)
			}
			c.Close()
			p.gone(conn)
		})
	}
}
