package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// serve keeps the node connected until the context ends or coming back is no use.
func (n *Node) serve(ctx context.Context) error {
	for failed := 0; ; {
		l, err := n.open(ctx, nil)
		if err == nil {
			if l, err = n.attend(ctx, l); l.held() >= n.pace.settled {
				failed = 0
			}
			if gone(err) {
				n.where.next()
			}
		} else {
			n.where.next()
		}
		switch {
		case ctx.Err() != nil || n.left():
			return nil //nolint:nilerr // the end was asked for
		case n.where.hopeless(err):
			return fmt.Errorf("node: %w", err)
		}
		failed++
		pause := n.pace.pause(n.where.round(failed))
		n.log.Warn("no connection to the scheduler", "error", err, "retry_in", pause)
		if !wait(ctx, pause) {
			return nil
		}
	}
}

// gone reports whether a connection was lost because there is nobody any more, or soon will not be: the next address is
// better. Else the scheduler is likely to be found where it was, with what it knows of the node.
func gone(err error) bool {
	return errors.Is(err, errNoAnswer) || websocket.CloseStatus(err) == websocket.StatusCode(wire.CloseDraining)
}

// attend stays with a connection, and with the one that follows it when the scheduler asks the node to connect anew. It
// returns the last, and why it was lost.
func (n *Node) attend(ctx context.Context, l *link) (*link, error) {
	for failed := 0; ; {
		select {
		case <-l.done:
			n.detach(l)
			err := l.why()
			return l, err
		case <-l.leave:
		}
		n.where.next()
		next, err := n.open(ctx, l)
		switch {
		case err == nil:
			l.drop()
			l, failed = next, 0
		case n.where.hopeless(err):
			l.drop()
			n.detach(l)
			return l, err
		default: // this one may hold a little longer
			failed++
			l.leaveIn(n.pace.pause(n.where.round(failed)))
		}
	}
}

// open connects and registers. The connection before, if there still is one, goes on until the new one is registered.
func (n *Node) open(ctx context.Context, before *link) (*link, error) {
	within, cancel := context.WithTimeout(ctx, n.pace.register)
	defer cancel()
	options := &websocket.DialOptions{HTTPClient: n.http, HTTPHeader: http.Header{}, Subprotocols: []string{wire.Subprotocol}}
	if n.cfg.Token != "" {
		options.HTTPHeader.Set("Authorization", "Bearer "+n.cfg.Token)
	}
	patience := n.pace.register
	if n.where.others() { // one that vanished must not keep the node from those that live
		patience = n.pace.knock
	}
	knocking, enough := context.WithTimeout(within, patience)
	conn, resp, err := websocket.Dial(knocking, n.where.here().String(), options) //nolint:bodyclose // the library has done so
	enough()
	if err != nil {
		return nil, handshakeError(resp, err)
	}
	if conn.Subprotocol() != wire.Subprotocol {
		_ = conn.CloseNow()
		return nil, final{fmt.Errorf("what answers does not speak %s: check that Config.URL leads to a scheduler", wire.Subprotocol)}
	}
	conn.SetReadLimit(wire.MaxFrame)

	l := newLink(ctx, conn, n.pace.write)
	l.base, l.superseded = httpBase(n.where.here()), n.haunted
	ack, err := n.register(within, l, before)
	if err != nil {
		l.cancel()
		_ = conn.CloseNow()
		n.stay()
		return nil, err
	}
	n.where.not = 0
	n.adopt(l, ack)
	l.start(func(m received) { n.receive(l, m) }, n.duties, func(ctx context.Context) { n.watch(ctx, l) })
	return l, nil
}

// register says who the node is and what it has in hand, and waits for the answer.
func (n *Node) register(ctx context.Context, l, before *link) (*wire.NodeRegisterAck, error) {
	text, err := wire.EncodeFrame(n.registration())
	if err != nil {
		return nil, final{err}
	}
	if before != nil {
		before.supersede()
	}
	if err := l.conn.Write(ctx, websocket.MessageText, text); err != nil {
		// The scheduler may have closed before it read anything; then it has said why.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, lastWords)
		defer cancel()
	}
	ack, err := n.answer(ctx, l)
	// Without an answer, and without a close, the scheduler may come to it later: then this try replaces the next.
	n.haunted = err != nil && websocket.CloseStatus(l.err) < 0
	return ack, err
}

// answer waits for the answer to the registration. What overtook it is kept until it is there.
func (n *Node) answer(ctx context.Context, l *link) (*wire.NodeRegisterAck, error) {
	for size := 0; ; {
		kind, data, err := l.conn.Read(ctx)
		if err != nil {
			l.end(err)
			return nil, l.why()
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
				return nil, fmt.Errorf("the answer to the registration cannot be read: %w", err)
			case n.isMisnamed(&ack):
				return nil, errors.New("the answer to the registration names another node")
			}
			return &ack, nil
		case wire.ErrorFrame{}.Type():
			n.heard(l, data)
		default:
			l.early = append(l.early, received{kind, data})
			if size += len(data); len(l.early) > mostEarly || size > mostEarlySize {
				return nil, errors.New("the scheduler sends and sends, and does not answer the registration")
			}
		}
	}
}

func (n *Node) isMisnamed(ack *wire.NodeRegisterAck) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.misnamed(ack)
}

// misnamed reports that a registration is not this node's; the node is locked.
func (n *Node) misnamed(ack *wire.NodeRegisterAck) bool {
	return ack.NodeID == "" || n.id != "" && ack.NodeID != n.id
}

// registration is the first message. From it on nothing is accepted until the answer is there: it would not be listed.
func (n *Node) registration() wire.NodeRegister {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moving = true
	n.giveUp()
	n.since = wire.Declaration{}
	r := wire.NodeRegister{NodeID: n.id, ResumeToken: n.token, Declaration: n.declared}
	r.Active = n.active(true) // the scheduler sends the rest of the audio that the last connection lost
	if n.leaving {
		r.Health = healthDraining
	}
	return r
}

// adopt goes on over a new connection. What the old one may not have delivered is said again.
func (n *Node) adopt(l *link, ack *wire.NodeRegisterAck) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moving, n.link, n.unsaid = false, l, wire.Declaration{}
	n.registered(ack)
	for _, t := range n.tasks {
		switch t.stage {
		case working:
			if t.job.sound.expect(); t.inFrames() && slices.Contains(ack.NoAudio, t.key) {
				t.job.sound.lose()
			}
			l.say(wire.JobAck{ActiveJob: t.key})
		case finished:
			n.deliver(t)
		}
	}
}

// registered takes over what the scheduler said about the node; the node is locked.
func (n *Node) registered(ack *wire.NodeRegisterAck) {
	if ack.Epoch != n.epoch {
		n.beats = 0
	}
	n.shut = false
	n.id, n.epoch, n.token = ack.NodeID, ack.Epoch, ack.ResumeToken
	n.interval = n.pace.beat
	if ack.HeartbeatIntervalMS > 0 {
		n.interval = milliseconds(ack.HeartbeatIntervalMS)
	}
	if !reflect.ValueOf(n.since).IsZero() { // the registration did not have it, and only another life may have been told
		n.unsaid = n.since
		signal(n.soon)
	}
	n.log.Info("node is registered", "node_id", n.id, "epoch", n.epoch, "status", ack.Status, "jobs", len(n.tasks))
	for _, key := range ack.Cancel {
		n.cancel(n.link, key)
	}
}

// stay goes on as before: the registration came to nothing.
func (n *Node) stay() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moving = false
}

// detach takes note that a connection is lost.
func (n *Node) detach(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.link == l {
		n.link = nil
	}
}

// left reports that the node closed its connection for good.
func (n *Node) left() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.parted
}
