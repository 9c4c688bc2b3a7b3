package socket

import "github.com/lingua-scheduler/lingua/wire"

// source hands out one binary frame after the other, nil when it has no more for now.
type source func() []byte

// Feed sends the frames a source hands out, as the other side takes them: one is asked for only when nothing waits to be
// written, so a long feed does not count as a queue that is not read. It comes after what was queued before it; what is
// queued later may overtake it. The source is asked until it hands out nil, while the connection's lock is held: it
// answers at once and touches nothing of the connection. Feed reports false once the connection is closing.
func (c *Conn) Feed(s func() []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.sources = append(c.sources, s)
	c.wake()
	return true
}

// SendWith queues a frame, in the manner of Send, and feeds what a source has after it. What is small goes out together.
func (c *Conn) SendWith(f wire.Frame, s func() []byte) bool {
	text, err := wire.EncodeFrame(f)
	if err != nil {
		return c.Send(f) // which says so
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.sources = append(c.sources, s) // dropped with everything else if there is no room
	return c.queue(opText, text)
}

// pull queues the next frame of the sources, which take turns, and reports whether there was one. The caller holds the
// lock.
func (c *Conn) pull() bool {
	for len(c.sources) > 0 {
		s := c.sources[0]
		c.sources = c.sources[1:]
		if frame := s(); frame != nil {
			c.sources = append(c.sources, s)
			c.add(&c.next, opBinary, frame)
			return true
		}
	}
	c.sources = nil
	return false
}
