package server

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// What instances tell each other about nodes that are connected to one of them.
const (
	kindAssign      bus.Kind = "node.assign"      // a job for a node
	kindUndelivered bus.Kind = "node.undelivered" // it did not get there
	kindStop        bus.Kind = "node.stop"        // a job that a node should stop
	kindDrain       bus.Kind = "node.drain"       // what the operator wants of a node
)

// nodeLetterFor is how long such a letter is worth reading, but for an assignment: that has until its job, not being
// confirmed, is given to another node.
const nodeLetterFor = time.Minute

type assignLetter struct {
	Node   core.NodeID    `json:"node"`
	Epoch  core.Epoch     `json:"epoch"`
	Assign wire.JobAssign `json:"assign"`
}

type undeliveredLetter struct {
	Node  core.NodeID    `json:"node"`
	Epoch core.Epoch     `json:"epoch"`
	Job   wire.ActiveJob `json:"job"`
}

type stopLetter struct {
	Node core.NodeID    `json:"node"`
	Job  wire.ActiveJob `json:"job"`
}

type drainLetter struct {
	Node    core.NodeID `json:"node"`
	Drained bool        `json:"drained"`
}

// Reports is what is done with a job that did not reach its node.
type Reports interface {
	Fail(ctx context.Context, r dispatch.Report, reason core.Reason, detail string) error
}

// Join has nodes that are connected elsewhere reached from here, and those that are here by others. owner says with whom
// a node is connected. It is called before the first node.
func (l *NodeConns) Join(b *bus.Bus, owner func(core.NodeID) core.InstanceID, jobs Reports, within time.Duration) {
	l.bus, l.owner, l.within = b, owner, within
	give := undelivered(jobs)
	b.On(kindAssign, bus.Handler{Handle: bus.Decoding(l.assignHere), TakeOver: l.assignNowhere})
	b.On(kindUndelivered, bus.Handler{Async: true, Handle: give, TakeOver: func(ctx context.Context, letter *bus.Message, _ bool) error {
		return give(ctx, letter)
	}})
	b.On(kindStop, bus.Handler{Handle: bus.Decoding(l.stopHere)})
	b.On(kindDrain, bus.Handler{Handle: bus.Decoding(l.drainHere)})
}

// tell writes to whoever a node is connected with, and reports false when that is nobody.
func (l *NodeConns) tell(ctx context.Context, id core.NodeID, kind bus.Kind, body any) bool {
	if l.bus == nil {
		return false
	}
	owner := l.owner(id)
	return owner != "" && owner != l.bus.Instance() && l.bus.Send(ctx, owner, kind, nodeLetterFor, body) == nil
}

// deliverElsewhere hands a job to the instance that a node is connected with. The sound is fetched from here.
func (l *NodeConns) deliverElsewhere(ctx context.Context, owner core.InstanceID, a *wire.Assignment) error {
	if l.bus == nil || owner == "" || owner == l.bus.Instance() {
		return dispatch.ErrRefused // its connection is lost
	}
	assign := assignment(a)
	if a.Audio != nil {
		clip := l.sounds.Clip(core.JobID(a.JobID))
		if clip == nil {
			return dispatch.ErrNoAudio
		}
		assign.Audio, assign.Partials, assign.TTSUpload = a.Audio, clip.Partials, a.TTSUpload
		assign.Audio.URL = a.AudioRef
	}
	letter := assignLetter{Node: core.NodeID(a.NodeID), Epoch: core.Epoch(a.Epoch), Assign: assign}
	err := l.bus.Send(ctx, owner, kindAssign, l.within, letter)
	if errors.Is(err, bus.ErrAbsent) || errors.Is(err, bus.ErrFull) {
		return errors.Join(dispatch.ErrRefused, err)
	}
	return err
}

// assignment is what a node is sent of a job, but for its sound.
func assignment(a *wire.Assignment) wire.JobAssign {
	assign := wire.JobAssign{
		JobID: a.JobID, AttemptID: a.AttemptID, SessionID: a.SessionID, SrcLang: a.SrcLang, TgtLang: a.TgtLang,
		Options: a.Options, DeadlineMS: a.DeadlineMS, TimeoutMS: a.TimeoutMS,
	}
	if a.Audio == nil && a.AudioRef != "" {
		assign.Audio = &wire.Audio{Ref: a.AudioRef}
	}
	return assign
}

// assignHere hands a job to a node that should be connected here. If it is not, whoever sent it knows at once.
func (l *NodeConns) assignHere(ctx context.Context, letter *bus.Message, in *assignLetter) error {
	job := wire.ActiveJob{JobID: in.Assign.JobID, AttemptID: in.Assign.AttemptID}
	n := l.get(in.Node)
	if n != nil && n.life() == in.Epoch {
		n.expect(job, letter.From, in.Assign.Partials)
		if n.conn.Send(in.Assign) {
			return nil
		}
	}
	return l.returned(ctx, letter.From, undeliveredLetter{in.Node, in.Epoch, job})
}

// returned tells whoever sent a job that it did not get there. If that one is gone too, the job is found by its lease.
func (l *NodeConns) returned(ctx context.Context, to core.InstanceID, u undeliveredLetter) error {
	err := l.bus.Send(ctx, to, kindUndelivered, nodeLetterFor, u)
	if errors.Is(err, bus.ErrAbsent) || errors.Is(err, bus.ErrFull) {
		return nil
	}
	return err
}

// assignNowhere returns a job that an instance which is gone never read. One that it did read may be with the node.
func (l *NodeConns) assignNowhere(ctx context.Context, letter *bus.Message, never bool) error {
	if !never {
		return nil
	}
	return bus.Decoding(func(ctx context.Context, letter *bus.Message, in *assignLetter) error {
		return l.returned(ctx, letter.From, undeliveredLetter{in.Node, in.Epoch, wire.ActiveJob{JobID: in.Assign.JobID, AttemptID: in.Assign.AttemptID}})
	})(ctx, letter)
}

// undelivered gives a job that did not reach its node to another.
func undelivered(jobs Reports) func(context.Context, *bus.Message) error {
	return bus.Decoding(func(ctx context.Context, _ *bus.Message, in *undeliveredLetter) error {
		r := dispatch.Report{Job: core.JobID(in.Job.JobID), Holder: core.Holder{Attempt: in.Job.AttemptID, Node: in.Node, Epoch: in.Epoch}}
		err := jobs.Fail(ctx, r, core.ReasonDeliveryRefused, "")
		var e *wire.Error
		if errors.As(err, &e) && e.Code != wire.SchedulerDependencyDown && e.Code != wire.DeadlineExceeded {
			return nil // it has moved on since
		}
		return err
	})
}

func (l *NodeConns) stopHere(_ context.Context, _ *bus.Message, in *stopLetter) error {
	if n := l.get(in.Node); n != nil {
		n.conn.Send(wire.JobCancel{ActiveJob: in.Job})
	}
	return nil // else its heartbeats tell it
}

func (l *NodeConns) drainHere(_ context.Context, _ *bus.Message, in *drainLetter) error {
	if n := l.get(in.Node); n != nil {
		n.conn.Send(wire.Drain{Drained: in.Drained})
	}
	return nil
}
