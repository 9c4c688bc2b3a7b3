package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// Conn is one connection. One goroutine reads from it until Read returns an error; all other methods may be called from any.
type Conn struct {
	hub        *Hub
	ws         *websocket.Conn // parses incoming frames
	transport  *transport
	remoteAddr string
	addr       netip.Addr
	counted    bool  // counts towards the limit of its address
	part       uint8 // of the hub; set before the connection is used
	onPong     func(payload []byte)
	done       chan struct{}
	reads      atomic.Uint64 // how often bytes arrived
	health     health        // used by the watchdog only
	message    *[]byte       // the buffer that Read returned; used by the reader only

	mu              run.Mutex
	owner           any // as SetOwner set it
	users           int // the open transport, the writer and the reader; the last one to release the connection frees it
	queue           sendQueue
	keepalive       time.Duration // within what time a message is sent; 0: whenever there is one
	reading         bool          // a Read is in progress
	closing         bool          // the closing handshake has begun: nothing more is queued
	closeSent       bool          // the close frame is written, and a Read in progress waits for the peer's
	refused         bool          // closed right after the opening handshake: the peer's close is not waited for long
	transportClosed bool          // the network connection is closed, or is being closed
	end             CloseError
}

// CloseError is how a connection ended.
type CloseError struct {
	Code   wire.CloseCode // CloseAbnormal when no close frame was sent, CloseNoStatus when one without a code was
	ByPeer bool           // the peer began the closing handshake
}

// The codes of RFC 6455, section 7.4.1, that are never sent.
const (
	CloseNoStatus wire.CloseCode = 1005 // the close frame had no code
	CloseAbnormal wire.CloseCode = 1006 // no close frame came
)

func (e *CloseError) Error() string {
	switch {
	case e.Code == CloseAbnormal:
		return "the connection was lost"
	case e.ByPeer:
		return fmt.Sprintf("the peer closed the connection, with %d", e.Code)
	}
	return fmt.Sprintf("the connection was closed here, with %d", e.Code)
}

// RemoteAddr is the address of the peer, with its port.
func (c *Conn) RemoteAddr() string { return c.remoteAddr }

// SetOwner records who opened the connection, for Hub.CloseIf.
func (c *Conn) SetOwner(owner any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner = owner
}

func (c *Conn) currentOwner() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner
}

// Done is closed when the connection has ended and everything of it is freed.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Abort closes the connection at once, without a closing handshake, and drops what is queued.
func (c *Conn) Abort() { c.closeTransport(CloseAbnormal, true) }

// closeTransport closes the network connection, with this code if none is set yet. With reset it is closed by a TCP RST, because
// the kernel would keep unacknowledged data for minutes for a peer that does not read.
func (c *Conn) closeTransport(code wire.CloseCode, reset bool) {
	c.mu.Lock()
	first := !c.transportClosed
	c.transportClosed = true
	if !c.closing {
		c.closing = true
		c.end = CloseError{Code: code}
	}
	c.mu.Unlock()
	if !first {
		return
	}
	if tcp := tcpOf(c.transport.Conn); tcp != nil && reset {
		_ = tcp.SetLinger(0)
		_ = tcp.Close() // before TLS, which would write an alert and wait for a peer that does not read
	}
	_ = c.transport.Conn.Close() // the connection is given up in any case
	c.release()
}

// release is called by each user of the connection when it is finished. The last one frees everything.
func (c *Conn) release() {
	c.mu.Lock()
	c.users--
	last := c.users == 0
	if last {
		c.queue.free()
	}
	c.mu.Unlock()
	if !last {
		return
	}
	_ = c.ws.CloseNow() // or the library would keep it until its finalizer runs
	c.hub.remove(c)
	c.hub.opts.Ended(c.end)
	close(c.done)
}

// Message is a message from the peer.
type Message struct {
	Binary bool
	Data   []byte // valid until the next Read
}

// readContext is the context of every read. One that can end would cost a timer for each; Abort ends a read.
var readContext = context.Background() //nolint:forbidigo // the root of reads, which Abort ends

// initialReadBuffer is the size of a new message buffer; it grows with the message.
const initialReadBuffer = 4 << 10

// messageBuffers are reused: a connection has one only between two Reads.
var messageBuffers = sync.Pool{New: func() any { b := make([]byte, 0, initialReadBuffer); return &b }}

// Errors of incoming messages.
var (
	errTooLarge = errors.New("the message is too large")
	errNotUTF8  = errors.New("the text message is not UTF-8")
)

// Read waits for the next message. The error, if any, is a *CloseError, and the last thing that Read returns. A message that is
// too large or malformed is answered with an error frame and a close. During the closing handshake further messages are dropped,
// and Read returns when the connection has ended; after that, at once.
func (c *Conn) Read() (Message, error) {
	c.freeMessage()
	if !c.beginRead() {
		<-c.done // the caller may drop what the connection is still sending
		return Message{}, c.closeError()
	}
	for {
		kind, r, err := c.ws.Reader(readContext)
		if err == nil {
			err = c.readMessage(r)
		}
		if err == nil && kind == websocket.MessageText && !utf8.Valid(*c.message) {
			err = errNotUTF8
		}
		if err != nil {
			c.failRead(err)
			return Message{}, c.closeError()
		}
		if c.finishRead() {
			return Message{Binary: kind == websocket.MessageBinary, Data: *c.message}, nil
		}
		c.freeMessage()
	}
}

func (c *Conn) freeMessage() {
	if c.message != nil {
		messageBuffers.Put(c.message)
		c.message = nil
	}
}

// readMessage reads one message to its end.
func (c *Conn) readMessage(r io.Reader) error {
	buf := messageBuffers.Get().(*[]byte)
	c.message = buf
	limit := int(c.hub.opts.MaxFrame)
	for b := (*buf)[:0]; ; {
		if len(b) == cap(b) {
			b = slices.Grow(b, max(1, min(len(b), limit+1-len(b)))) // double, but never beyond the limit
		}
		n, err := r.Read(b[len(b):min(cap(b), limit+1)]) // the library waits until this is full, so it is as short as possible
		b = b[:len(b)+n]
		*buf = b
		switch {
		case len(b) > limit:
			return errTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// beginRead begins a Read; it reports false when the connection is closing.
func (c *Conn) beginRead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.reading = true
	c.users++
	return true
}

// finishRead ends a Read that has a message. It reports false, and the Read goes on, when the connection is closing: then the
// message is dropped.
func (c *Conn) finishRead() bool {
	c.mu.Lock()
	deliver := !c.closing
	c.reading = !deliver
	c.mu.Unlock()
	if deliver {
		c.release()
	}
	return deliver
}

// failRead ends the last Read.
func (c *Conn) failRead(err error) {
	c.freeMessage()
	c.mu.Lock()
	c.reading = false
	closeSent := c.closeSent
	c.mu.Unlock()
	if closeSent {
		c.closeTransport(CloseAbnormal, false)
	} else {
		c.closeForReadError(err)
	}
	c.release()
}

// closeForReadError closes the connection with the close code for the error of a read.
func (c *Conn) closeForReadError(err error) {
	var peerClose websocket.CloseError
	switch {
	case errors.As(err, &peerClose) && utf8.ValidString(peerClose.Reason):
		c.replyClose(wire.CloseCode(peerClose.Code))
	case errors.As(err, &peerClose):
		c.Close(wire.CloseInvalidPayload, wire.Errorf(wire.InvalidRequest, "the reason of a close must be UTF-8"))
	case errors.Is(err, errTooLarge):
		c.Close(wire.CloseTooLarge, wire.Errorf(wire.PayloadTooLarge,
			"a message may be %d bytes long: send less in each", c.hub.opts.MaxFrame))
	case errors.Is(err, errNotUTF8):
		c.Close(wire.CloseInvalidPayload, wire.Errorf(wire.InvalidRequest, "a text message must be UTF-8"))
	case c.transport.readFailed.Load():
		c.Abort()
	default:
		c.Close(wire.CloseProtocolError, wire.Errorf(wire.InvalidRequest, "protocol error: a frame is not as RFC 6455 requires"))
	}
}

// closeError is the error of a Read on a connection that is closed or closing.
func (c *Conn) closeError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.end
	return &end
}

// transport is the network connection as the library sees it: the library reads from it; what it writes is queued.
type transport struct {
	net.Conn
	conn       *Conn
	early      []byte      // bytes that arrived together with the handshake
	readFailed atomic.Bool // nothing can be read any more
}

// Read implements net.Conn. Bytes that arrive count as a sign that the peer is alive.
func (t *transport) Read(b []byte) (int, error) {
	if len(t.early) > 0 {
		n := copy(b, t.early)
		if t.early = t.early[n:]; len(t.early) == 0 {
			t.early = nil
		}
		return n, nil
	}
	n, err := t.Conn.Read(b)
	if n > 0 {
		t.conn.reads.Add(1)
	}
	if err != nil {
		t.readFailed.Store(true)
	}
	return n, err
}

// Write receives one control frame from the library. Pongs are queued. Close frames are dropped: the error of the read that
// caused one makes Conn.Read close the connection, with an error frame first.
func (t *transport) Write(b []byte) (int, error) {
	if b[0] == finBit|opPong {
		t.conn.enqueue(opPong, b[2:])
	}
	return len(b), nil
}

// Close is called by the library when it has received a close frame, or when a control frame was incomplete. Queued frames must
// still be written, so only reading ends.
func (t *transport) Close() error {
	t.readFailed.Store(true)
	return t.SetReadDeadline(time.Unix(1, 0))
}
