package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/endpoints"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxEarlyMessages and maxEarlyBytes limit the messages that arrive before the answer to the registration.
	maxEarlyMessages = 1024
	maxEarlyBytes    = 32 << 20
)

var errNoPong = errors.New("the scheduler does not answer pings")

// connector keeps a node connected and registered. One goroutine runs it.
type connector struct {
	node      *Node
	endpoints *endpoints.Rotation
	timing    *timing

	// unansweredRegistration is set when a registration was sent and neither answered nor refused. The scheduler may handle
	// it late, and then it replaces the next connection.
	unansweredRegistration bool
	notSchedulers          int // endpoints in a row that did not lead to a scheduler
}

func newConnector(n *Node) *connector {
	return &connector{node: n, endpoints: n.endpoints, timing: &n.timing}
}

// run keeps the node connected until ctx ends, the node closes its connection, or the scheduler refuses it for good.
func (c *connector) run(ctx context.Context) error {
	for failures := 0; ; {
		conn, err := c.open(ctx, nil)
		if err == nil {
			if conn, err = c.hold(ctx, conn); conn.age() >= c.timing.stableAfter {
				failures = 0
			}
			if shouldMove(err) {
				c.endpoints.Next()
			}
		} else {
			c.endpoints.Next()
		}
		switch {
		case ctx.Err() != nil || c.node.isClosed():
			return nil //nolint:nilerr // the node is shutting down
		case c.isPermanent(err):
			return fmt.Errorf("node: %w", err)
		}
		wait := c.backoff(failures)
		failures++
		c.node.log.Warn("no connection to the scheduler", "error", err, "retry_in", wait)
		if !run.Sleep(ctx, wait) {
			return nil
		}
	}
}

// backoff returns how long to wait before the next attempt to connect. It grows with each round over all endpoints.
func (c *connector) backoff(failures int) time.Duration {
	return c.timing.backoff(c.endpoints.Round(failures))
}

// shouldMove reports whether a connection was lost because its instance is gone or stopping, so that another endpoint is
// better. Otherwise the instance is probably still there, with its state of the node.
func shouldMove(err error) bool {
	return errors.Is(err, errSilent) || errors.Is(err, errNoPong) || websocket.CloseStatus(err) == websocket.StatusCode(wire.CloseDraining)
}

// isPermanent reports whether to stop connecting after an error. An endpoint that is not a scheduler says nothing about the
// other ones, so all of them must fail in that way.
func (c *connector) isPermanent(err error) bool {
	var notScheduler permanentError
	if !errors.As(err, &notScheduler) {
		c.notSchedulers = 0
		return isPermanent(err)
	}
	c.notSchedulers++
	return c.notSchedulers >= c.endpoints.Len()
}

// hold waits until a connection is lost, and replaces it by a new one when the scheduler sends GoAway. It returns the last
// connection and its error.
func (c *connector) hold(ctx context.Context, conn *connection) (*connection, error) {
	for failures := 0; ; {
		select {
		case <-conn.done:
			c.node.detach(conn)
			err := conn.closeError()
			return conn, err
		case <-conn.moveDue:
		}
		c.endpoints.Next()
		next, err := c.open(ctx, conn)
		switch {
		case err == nil:
			conn.stop()
			conn, failures = next, 0
		case c.isPermanent(err):
			conn.stop()
			c.node.detach(conn)
			return conn, err
		default: // the current connection may last a little longer
			conn.moveAfter(c.backoff(failures))
			failures++
		}
	}
}

// open connects, registers and starts the connection. A previous connection stays in use until the new one is registered.
func (c *connector) open(ctx context.Context, previous *connection) (*connection, error) {
	registerCtx, cancel := context.WithTimeout(ctx, c.timing.registerTimeout)
	defer cancel()
	ws, err := c.dial(registerCtx)
	if err != nil {
		return nil, err
	}
	conn := newConnection(ctx, ws, endpoints.HTTPBase(c.endpoints.Current()), c.timing.writeTimeout)
	conn.superseded = c.unansweredRegistration
	ack, err := c.register(registerCtx, conn, previous)
	if err != nil {
		conn.cancel()
		_ = ws.CloseNow()
		c.node.cancelRegistration()
		return nil, err
	}
	c.notSchedulers = 0
	c.node.adopt(conn, ack)
	receiver := &receiver{node: c.node, conn: conn, log: c.node.log}
	conn.start(receiver.receive, c.runPeriodic, func(ctx context.Context) { c.monitor(ctx, conn, milliseconds(ack.KeepaliveMS)) })
	return conn, nil
}

// dial opens a WebSocket to the current endpoint.
func (c *connector) dial(ctx context.Context) (*websocket.Conn, error) {
	options := &websocket.DialOptions{HTTPClient: c.node.http, HTTPHeader: http.Header{}, Subprotocols: []string{wire.Subprotocol}}
	if token := c.node.cfg.Token; token != "" {
		options.HTTPHeader.Set("Authorization", "Bearer "+token)
	}
	if c.endpoints.Len() > 1 { // an endpoint that does not answer must not keep the node from the others
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timing.dialTimeout)
		defer cancel()
	}
	ws, resp, err := websocket.Dial(ctx, c.endpoints.Current().String(), options) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, handshakeError(resp, err)
	}
	if ws.Subprotocol() != wire.Subprotocol {
		_ = ws.CloseNow()
		return nil, permanentError{fmt.Errorf("the server does not speak %s: check that Config.URL leads to a scheduler", wire.Subprotocol)}
	}
	ws.SetReadLimit(wire.MaxFrame)
	return ws, nil
}

// register sends the registration and waits for the answer.
func (c *connector) register(ctx context.Context, conn, previous *connection) (*wire.NodeRegisterAck, error) {
	text, err := wire.EncodeFrame(c.node.beginRegistration())
	if err != nil {
		return nil, permanentError{err}
	}
	if previous != nil {
		previous.supersede()
	}
	if err := conn.ws.Write(ctx, websocket.MessageText, text); err != nil {
		// The scheduler may have closed the connection before it read anything. Read its error.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeGrace)
		defer cancel()
	}
	ack, err := c.awaitAck(ctx, conn)
	c.unansweredRegistration = err != nil && websocket.CloseStatus(conn.err) < 0
	return ack, err
}

// awaitAck reads until the answer to the registration arrives. It keeps other messages for the receiver.
func (c *connector) awaitAck(ctx context.Context, conn *connection) (*wire.NodeRegisterAck, error) {
	for size := 0; ; {
		kind, data, err := conn.ws.Read(ctx)
		if err != nil {
			conn.end(err)
			return nil, conn.closeError()
		}
		frameType := wire.FrameType("")
		if kind == websocket.MessageText {
			frameType, _ = wire.TypeOf(data)
		}
		switch frameType {
		case wire.NodeRegisterAck{}.Type():
			var ack wire.NodeRegisterAck
			switch err := wire.Decode(data, &ack); {
			case err != nil:
				return nil, fmt.Errorf("the answer to the registration is invalid: %w", err)
			case !c.node.acceptsAck(&ack):
				return nil, errors.New("the answer to the registration names another node")
			}
			return &ack, nil
		case wire.ErrorFrame{}.Type():
			(&receiver{node: c.node, conn: conn, log: c.node.log}).handleError(data)
		default:
			conn.early = append(conn.early, message{kind, data})
			if size += len(data); len(conn.early) > maxEarlyMessages || size > maxEarlyBytes {
				return nil, errors.New("the scheduler sends too many messages before the answer to the registration")
			}
		}
	}
}

// runPeriodic sends heartbeats and resends outcomes that are not acknowledged, while a connection lasts.
func (c *connector) runPeriodic(ctx context.Context) {
	heartbeat := time.NewTimer(c.node.nextHeartbeat())
	defer heartbeat.Stop()
	resend := time.NewTicker(c.timing.resendAfter / 3)
	defer resend.Stop()
	last := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-resend.C:
			c.node.resendUnacked()
		case <-heartbeat.C:
			c.node.sendHeartbeat()
			last = time.Now()
			heartbeat.Reset(c.node.nextHeartbeat())
		case <-c.node.heartbeatNow:
			heartbeat.Reset(c.timing.minHeartbeatGap - time.Since(last)) // at once if the gap has passed
		}
	}
}

// monitor ends the connection when the scheduler is gone, which TCP reports only after a very long time, or never. A scheduler that does
// not know keepalives is pinged once per heartbeat interval.
func (c *connector) monitor(ctx context.Context, conn *connection, keepalive time.Duration) {
	if keepalive > 0 {
		conn.awaitSilence(ctx, keepalive)
		return
	}
	for run.Sleep(ctx, c.node.nextHeartbeat()) && conn.ping(ctx, c.timing.pongTimeout) {
		continue
	}
}
