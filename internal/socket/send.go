package socket

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// sendQueue holds the frames that a connection has to write. The connection's lock guards it.
type sendQueue struct {
	pending *frameBuffer    // waits to be written; nil when nothing does
	current *frameBuffer    // is being written
	last    *frameBuffer    // the last frames, which are written after everything else
	sources []func() []byte // of binary frames that are fetched when nothing is pending; they take turns
	writes  uint            // counts writes, so that the watchdog notices a stuck one
	writing bool            // the writer goroutine runs
	sent    bool            // a message was queued since the watchdog's last check
}

// unsent is what is queued and not yet written, without the last frames.
func (q *sendQueue) unsent() (frames, bytes int) {
	for _, b := range [...]*frameBuffer{q.pending, q.current} {
		if b != nil {
			frames += b.unsentFrames()
			bytes += b.unsentBytes()
		}
	}
	return frames, bytes
}

// drop removes everything that was not given to the network, except the last frames.
func (q *sendQueue) drop() {
	for _, b := range [...]*frameBuffer{q.pending, q.current} {
		if b != nil {
			b.drop()
		}
	}
	q.sources = nil
}

// free returns all buffers to the pool.
func (q *sendQueue) free() {
	for _, b := range [...]*frameBuffer{q.pending, q.current, q.last} {
		if b != nil {
			b.free()
		}
	}
	q.pending, q.current, q.last, q.sources = nil, nil, nil, nil
}

// addFrame appends a frame to one of the queue's buffers.
func addFrame(to **frameBuffer, op byte, payload []byte) {
	if *to == nil {
		*to = frameBuffers.Get().(*frameBuffer)
	}
	(*to).add(op, payload)
}

// pull queues the next frame of the sources, and reports whether there was one.
func (q *sendQueue) pull() bool {
	for len(q.sources) > 0 {
		source := q.sources[0]
		q.sources = q.sources[1:]
		if frame := source(); frame != nil {
			q.sources = append(q.sources, source)
			q.sent = true
			addFrame(&q.pending, opBinary, frame)
			return true
		}
	}
	q.sources = nil
	return false
}

// next returns the bytes to write next; nil when nothing is left.
func (q *sendQueue) next() []byte {
	for {
		// Small frames are written together: audio may come in hundreds of packets.
		for q.current == nil && (q.pending == nil || len(q.pending.data) < writeSize/4) && q.pull() {
			continue
		}
		if q.current == nil && q.pending == nil {
			if q.last == nil {
				return nil
			}
			q.pending, q.last = q.last, nil
		}
		if q.current == nil {
			q.current, q.pending = q.pending, nil
		}
		if b := q.current.next(); len(b) > 0 {
			return b
		}
		q.current.free()
		q.current = nil
	}
}

// Send queues a frame. It never waits, and reports false once the connection is closing. When the queue is full the peer is too
// slow: the queue is dropped and the connection closed.
func (c *Conn) Send(f wire.Frame) bool {
	text, err := wire.EncodeFrame(f)
	if err != nil { // the error may quote the frame, so it is not logged
		c.hub.opts.Log.Error("a frame cannot be encoded as JSON", "type", string(f.Type()))
		c.Close(wire.CloseInternal, wire.Errorf(wire.Internal, "something went wrong here, not with your message; it was logged"))
		return false
	}
	return c.enqueue(opText, text)
}

// SendText queues a copy of an encoded text frame, like Send.
func (c *Conn) SendText(text []byte) bool { return c.enqueue(opText, text) }

// SendBinary queues a copy of b as a binary frame, like Send.
func (c *Conn) SendBinary(b []byte) bool { return c.enqueue(opBinary, b) }

// Progress is what a connection has done so far.
type Progress struct {
	Reads  uint64 // how often bytes arrived
	Writes uint64 // how often the writer looked for something to write
	Unsent bool   // something waits to be written
}

// Progress returns what the connection has done so far.
func (c *Conn) Progress() Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	frames, _ := c.queue.unsent()
	return Progress{Reads: c.reads.Load(), Writes: uint64(c.queue.writes), Unsent: frames > 0}
}

// AllWritten reports whether everything that was queued was given to the network.
func (c *Conn) AllWritten() bool { return !c.Progress().Unsent }

// Feed sends the binary frames of a source as fast as the peer reads: a frame is fetched only when nothing waits to be written,
// so a long feed does not fill the queue. Frames that were queued before precede it; frames that are queued later may overtake it.
// The source is called until it returns nil, with the connection's lock held: it must not block or use the connection. Feed
// reports false once the connection is closing.
func (c *Conn) Feed(source func() []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.queue.sources = append(c.queue.sources, source)
	c.startWriter()
	return true
}

// SendWith queues a frame, like Send, and feeds a source after it. Small frames are written together with it.
func (c *Conn) SendWith(f wire.Frame, source func() []byte) bool {
	text, err := wire.EncodeFrame(f)
	if err != nil {
		return c.Send(f) // logs the error and closes the connection
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.queue.sources = append(c.queue.sources, source) // dropped with the rest if the queue is full
	return c.enqueueLocked(opText, text)
}

// SendFinal sends a last frame and closes the connection normally, after everything that is queued or fed.
func (c *Conn) SendFinal(f wire.Frame) {
	text, err := wire.EncodeFrame(f)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && !c.closing {
		addFrame(&c.queue.last, opText, text)
	}
	c.startClose(CloseError{Code: wire.CloseNormal}, nil)
}

// Close closes the connection after what is queued is written, with an error frame first if there is an error. It does not wait:
// Done is closed at the end, and the watchdog aborts a closing handshake that takes too long. Only the first close takes effect,
// and nothing is sent after it.
func (c *Conn) Close(code wire.CloseCode, e *wire.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startClose(CloseError{Code: code}, e)
}

// refuse is Close for a connection that is refused right after its opening handshake.
func (c *Conn) refuse(code wire.CloseCode, e *wire.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = true
	c.startClose(CloseError{Code: code}, e)
}

// replyClose answers the peer's close frame with the same code. The peer reads nothing that is still queued.
func (c *Conn) replyClose(code wire.CloseCode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.queue.drop()
		c.startClose(CloseError{Code: code, ByPeer: true}, nil)
	}
}

// startClose starts the closing handshake: it queues the last frames. With an error the sources are dropped. The caller holds the
// lock.
func (c *Conn) startClose(end CloseError, e *wire.Error) {
	if c.closing {
		return
	}
	c.closing = true
	c.end = end
	var reason []byte
	if e != nil {
		c.queue.sources = nil
		reason = []byte(e.Code)
		text, err := wire.EncodeFrame(wire.ErrorFrame{Error: *e, Fatal: true})
		if err == nil {
			addFrame(&c.queue.last, opText, text)
		}
	}
	var payload []byte
	if end.Code != CloseNoStatus {
		payload = append(binary.BigEndian.AppendUint16(nil, uint16(end.Code)), reason...)
	}
	addFrame(&c.queue.last, opClose, payload)
	c.startWriter()
}

func (c *Conn) enqueue(op byte, payload []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enqueueLocked(op, payload)
}

// enqueueLocked is enqueue for a caller that holds the lock.
func (c *Conn) enqueueLocked(op byte, payload []byte) bool {
	if c.closing {
		return false
	}
	if frames, bytes := c.queue.unsent(); frames+1 > c.hub.opts.QueueMessages || bytes+maxFrameHeader+len(payload) > c.hub.opts.QueueBytes {
		c.queue.drop()
		c.startClose(CloseError{Code: wire.CloseSlow}, wire.Errorf(wire.RateLimited,
			"you did not read what was sent in time: %d messages of %d bytes were waiting; connect again and read faster", frames, bytes))
		return false
	}
	c.queue.sent = c.queue.sent || op <= opBinary // control frames are not messages
	addFrame(&c.queue.pending, op, payload)
	c.startWriter()
	return true
}

// startWriter starts the writer unless it runs. The caller holds the lock.
func (c *Conn) startWriter() {
	if !c.queue.writing {
		c.queue.writing = true
		c.users++
		go c.write()
	}
}

// write is the writer: it writes what is queued, and ends when nothing is.
func (c *Conn) write() {
	defer c.release()
	for {
		b, closeWritten := c.nextWrite()
		switch {
		case closeWritten:
			c.awaitPeerClose()
			return
		case b == nil:
			return
		}
		if _, err := c.transport.Conn.Write(b); err != nil {
			c.Abort()
			return
		}
	}
}

// nextWrite returns the bytes to write next, nil when the writer should end, and whether the close frame has been written.
func (c *Conn) nextWrite() (b []byte, closeWritten bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.writes++
	if c.transportClosed {
		return nil, false
	}
	if b := c.queue.next(); b != nil {
		return b, false
	}
	c.queue.writing = c.closing // nothing is queued after the close frame, so no further writer may start
	return nil, c.closing
}

// refusedTimeout is how long a refused peer has to read the reason and close.
const refusedTimeout = time.Second

// awaitPeerClose waits until the peer has closed too. If the connection were closed while unread bytes are there, TCP would reset
// it and the peer might never read the close frame. A Read in progress waits by itself.
func (c *Conn) awaitPeerClose() {
	if half, ok := c.transport.Conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		c.closeTransport(CloseAbnormal, false)
		return
	}
	c.mu.Lock()
	c.closeSent = true
	reading := c.reading
	var deadline time.Time
	if c.refused {
		deadline = time.Now().Add(refusedTimeout)
	}
	c.mu.Unlock()
	if reading {
		return
	}
	if c.transport.SetReadDeadline(deadline) == nil {
		_, _ = io.Copy(io.Discard, c.transport.Conn) // until it ends, for whatever reason
	}
	c.closeTransport(CloseAbnormal, false)
}
