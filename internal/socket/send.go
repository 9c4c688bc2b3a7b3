package socket

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Send queues a frame and reports whether it could: it cannot once the connection is closing. It never waits. When more
// is queued than may be, the other side is too slow: the queue is dropped and the connection closed.
func (c *Conn) Send(f wire.Frame) bool {
	text, err := wire.EncodeFrame(f)
	if err != nil { // what it says may quote the frame, and is not logged
		c.hall.opts.Log.Error("a frame cannot be written as JSON", "type", string(f.Type()))
		c.Close(wire.CloseInternal, wire.Errorf(wire.Internal, "something went wrong here, not with your message; it was logged"))
		return false
	}
	return c.enqueue(opText, text)
}

// SendBinary queues a copy of b as a binary frame, in the manner of Send.
func (c *Conn) SendBinary(b []byte) bool { return c.enqueue(opBinary, b) }

// Close closes the connection when what is queued is written, with an error frame first if there is an error. It does
// not wait: Done tells the end, and the watchdog cuts it if that does not come. Only the first close counts, and nothing
// is sent after it.
func (c *Conn) Close(code wire.CloseCode, e *wire.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.part(CloseError{Code: code}, e)
}

// refusedLinger is how long one that was refused may take to read why.
const refusedLinger = time.Second

// Part says a last word and closes the connection, after everything that is queued or fed.
func (c *Conn) SendFinal(f wire.Frame) {
	text, err := wire.EncodeFrame(f)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && !c.closing {
		c.add(&c.bye, opText, text)
	}
	c.part(CloseError{Code: wire.CloseNormal}, nil)
}

// echo answers the other side's close, with its own code. It does not listen to what is queued any more.
func (c *Conn) echo(code wire.CloseCode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.dropQueued()
		c.part(CloseError{Code: code, ByPeer: true}, nil)
	}
}

func (c *Conn) enqueue(op byte, payload []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue(op, payload)
}

// queue does so. The caller holds the lock.
func (c *Conn) queue(op byte, payload []byte) bool {
	if c.closing {
		return false
	}
	if frames, bytes := c.queued(); frames+1 > c.hall.opts.QueueMessages || bytes+frameHeader+len(payload) > c.hall.opts.QueueBytes {
		c.dropQueued()
		c.part(CloseError{Code: wire.CloseSlow}, wire.Errorf(wire.RateLimited,
			"what was sent to you was not read in time: %d messages of %d bytes waited; connect again and read faster", frames, bytes))
		return false
	}
	c.push(op, payload)
	return true
}

// queued is what is not yet written. The caller holds the lock.
func (c *Conn) queued() (frames, bytes int) {
	for _, o := range []*outbox{c.next, c.flying} {
		if o != nil {
			frames += o.frames()
			bytes += o.bytes()
		}
	}
	return frames, bytes
}

func (c *Conn) dropQueued() {
	for _, o := range []*outbox{c.next, c.flying} {
		if o != nil {
			o.drop()
		}
	}
	c.sources = nil
}

// part queues the last frames. After an error nobody waits for what sources still have. The caller holds the lock.
func (c *Conn) part(end CloseError, e *wire.Error) {
	if c.closing {
		return
	}
	c.closing = true
	c.end = end
	var reason []byte
	if e != nil {
		c.sources = nil
		reason = []byte(e.Code)
		text, err := wire.EncodeFrame(wire.ErrorFrame{Error: *e, Fatal: true})
		if err == nil {
			c.add(&c.bye, opText, text)
		}
	}
	var last []byte
	if end.Code != CloseEmpty {
		last = append(binary.BigEndian.AppendUint16(nil, uint16(end.Code)), reason...)
	}
	c.add(&c.bye, opClose, last)
	c.wake()
}

// push appends a frame and sees to it that there is a writer. The caller holds the lock.
func (c *Conn) push(op byte, payload []byte) {
	c.add(&c.next, op, payload)
	c.wake()
}

// add appends a frame to one of the connection's outboxes. The caller holds the lock.
func (c *Conn) add(to **outbox, op byte, payload []byte) {
	if *to == nil {
		*to = outboxes.Get().(*outbox)
	}
	(*to).add(op, payload)
}

// wake sees to it that there is a writer. The caller holds the lock.
func (c *Conn) wake() {
	if !c.writing {
		c.writing = true
		c.users++
		go c.write()
	}
}

// write writes what is queued, and ends when nothing is.
func (c *Conn) write() {
	defer c.leave()
	for {
		b, last := c.hand()
		switch {
		case last:
			c.linger()
			return
		case b == nil:
			return
		}
		if _, err := c.pipe.Conn.Write(b); err != nil {
			c.Abort()
			return
		}
	}
}

// hand returns what to write next, nil if the writer should end, and whether the connection's last frame is written.
func (c *Conn) hand() (b []byte, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn++
	for !c.cut {
		// What is small goes together, in one write: audio may come in hundreds of packets.
		for c.flying == nil && (c.next == nil || len(c.next.data) < chunk/4) && c.pull() {
			continue
		}
		if c.flying == nil && c.next == nil {
			if c.bye == nil {
				c.writing = c.closing // nothing can follow, so nobody will miss a writer
				return nil, c.closing
			}
			c.next, c.bye = c.bye, nil
		}
		if c.flying == nil {
			c.flying, c.next = c.next, nil
		}
		if b = c.flying.hand(); len(b) > 0 {
			return b, false
		}
		c.flying.free()
		c.flying = nil
	}
	return nil, false
}

// linger waits until the other side has closed too. To close the connection while something unread is there would reset
// it, and the other side might never see why it was closed. A Read that is going on does the waiting itself.
func (c *Conn) linger() {
	if half, ok := c.pipe.Conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		c.hangUp(CloseLost, false)
		return
	}
	c.mu.Lock()
	c.parted = true
	reading := c.reading
	var until time.Time
	if c.refused {
		until = time.Now().Add(refusedLinger)
	}
	c.mu.Unlock()
	if reading {
		return
	}
	if c.pipe.SetReadDeadline(until) == nil {
		_, _ = io.Copy(io.Discard, c.pipe.Conn) // until it ends, in whatever way
	}
	c.hangUp(CloseLost, false)
}
