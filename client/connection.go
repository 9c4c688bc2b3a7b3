package client

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// closeGrace is how long to wait for the scheduler's error and close code.
const closeGrace = time.Second

// connection is one connection to the scheduler.
type connection struct {
	ws          *websocket.Conn
	ctx         context.Context // ends when the connection is dropped; its cause is the reason
	drop        context.CancelCauseFunc
	idleTimer   *time.Timer                     // drops the connection when nothing arrives
	idleTimeout time.Duration                   // 0: none
	idleChecks  atomic.Int32                    // parts of the timeout in which nothing has arrived
	reading     atomic.Bool                     // the timeout counts
	moveTimer   *time.Timer                     // drops the connection after GoAway; nil: there was none
	reported    atomic.Pointer[wire.ErrorFrame] // the fatal error that the scheduler sent; nil: none

	replacedByOwnConn bool // if the connection is replaced, that may be by an earlier attempt of this session
}

// newConnection returns a connection without a WebSocket.
func newConnection(ctx context.Context) *connection {
	c := new(connection)
	c.ctx, c.drop = context.WithCancelCause(ctx)
	c.idleTimer = time.AfterFunc(answerTimeout, c.checkIdle)
	c.idleTimer.Stop()
	return c
}

// idleParts is into how many parts the idle timeout is divided. A process that stood still, or got no processor, for longer than the
// timeout misses one of them only, and then reads what has arrived meanwhile.
const idleParts = 5

// checkIdle is called at the end of each part of the idle timeout.
func (c *connection) checkIdle() {
	switch {
	case !c.reading.Load():
	case c.idleChecks.Add(1) < idleParts:
		c.idleTimer.Reset(c.idleTimeout / idleParts)
	default:
		c.drop(errIdle)
	}
}

// open sends the first message and waits for the answer.
func (c *connection) open(ctx context.Context, first, answer wire.Frame) error {
	err := c.send(ctx, first)
	if err == nil {
		return c.await(ctx, answer)
	}
	var lost *ConnectionError
	if !errors.As(err, &lost) {
		return err
	}
	// The scheduler may have closed the connection before it read anything. Read its error.
	ctx, cancel := context.WithTimeout(ctx, closeGrace)
	defer cancel()
	var refused *ConnectionError
	if errors.As(c.await(ctx, answer), &refused) && (refused.Code != 0 || refused.Frame != nil) {
		return refused
	}
	return err
}

// await reads until the answer arrives. Other messages cannot be about this connection and are ignored.
func (c *connection) await(ctx context.Context, answer wire.Frame) error {
	for {
		kind, body, err := c.read(ctx)
		if err != nil {
			return err
		}
		switch kind {
		case answer.Type():
			if err := wire.Decode(body, answer); err != nil {
				return invalidMessage(err)
			}
			return nil
		case wire.ErrorFrame{}.Type():
			var e wire.ErrorFrame
			if err := wire.Decode(body, &e); err != nil {
				return invalidMessage(err)
			}
			if !e.Fatal {
				return &ConnectionError{Code: wire.CloseBadMessage, Frame: &e}
			}
			c.reported.Store(&e)
		case wire.GoAway{}.Type():
			var g wire.GoAway
			if err := wire.Decode(body, &g); err != nil {
				return invalidMessage(err)
			}
			c.goAway(&g)
		}
	}
}

// send writes a text frame.
func (c *connection) send(ctx context.Context, f wire.Frame) error {
	text, err := wire.EncodeFrame(f)
	if err != nil {
		return err
	}
	if err := c.ws.Write(ctx, websocket.MessageText, text); err != nil {
		return c.lost(err)
	}
	return nil
}

// sendEntry writes an entry of the journal: audio as a binary frame, unless it has properties that need a text frame.
func (c *connection) sendEntry(e *entry, numbered bool) error {
	switch {
	case !e.isAudio:
		return c.send(c.ctx, e.frame)
	case e.final || e.utterance != wire.UtteranceStart{}:
		return c.send(c.ctx, wire.AudioChunk{
			Seq: e.seq, UtteranceID: e.utterance.UtteranceID, SrcLang: e.utterance.SrcLang, RequestID: e.utterance.RequestID,
			Data: e.data, IsFinal: e.final, Traceparent: e.utterance.Traceparent,
		})
	case numbered:
		frame := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(e.data)), uint64(e.seq))
		return c.ws.Write(c.ctx, websocket.MessageBinary, append(frame, e.data...))
	}
	return c.ws.Write(c.ctx, websocket.MessageBinary, e.data)
}

// read waits for the next message. The type of a binary message is empty.
func (c *connection) read(ctx context.Context) (wire.FrameType, []byte, error) {
	c.reading.Store(true)
	c.resetIdleTimer()
	typ, r, err := c.ws.Reader(ctx)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(arrivals{r, c})
	}
	c.reading.Store(false)
	c.idleTimer.Stop()
	switch {
	case err != nil:
		return "", nil, c.lost(err)
	case typ == websocket.MessageBinary:
		return "", body, nil
	}
	kind, err := wire.TypeOf(body)
	if err != nil {
		return "", nil, invalidMessage(err)
	}
	return kind, body, nil
}

// arrivals reads a message. Each part of it restarts the idle timeout, because a long message may take longer than that.
type arrivals struct {
	io.Reader
	conn *connection
}

func (a arrivals) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	a.conn.resetIdleTimer()
	return n, err
}

// resetIdleTimer restarts the idle timeout.
func (c *connection) resetIdleTimer() {
	if c.idleTimeout > 0 {
		c.idleChecks.Store(0)
		c.idleTimer.Reset(c.idleTimeout / idleParts)
	}
}

// lost returns the error of a connection that ended with err.
func (c *connection) lost(err error) error {
	lost := &ConnectionError{Frame: c.reported.Load(), Err: err, replacedByOwnConn: c.replacedByOwnConn}
	if code := websocket.CloseStatus(err); code > 0 {
		lost.Code = wire.CloseCode(code)
	}
	if cause := context.Cause(c.ctx); errors.Is(cause, errIdle) || errors.Is(cause, errGoAway) {
		lost.Err = cause
	}
	return lost
}

// goAway drops the connection at a random time in the first half of the given time: in the second half the scheduler begins
// to close the connections that are left.
func (c *connection) goAway(g *wire.GoAway) {
	if c.moveTimer == nil {
		c.moveTimer = time.AfterFunc(rand.N(max(milliseconds(g.ReconnectMS)/2, 1)), func() { c.drop(errGoAway) })
	}
}

// awaitClose waits for the close that follows the last message.
func (c *connection) awaitClose() {
	ctx, cancel := context.WithTimeout(c.ctx, closeGrace)
	defer cancel()
	for {
		if _, _, err := c.read(ctx); err != nil {
			return
		}
	}
}

// dropAfterRead drops the connection after a failed write. It gives the reader a moment to receive the scheduler's own error
// first.
func (c *connection) dropAfterRead(err error) {
	select {
	case <-time.After(closeGrace):
		c.drop(err)
	case <-c.ctx.Done():
	}
}

// close closes the connection, if it is not closed.
func (c *connection) close() {
	c.idleTimer.Stop()
	if c.moveTimer != nil {
		c.moveTimer.Stop()
	}
	c.drop(nil)
	_ = c.ws.CloseNow() // it may be closed already
}
