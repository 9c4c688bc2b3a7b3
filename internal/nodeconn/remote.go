package nodeconn

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/wire"
)

// The messages of instances about nodes that are connected to one of them.
const (
	kindAssign      bus.Kind = "node.assign"      // deliver a job to a node
	kindUndelivered bus.Kind = "node.undelivered" // a job could not be delivered
	kindCancel      bus.Kind = "node.stop"        // cancel a job on a node
)

// messageTTL is how long such a message is of use. An assignment has less: the ACK timeout, after which its job goes to another
// node.
const messageTTL = time.Minute

type assignMessage struct {
	Node   core.NodeID    `json:"node"`
	Epoch  core.Epoch     `json:"epoch"`
	Assign wire.JobAssign `json:"assign"`
}

func (m *assignMessage) job() wire.ActiveJob {
	return wire.ActiveJob{JobID: m.Assign.JobID, AttemptID: m.Assign.AttemptID}
}

type undeliveredMessage struct {
	Node  core.NodeID    `json:"node"`
	Epoch core.Epoch     `json:"epoch"`
	Job   wire.ActiveJob `json:"job"`
}

type cancelMessage struct {
	Node core.NodeID    `json:"node"`
	Job  wire.ActiveJob `json:"job"`
}

// Failer takes back a job that did not reach its node, and gives it to another.
type Failer interface {
	Fail(ctx context.Context, r dispatch.Report, reason core.Reason, detail string) error
}

// Handlers handle the messages of other instances about nodes.
func (c *Conns) Handlers(jobs Failer) map[bus.Kind]bus.Handler {
	undelivered := handleUndelivered(jobs)
	return map[bus.Kind]bus.Handler{
		kindAssign: {Handle: bus.Decoding(c.handleAssign), TakeOver: c.takeOverAssign},
		kindUndelivered: {Async: true, Handle: undelivered, TakeOver: func(ctx context.Context, m *bus.Message, _ bool) error {
			return undelivered(ctx, m)
		}},
		kindCancel: {Handle: bus.Decoding(c.handleCancel)},
	}
}

// cancelRemote cancels a job through the instance to which its node is connected. It reports false when there is none, or the message could
// not be sent.
func (c *Conns) cancelRemote(ctx context.Context, id core.NodeID, job wire.ActiveJob) bool {
	owner := c.Owner(id)
	return owner != "" && owner != c.Bus.Instance() && c.Bus.Send(ctx, owner, kindCancel, messageTTL, cancelMessage{id, job}) == nil
}

// deliverRemote sends a job to the instance to which a node is connected. The node fetches the audio from here.
func (c *Conns) deliverRemote(ctx context.Context, owner core.InstanceID, a *wire.Assignment) error {
	if owner == "" || owner == c.Bus.Instance() {
		return dispatch.ErrRefused // the node's connection is lost
	}
	assign := jobAssign(a)
	if a.Audio != nil {
		clip := c.Audio.Clip(core.JobID(a.JobID))
		if clip == nil {
			return dispatch.ErrNoAudio
		}
		assign.Audio, assign.Partials, assign.TTSUpload = a.Audio, clip.Partials, a.TTSUpload
		assign.Audio.URL = a.AudioRef
	}
	m := assignMessage{Node: core.NodeID(a.NodeID), Epoch: core.Epoch(a.Epoch), Assign: assign}
	err := c.Bus.Send(ctx, owner, kindAssign, c.ACKTimeout, m)
	if errors.Is(err, bus.ErrAbsent) || errors.Is(err, bus.ErrFull) {
		return errors.Join(dispatch.ErrRefused, err)
	}
	return err
}

// handleAssign delivers a job to a node that should be connected here. If it is not, or the message has expired, the sender is
// notified at once: the job's lease may have been given up by now.
func (c *Conns) handleAssign(ctx context.Context, m *bus.Message, in *assignMessage) error {
	began := time.Now()
	n := c.get(in.Node)
	if n != nil && n.currentEpoch() == in.Epoch && !run.Expired(ctx) {
		n.addRemoteJob(in.job(), m.From, in.Assign.Partials)
		n.recordSent(&in.Assign)
		if n.ws.Send(in.Assign) {
			c.traceRemote(in, began, "")
			return nil
		}
		n.recordEnd(in.job())
	}
	c.traceRemote(in, began, "refused")
	return c.sendUndelivered(ctx, m.From, undeliveredMessage{in.Node, in.Epoch, in.job()})
}

// traceRemote records the delivery of a job of another instance. failure is empty if it succeeded.
func (c *Conns) traceRemote(in *assignMessage, began time.Time, failure string) {
	trace := c.Tracer.Of(core.JobID(in.Assign.JobID))
	if !trace.Sampled() {
		return
	}
	parent, valid := wire.ParseTraceparent(in.Assign.Traceparent)
	if !valid {
		return // the other instance does not trace
	}
	trace.Record(tracing.Span{
		Parent: parent.SpanID, Name: tracing.SpanDeliverRemote, Start: began, End: time.Now(), Error: failure,
		Attrs: []tracing.Attr{tracing.Text(tracing.AttrNode, in.Node), tracing.Number(tracing.AttrAttempt, in.Assign.AttemptID)},
	})
}

// sendUndelivered notifies the sender of a job that it was not delivered. If the sender is gone too, the job is found by its
// lease.
func (c *Conns) sendUndelivered(ctx context.Context, to core.InstanceID, m undeliveredMessage) error {
	err := c.Bus.Send(ctx, to, kindUndelivered, messageTTL, m)
	if errors.Is(err, bus.ErrAbsent) || errors.Is(err, bus.ErrFull) {
		return nil
	}
	return err
}

// takeOverAssign returns a job that a dead instance never fetched to its sender. A job that it did fetch may be on the node.
func (c *Conns) takeOverAssign(ctx context.Context, m *bus.Message, neverFetched bool) error {
	if !neverFetched {
		return nil
	}
	return bus.Decoding(func(ctx context.Context, m *bus.Message, in *assignMessage) error {
		return c.sendUndelivered(ctx, m.From, undeliveredMessage{in.Node, in.Epoch, in.job()})
	})(ctx, m)
}

// handleUndelivered gives a job that did not reach its node to another node.
func handleUndelivered(jobs Failer) func(context.Context, *bus.Message) error {
	return bus.Decoding(func(ctx context.Context, _ *bus.Message, in *undeliveredMessage) error {
		r := dispatch.Report{Job: core.JobID(in.Job.JobID), Holder: core.Holder{Attempt: in.Job.AttemptID, Node: in.Node, Epoch: in.Epoch}}
		err := jobs.Fail(ctx, r, core.ReasonDeliveryRefused, "")
		var e *wire.Error
		if errors.As(err, &e) && e.Code != wire.SchedulerDependencyDown && e.Code != wire.DeadlineExceeded {
			return nil // the job has moved or ended since
		}
		return err
	})
}

func (c *Conns) handleCancel(_ context.Context, _ *bus.Message, in *cancelMessage) error {
	if n := c.get(in.Node); n != nil {
		n.ws.Send(wire.JobCancel{ActiveJob: in.Job})
	}
	return nil // else the answers to the node's heartbeats cancel it
}
