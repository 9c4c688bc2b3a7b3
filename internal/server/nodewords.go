package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// nodeSaid takes in one message of a node. The error, if any, is about the message.
func (s *Server) nodeSaid(ctx context.Context, n *nodeLink, m socket.Message) *wire.Error {
	if m.Binary {
		return s.nodeSpoke(n, m.Data)
	}
	typ, err := wire.TypeOf(m.Data)
	if err != nil {
		return asError(err)
	}
	handle, ok := nodeMessages[typ]
	if !ok {
		return wire.Invalid("type", "there is no message %s from a node", typ)
	}
	return handle(s, ctx, n, m.Data)
}

// nodeMessages are the messages a node may send once it has registered.
var nodeMessages = map[wire.FrameType]func(*Server, context.Context, *nodeLink, []byte) *wire.Error{
	wire.NodeHeartbeat{}.Type():     on((*Server).nodeBeat),
	wire.JobAck{}.Type():            on((*Server).nodeAck),
	wire.JobReject{}.Type():         on((*Server).nodeReject),
	wire.JobPartial{}.Type():        on((*Server).nodePartial),
	wire.JobResult{}.Type():         on((*Server).nodeResult),
	wire.JobFail{}.Type():           on((*Server).nodeFail),
	wire.JobCancelled{}.Type():      on((*Server).nodeStopped),
	wire.ModelNotAvailable{}.Type(): on((*Server).nodeLacks),
}

// on makes a handler of bytes of a handler of a frame.
func on[T any](fn func(*Server, context.Context, *nodeLink, *T) *wire.Error) func(*Server, context.Context, *nodeLink, []byte) *wire.Error {
	return func(s *Server, ctx context.Context, n *nodeLink, text []byte) *wire.Error {
		var in T
		if err := wire.Decode(text, &in); err != nil {
			return asError(err)
		}
		return fn(s, ctx, n, &in)
	}
}

func (s *Server) nodeBeat(ctx context.Context, n *nodeLink, in *wire.NodeHeartbeat) *wire.Error {
	if in.CallbackURL != nil {
		return noCallback()
	}
	if in.Epoch != nil && core.Epoch(*in.Epoch) != n.life() {
		return nil // it crossed the acknowledgement of another life
	}
	p, e := s.patch(&in.Declaration)
	if e != nil {
		return e
	}
	if p.Tenant != nil && *p.Tenant != n.said.Tenant {
		return wire.Wrong(wire.Forbidden, "tenant_id", "a node does not change whose it is; register again")
	}
	a, e := activity(&in.Declaration)
	if e != nil {
		return e
	}
	b := nodes.Heartbeat{Node: n.id, Epoch: n.life(), Patch: p, Activity: a}
	if in.HBSeq != nil {
		b.Seq = *in.HBSeq
	}
	p.Apply(&n.said)
	b.Patch.Connection = n.connection
	b.Patch.Health = n.said.Health // whoever is connected and says nothing of it is as it said before
	cancel, err := s.Nodes.Heartbeat(ctx, b)
	var we *wire.Error
	if errors.As(err, &we) && we.Code == wire.NotFound {
		return s.readmit(ctx, n, a)
	}
	if err != nil {
		return asError(err)
	}
	for _, job := range cancel {
		n.conn.Send(wire.JobCancel{ActiveJob: wire.ActiveJob{JobID: string(job.Job), AttemptID: job.Attempt}})
	}
	return nil
}

// readmit registers a node that the store has forgotten, by what it has said of itself.
func (s *Server) readmit(ctx context.Context, n *nodeLink, a store.Activity) *wire.Error {
	r, err := s.Nodes.Readmit(ctx, n.said, n.connection, a)
	if err != nil {
		return asError(err)
	}
	n.mu.Lock()
	n.epoch = r.Node.Epoch
	n.mu.Unlock()
	n.conn.Send(wire.NodeRegisterAck{
		NodeID: string(n.id), Epoch: int64(r.Node.Epoch), ResumeToken: s.resumeToken(n.id, r.Node.Epoch),
		HeartbeatIntervalMS: s.Heartbeat.Milliseconds(), Status: "registered", Cancel: viewActive(r.Cancel),
	})
	return nil
}

// reportOf is a node's word about a job, in the life it is in.
func (n *nodeLink) reportOf(job *wire.ActiveJob) (dispatch.Report, *wire.Error) {
	if e := checkID("job_id", job.JobID); e != nil {
		return dispatch.Report{}, e
	}
	if e := checkAttempt("attempt_id", job.AttemptID); e != nil {
		return dispatch.Report{}, e
	}
	return dispatch.Report{
		Job: core.JobID(job.JobID), Holder: core.Holder{Attempt: job.AttemptID, Node: n.id, Epoch: n.life()},
	}, nil
}

func (s *Server) nodeAck(ctx context.Context, n *nodeLink, in *wire.JobAck) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	err := s.Jobs.Ack(ctx, r)
	if err == nil {
		return nil
	}
	if e := asError(err); e.Code == wire.SchedulerDependencyDown {
		return e // its timer looks at the lease before it judges
	}
	n.conn.Send(wire.JobCancel(*in)) // somebody else has it, or it has ended
	return nil
}

func (s *Server) nodeReject(ctx context.Context, n *nodeLink, in *wire.JobReject) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	n.over(in.ActiveJob)
	_, err := s.failed(ctx, r, in.Reason)
	return quietly(err)
}

// quietly drops an answer that a node does not wait for, unless it is about the store.
func quietly(err error) *wire.Error {
	if err == nil {
		return nil
	}
	if e := asError(err); e.Code == wire.SchedulerDependencyDown || e.Code == wire.Internal {
		return e
	}
	return nil
}

func (s *Server) nodePartial(ctx context.Context, n *nodeLink, in *wire.JobPartial) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	if s.Jobs.Holds(&r) {
		s.Sessions.Partial(in)
	} else if host := n.host(in.ActiveJob); host != "" {
		s.Sessions.PartialTo(ctx, host, in)
	}
	return nil
}

func (s *Server) nodeResult(ctx context.Context, n *nodeLink, in *wire.JobResult) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	speech, e := speechFormat("tts_audio", in.TTSAudio)
	if e == nil {
		e = checkResult(in.Result)
	}
	if e != nil {
		// Sent again it would be no better: the attempt is over.
		if _, err := s.failed(ctx, r, string(e.Code)); err != nil {
			return s.acknowledge(n, in.ActiveJob, err)
		}
		return s.acknowledge(n, in.ActiveJob, e)
	}
	if in.TTS {
		in.Result = withSpeech(in.Result, in.TTSAudio)
	}
	err := s.Jobs.Done(ctx, r, in.Result)
	if err == nil && in.TTS {
		n.speaks.expect(in.ActiveJob, speech)
	}
	return s.acknowledge(n, in.ActiveJob, err)
}

// withSpeech notes in a result that a spoken one follows, and its format if the node says it.
func withSpeech(result json.RawMessage, audio *wire.AudioFormat) json.RawMessage {
	said := make(map[string]json.RawMessage)
	_ = json.Unmarshal(result, &said) // a result that is nothing says nothing
	said["tts"] = json.RawMessage("true")
	delete(said, "tts_audio")
	if text, err := json.Marshal(audio); err == nil && audio != nil {
		said["tts_audio"] = text
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	if out.Encode(said) != nil {
		return result
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

func (s *Server) nodeFail(ctx context.Context, n *nodeLink, in *wire.JobFail) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	_, err := s.failed(ctx, r, in.Reason)
	return s.acknowledge(n, in.ActiveJob, err)
}

// acknowledge tells a node that its job is over for it. When the store could not be asked nothing is said but that: the
// node says it again.
func (s *Server) acknowledge(n *nodeLink, job wire.ActiveJob, err error) *wire.Error {
	n.over(job)
	ack := wire.JobResultAck{ActiveJob: job, Accepted: err == nil}
	if err != nil {
		e := asError(err)
		if e.Code == wire.SchedulerDependencyDown || e.Code == wire.DeadlineExceeded || e.Code == wire.Internal {
			return e
		}
		ack.Code = e.Code
	}
	n.conn.Send(ack)
	return nil
}

// nodeStopped takes in that a node has stopped a job: whatever slot it still holds for it is free.
func (s *Server) nodeStopped(ctx context.Context, n *nodeLink, in *wire.JobCancelled) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	n.over(in.ActiveJob)
	return quietly(s.Jobs.Fail(ctx, r, core.ReasonCancelled, ""))
}

func (s *Server) nodeLacks(ctx context.Context, n *nodeLink, in *wire.ModelNotAvailable) *wire.Error {
	_, err := s.modelNotAvailable(ctx, &wire.ModelNotAvailableRequest{
		NodeID: string(n.id), ServiceID: in.ServiceID, Version: in.Version, Reason: in.Reason, JobID: in.JobID, AttemptID: in.AttemptID,
	})
	if err != nil {
		return asError(err)
	}
	return nil
}

// nodeSpoke passes on a piece of a spoken result, if the result was taken from this node.
func (s *Server) nodeSpoke(n *nodeLink, frame []byte) *wire.Error {
	h, data, err := wire.ReadBinary(frame)
	if err != nil {
		return asError(err)
	}
	if h.Kind != wire.KindTTS {
		return wire.Invalid("kind", "a node sends tts")
	}
	format, owed := n.speaks.format(h.ActiveJob)
	if !owed {
		return wire.Wrong(wire.NotHolder, "job_id", "no result of attempt %d of job %s was taken from this node, or its speech has ended; drop it", h.AttemptID, h.JobID)
	}
	e := checkSpeech(&h, format, data)
	if h.Last || e != nil {
		n.speaks.done(h.ActiveJob)
	}
	if e != nil {
		s.Sessions.LoseSpeech(h.ActiveJob)
		return e
	}
	h.Audio = &format
	s.Sessions.Speak(&h, data)
	return nil
}
