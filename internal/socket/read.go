package socket

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// Message is what the other side sent.
type Message struct {
	Binary bool
	Data   []byte // until the next Read
}

// forever is the context of every read: one that can end would cost a timer each time. Cut ends a read.
var forever = context.Background() //nolint:forbidigo // the root of what ends by Cut

// firstRead is the size of a new buffer; it grows with what comes.
const firstRead = 4 << 10

// messages are buffers that are reused: a connection has one only between two Reads.
var messages = sync.Pool{New: func() any { b := make([]byte, 0, firstRead); return &b }}

// What is wrong with a message that came.
var (
	errTooLarge = errors.New("too large")
	errNotUTF8  = errors.New("not UTF-8")
)

// Read waits for the next message. The error, if any, is a *Closed, and the last thing that Read returns. A message
// that is too large, or is none, is answered with an error frame and a close. While the connection is being closed,
// what still comes is dropped, and Read returns when the other side has closed too; once it is closed, at once.
func (c *Conn) Read() (Message, error) {
	if c.message != nil {
		messages.Put(c.message)
		c.message = nil
	}
	if !c.beginRead() {
		return Message{}, c.ended()
	}
	for {
		kind, r, err := c.ws.Reader(forever)
		if err == nil {
			err = c.receive(r)
		}
		if err == nil && kind == websocket.MessageText && !utf8.Valid(*c.message) {
			err = errNotUTF8
		}
		if err != nil {
			c.endRead(err)
			return Message{}, c.ended()
		}
		if c.deliver() {
			return Message{Binary: kind == websocket.MessageBinary, Data: *c.message}, nil
		}
		messages.Put(c.message)
		c.message = nil
	}
}

// receive reads one message to its end.
func (c *Conn) receive(r io.Reader) error {
	buf := messages.Get().(*[]byte)
	c.message = buf
	most := int(c.hall.opts.MaxFrame)
	for b := (*buf)[:0]; ; {
		if len(b) == cap(b) {
			b = slices.Grow(b, max(1, min(len(b), most+1-len(b)))) // twice as much, but not more than there may be
		}
		n, err := r.Read(b[len(b):min(cap(b), most+1)]) // the library waits until this is full, so it is not more than needed
		b = b[:len(b)+n]
		*buf = b
		switch {
		case len(b) > most:
			return errTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

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

// deliver reports whether a message that came is still wanted, and if so ends the Read.
func (c *Conn) deliver() bool {
	c.mu.Lock()
	wanted := !c.closing
	c.reading = !wanted
	c.mu.Unlock()
	if wanted {
		c.leave()
	}
	return wanted
}

// endRead ends the last Read.
func (c *Conn) endRead(err error) {
	if c.message != nil {
		messages.Put(c.message)
		c.message = nil
	}
	c.mu.Lock()
	c.reading = false
	parted := c.parted
	c.mu.Unlock()
	if parted {
		c.hangUp(CloseLost, false)
	} else {
		c.judge(err)
	}
	c.leave()
}

// judge ends the connection in the way that the error of a read asks for.
func (c *Conn) judge(err error) {
	var theirs websocket.CloseError
	switch {
	case errors.As(err, &theirs) && utf8.ValidString(theirs.Reason):
		c.echo(wire.CloseCode(theirs.Code))
	case errors.As(err, &theirs):
		c.Close(CloseNotUTF8, wire.Errorf(wire.InvalidRequest, "the reason of a close must be UTF-8"))
	case errors.Is(err, errTooLarge):
		c.Close(wire.CloseTooLarge, wire.Errorf(wire.PayloadTooLarge,
			"a message may be %d bytes long: send less in each", c.hall.opts.MaxFrame))
	case errors.Is(err, errNotUTF8):
		c.Close(CloseNotUTF8, wire.Errorf(wire.InvalidRequest, "a text message must be UTF-8"))
	case c.pipe.broken.Load():
		c.Abort()
	default:
		c.Close(CloseProtocol, wire.Errorf(wire.InvalidRequest, "what came is not WebSocket as in RFC 6455"))
	}
}

// ended is the error of a Read on a connection that is closed, or being closed.
func (c *Conn) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.end
	return &end
}
