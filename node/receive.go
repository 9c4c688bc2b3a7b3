package node

import (
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// receive takes a message of the scheduler. It is called by the one goroutine that reads, and never waits for a handler.
func (n *Node) receive(l *link, m received) {
	data := m.data
	if m.kind == websocket.MessageBinary {
		n.chunk(data)
		return
	}
	frameType, err := wire.TypeOf(data)
	if err != nil {
		n.log.Warn("a message of the scheduler cannot be read and is left aside", "error", err)
		return
	}
	switch frameType {
	case wire.JobAssign{}.Type():
		take(n, data, func(a *wire.JobAssign) { n.assign(l, a) })
	case wire.JobResultAck{}.Type():
		take(n, data, func(a *wire.JobResultAck) { n.acknowledged(a) })
	case wire.JobCancel{}.Type():
		take(n, data, func(c *wire.JobCancel) { n.cancelled(l, c.ActiveJob) })
	case wire.NodeRegisterAck{}.Type():
		take(n, data, func(a *wire.NodeRegisterAck) { n.renewed(l, a) })
	case wire.Drain{}.Type():
		take(n, data, func(d *wire.Drain) { n.drain(l, d) })
	case wire.GoAway{}.Type():
		take(n, data, func(g *wire.GoAway) {
			n.log.Info("the scheduler asks to connect anew", "within_ms", g.ReconnectMS)
			l.goAway(g)
		})
	case wire.ErrorFrame{}.Type():
		n.heard(l, data)
	case wire.Warning{}.Type():
		take(n, data, func(w *wire.Warning) { n.log.Warn("the scheduler warns", "code", w.Code, "detail", w.Detail) })
	default:
		n.log.Debug("a message of a type that is not known is left aside", "type", string(frameType))
	}
}

// take reads a message and hands it on. One that cannot be read is left aside.
func take[F wire.Frame](n *Node, data []byte, then func(*F)) {
	var f F
	if err := wire.Decode(data, &f); err != nil {
		n.log.Warn("a message of the scheduler cannot be read and is left aside", "type", string(f.Type()), "error", err)
		return
	}
	then(&f)
}

// heard takes an error. If it is the connection's last word it is kept.
func (n *Node) heard(l *link, data []byte) {
	take(n, data, func(e *wire.ErrorFrame) {
		n.log.Warn("the scheduler reports an error", "code", string(e.Code), "detail", e.Detail, "reply_to", e.ReplyTo, "fatal", e.Fatal)
		switch {
		case e.Fatal:
			l.remember(&e.Error)
		case e.ReplyTo == string(wire.NodeHeartbeat{}.Type()) && e.Code.Retryable():
			n.unheard(l)
		}
	})
}

// assign answers an assignment: taken, or no room. An attempt that is in hand already is confirmed again and done once.
func (n *Node) assign(l *link, a *wire.JobAssign) {
	key := wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}
	if a.JobID == "" {
		n.log.Warn("an assignment names no job and is left aside")
		return
	}
	wanted, full := n.settle(l, key, a)
	if wanted {
		n.tellDrained(false)
	}
	if full && n.cfg.OnFull != nil {
		n.cfg.OnFull(key)
	}
}

// settle does so, and reports whether a node that was drained is given work again, and whether there was no room.
func (n *Node) settle(l *link, key wire.ActiveJob, a *wire.JobAssign) (wanted, full bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.tasks[key]
	switch {
	case t != nil && t.stage == working:
		l.say(wire.JobAck{ActiveJob: key})
	case t != nil && t.stage == finished:
		l.say(wire.JobAck{ActiveJob: key})
		n.deliver(t)
	case t != nil && t.stage == cancelled: // that it has stopped will be said when it has
	case t != nil, n.shut, n.leaving, n.moving, n.link != l:
		l.say(wire.JobReject{ActiveJob: key, Reason: reasonBusy})
	case n.full(key):
		full = true
		l.say(wire.JobReject{ActiveJob: key, Reason: reasonBusy})
	default:
		n.accept(l, a)
		wanted, n.drained = n.drained, false
	}
	return wanted, full
}

// acknowledged lets go of a job: it is over for the node, also if it is still being worked on.
func (n *Node) acknowledged(a *wire.JobResultAck) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !a.Accepted {
		n.log.Info("a result was not wanted any more", "job_id", a.JobID, "attempt_id", a.AttemptID, "reason", string(a.Code))
	}
	if t := n.tasks[a.ActiveJob]; t != nil {
		n.stop(t, dropped)
	}
	if n.link != nil && !a.Accepted {
		n.link.silence(a.ActiveJob)
	}
}

func (n *Node) cancelled(l *link, key wire.ActiveJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cancel(l, key)
}

// cancel stops an attempt. One that is not being worked on has stopped already; the node is locked.
func (n *Node) cancel(l *link, key wire.ActiveJob) {
	t := n.tasks[key]
	if t != nil {
		n.stop(t, cancelled)
	}
	if t == nil || t.stage == finished {
		l.silence(key)
		l.say(wire.JobCancelled{ActiveJob: key})
	}
}

// renewed takes a registration that was not asked for: the scheduler had lost the node and registered it again.
func (n *Node) renewed(l *link, ack *wire.NodeRegisterAck) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.link != l:
	case n.misnamed(ack):
		n.log.Warn("an answer to no registration names another node and is left aside")
	default:
		n.registered(ack)
	}
}

// chunk takes a piece of audio.
func (n *Node) chunk(frame []byte) {
	h, data, err := wire.ReadBinary(frame)
	if err != nil {
		n.log.Warn("a binary message of the scheduler cannot be read and is left aside", "error", err)
		return
	}
	n.mu.Lock()
	var job *Job
	if t := n.tasks[h.ActiveJob]; t != nil {
		job = t.job
	}
	n.mu.Unlock()
	if job != nil && h.Kind == wire.KindAudio {
		job.sound.add(h.Chunk, data, h.Last)
	}
}

// say sends over the connection there is, if there is one; the node is locked.
func (n *Node) say(f wire.Frame) {
	if n.link != nil {
		n.link.say(f)
	}
}

// milliseconds is a time the scheduler named: no longer than a day, which nothing here lasts.
func milliseconds(ms int64) time.Duration {
	const day = 24 * time.Hour
	return time.Duration(min(max(ms, 0), day.Milliseconds())) * time.Millisecond
}
