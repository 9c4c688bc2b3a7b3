package node

import (
	"log/slog"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// receiver handles the messages of one connection. The goroutine that reads calls it, so it never waits for a handler.
type receiver struct {
	node *Node
	conn *connection
	log  *slog.Logger
}

// receive handles a message.
func (r *receiver) receive(m message) {
	data := m.data
	if m.kind == websocket.MessageBinary {
		r.handleAudioChunk(data)
		return
	}
	frameType, err := wire.TypeOf(data)
	if err != nil {
		r.log.Warn("ignored an invalid message of the scheduler", "error", err)
		return
	}
	switch frameType {
	case wire.JobAssign{}.Type():
		handle(r, data, r.handleAssign)
	case wire.JobResultAck{}.Type():
		handle(r, data, r.handleResultAck)
	case wire.JobCancel{}.Type():
		handle(r, data, r.handleCancel)
	case wire.NodeRegisterAck{}.Type():
		handle(r, data, r.handleRegisterAck)
	case wire.Drain{}.Type():
		handle(r, data, r.handleDrain)
	case wire.GoAway{}.Type():
		handle(r, data, func(g *wire.GoAway) {
			r.log.Info("the scheduler asks the node to reconnect", "within_ms", g.ReconnectMS)
			r.conn.goAway(g)
		})
	case wire.ErrorFrame{}.Type():
		r.handleError(data)
	case wire.Warning{}.Type():
		handle(r, data, func(w *wire.Warning) {
			r.log.Warn("warning of the scheduler", "code", string(w.Code), "detail", w.Detail)
		})
	default:
		r.log.Debug("ignored a message of an unknown type", "type", string(frameType))
	}
}

// handle decodes a message and passes it on. An invalid message is ignored.
func handle[F wire.Frame](r *receiver, data []byte, then func(*F)) {
	var f F
	if err := wire.Decode(data, &f); err != nil {
		r.log.Warn("ignored an invalid message of the scheduler", "type", string(f.Type()), "error", err)
		return
	}
	then(&f)
}

// handleError logs an error of the scheduler. A fatal error is kept for the close that follows. If a heartbeat failed for
// now, its changes are reported again.
func (r *receiver) handleError(data []byte) {
	handle(r, data, func(e *wire.ErrorFrame) {
		r.log.Warn("error of the scheduler", "code", string(e.Code), "detail", e.Detail, "reply_to", e.ReplyTo, "fatal", e.Fatal)
		switch {
		case e.Fatal:
			r.conn.recordError(&e.Error)
		case e.ReplyTo == string(wire.NodeHeartbeat{}.Type()) && e.Code.Retryable():
			r.node.mu.Lock()
			defer r.node.mu.Unlock()
			if r.node.conn == r.conn {
				r.node.declaration.reportAgain()
			}
		}
	})
}

// handleAssign answers an assignment, and notifies the author of the node where that is due.
func (r *receiver) handleAssign(a *wire.JobAssign) {
	key := wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}
	if a.JobID == "" {
		r.log.Warn("ignored an assignment without a job id")
		return
	}
	undrained, full := r.answerAssign(key, a)
	if undrained {
		r.notifyDrain(false)
	}
	if onFull := r.node.cfg.OnFull; full && onFull != nil {
		onFull(key)
	}
}

// answerAssign accepts or rejects an assignment. A repeated one is acknowledged again and executed once. It reports whether
// a drained node accepted a job, which ends the drain unless it is a probe, and whether no slot was free.
func (r *receiver) answerAssign(key wire.ActiveJob, assign *wire.JobAssign) (undrained, full bool) {
	n := r.node
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.attempts.byKey[key]
	switch {
	case a != nil && a.stage == stageRunning:
		r.conn.send(wire.JobAck{ActiveJob: key})
	case a != nil && a.stage == stageFinished:
		r.conn.send(wire.JobAck{ActiveJob: key})
		n.deliver(a)
	case a != nil && a.stage == stageCancelled: // JobCancelled follows when the handler returns
	case a != nil, n.refusing && !assign.Probe, n.leaving, n.registering, n.conn != r.conn:
		r.conn.send(wire.JobReject{ActiveJob: key, Reason: reasonBusy})
	case n.attempts.isFull(key, *n.declaration.current.MaxConcurrentJobs, n.timing.maxUnacked):
		full = true
		r.conn.send(wire.JobReject{ActiveJob: key, Reason: reasonBusy})
	default:
		n.startAttempt(r.conn, assign)
		if !assign.Probe {
			undrained, n.drained = n.drained, false
		}
	}
	return undrained, full
}

// handleResultAck ends an attempt for the node, even if its handler still runs.
func (r *receiver) handleResultAck(ack *wire.JobResultAck) {
	n := r.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if !ack.Accepted {
		r.log.Info("the scheduler did not accept an outcome", "job_id", ack.JobID, "attempt_id", ack.AttemptID, "reason", string(ack.Code))
	}
	if a := n.attempts.byKey[ack.ActiveJob]; a != nil {
		n.attempts.stop(a, stageDropped)
	}
	if n.conn != nil && !ack.Accepted {
		n.conn.discardSpeech(ack.ActiveJob)
	}
}

func (r *receiver) handleCancel(c *wire.JobCancel) {
	r.node.mu.Lock()
	defer r.node.mu.Unlock()
	r.node.cancelAttempt(r.conn, c.ActiveJob)
}

// handleRegisterAck applies an acknowledgement that the node did not ask for: the scheduler had lost the node and registered
// it again.
func (r *receiver) handleRegisterAck(ack *wire.NodeRegisterAck) {
	n := r.node
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.conn != r.conn:
	case !n.registration.accepts(ack):
		r.log.Warn("ignored a registration that names another node")
	default:
		n.applyAck(ack)
	}
}

// handleDrain stops or resumes accepting jobs. It holds for this registration only: the scheduler keeps the drain, and a
// node may miss its end while it is disconnected.
func (r *receiver) handleDrain(d *wire.Drain) {
	n := r.node
	n.mu.Lock()
	isCurrent := n.conn == r.conn
	changed := isCurrent && n.drained != d.Drained
	if isCurrent {
		n.drained, n.refusing = d.Drained, d.Drained
	}
	n.mu.Unlock()
	if changed {
		r.notifyDrain(d.Drained)
	}
}

// notifyDrain calls Config.OnDrain, without the lock.
func (r *receiver) notifyDrain(drained bool) {
	r.log.Info("the drain state of the node changed", "drained", drained)
	if onDrain := r.node.cfg.OnDrain; onDrain != nil {
		onDrain(drained)
	}
}

// handleAudioChunk adds a chunk to the audio of its job.
func (r *receiver) handleAudioChunk(frame []byte) {
	h, data, err := wire.ReadBinary(frame)
	if err != nil {
		r.log.Warn("ignored an invalid binary message of the scheduler", "error", err)
		return
	}
	r.node.mu.Lock()
	var job *Job
	if a := r.node.attempts.byKey[h.ActiveJob]; a != nil {
		job = a.job
	}
	r.node.mu.Unlock()
	if job != nil && h.Kind == wire.KindAudio {
		job.audio.add(h.Chunk, data, h.Last)
	}
}
