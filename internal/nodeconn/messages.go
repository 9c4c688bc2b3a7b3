package nodeconn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/compat"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// handle handles one message of a node. The error, if any, is the answer to the message.
func (s *Server) handle(ctx context.Context, n *conn, m socket.Message) *wire.Error {
	if m.Binary {
		return s.handleSpeech(n, m.Data)
	}
	typ, err := wire.TypeOf(m.Data)
	if err != nil {
		return convert.Error(err)
	}
	handle, ok := messageHandlers[typ]
	if !ok {
		return wire.Invalid("type", "there is no message %s from a node that is registered; /asyncapi.yaml lists what there is", typ)
	}
	return handle(s, ctx, n, m.Data)
}

// messageHandlers are the handlers of the messages that a registered node may send.
var messageHandlers = map[wire.FrameType]func(*Server, context.Context, *conn, []byte) *wire.Error{
	wire.NodeHeartbeat{}.Type():     decoded((*Server).handleHeartbeat),
	wire.JobAck{}.Type():            decoded((*Server).handleAck),
	wire.JobReject{}.Type():         decoded((*Server).handleReject),
	wire.JobPartial{}.Type():        decoded((*Server).handlePartial),
	wire.JobResult{}.Type():         decoded((*Server).handleResult),
	wire.JobFail{}.Type():           decoded((*Server).handleFail),
	wire.JobCancelled{}.Type():      decoded((*Server).handleCancelled),
	wire.ModelNotAvailable{}.Type(): decoded((*Server).handleUnavailable),
	wire.NodeLeave{}.Type():         decoded((*Server).handleLeave),
}

// decoded is a handler that decodes a message for fn.
func decoded[T any](fn func(*Server, context.Context, *conn, *T) *wire.Error) func(*Server, context.Context, *conn, []byte) *wire.Error {
	return func(s *Server, ctx context.Context, n *conn, text []byte) *wire.Error {
		var in T
		if err := wire.Decode(text, &in); err != nil {
			return convert.Error(err)
		}
		return fn(s, ctx, n, &in)
	}
}

func (s *Server) handleHeartbeat(ctx context.Context, n *conn, given *compat.NodeHeartbeat) *wire.Error {
	in := &given.NodeHeartbeat
	given.Translate()
	if in.CallbackURL != nil {
		return errCallback()
	}
	if in.Epoch != nil && core.Epoch(*in.Epoch) != n.currentEpoch() {
		return nil // it crossed the acknowledgement of a new epoch
	}
	c, e := s.Read.Declaration(&in.Declaration)
	if e != nil {
		return e
	}
	if c.IsOfOther(n.declared.Tenant) {
		return wire.FieldErrorf(wire.Forbidden, "tenant_id", "a node does not change its tenant; register again")
	}
	a, e := convert.Activity(&in.Declaration)
	if e != nil {
		return e
	}
	c.Apply(&n.declared.Declaration)
	c.Health = n.declared.Health // a heartbeat without health repeats the last one
	b := nodes.Heartbeat{Node: n.id, Epoch: n.currentEpoch(), Change: c, Caller: nodes.Caller{Connection: n.connection}, Activity: a}
	if in.HBSeq != nil {
		b.Seq = *in.HBSeq
	}
	beat, err := s.Nodes.Heartbeat(ctx, b)
	var we *wire.Error
	if errors.As(err, &we) && we.Code == wire.NotFound {
		return s.readmit(ctx, n, a)
	}
	if err != nil {
		return convert.Error(err)
	}
	n.presence.recordBeat(a.Lists)
	for _, job := range beat.Cancel {
		n.ws.Send(wire.JobCancel{ActiveJob: wire.ActiveJob{JobID: string(job.Job), AttemptID: job.Attempt}})
	}
	return nil
}

// readmit registers a node that the store has lost, by what it has declared so far.
func (s *Server) readmit(ctx context.Context, n *conn, a store.Activity) *wire.Error {
	r, err := s.Nodes.RestoreNode(ctx, n.declared, n.secret, n.connection, a)
	if err != nil {
		return convert.Error(err)
	}
	n.setEpoch(r.Node.Epoch)
	n.presence.recordBeat(a.Lists)
	n.ws.Send(wire.NodeRegisterAck{
		NodeID: string(n.id), Epoch: int64(r.Node.Epoch), ResumeToken: resumeToken(r.Node.Epoch, n.secret),
		HeartbeatIntervalMS: s.HeartbeatInterval.Milliseconds(), Status: "registered", Cancel: convert.ActiveJobs(r.Cancel),
	})
	if r.Node.Drained {
		n.ws.Send(wire.Drain{Drained: true})
	}
	s.correctDrain(n, r.Node.Drained)
	return nil
}

// correctDrain notifies a node that was drained or resumed while it was being registered: Conns.Drain did not find it, or notified it
// before it was acknowledged.
func (s *Server) correctDrain(n *conn, notified bool) {
	if drained, known := s.Nodes.IsDrained(n.id); known && drained != notified {
		n.ws.Send(wire.Drain{Drained: drained})
	}
}

// reportOf is the report of a node about an attempt, in its current epoch. The node has the job then.
func (n *conn) reportOf(job *wire.ActiveJob) (dispatch.Report, *wire.Error) {
	n.recordAnswer(*job)
	if e := convert.CheckID("job_id", job.JobID); e != nil {
		return dispatch.Report{}, e
	}
	if e := convert.CheckAttempt("attempt_id", job.AttemptID); e != nil {
		return dispatch.Report{}, e
	}
	return dispatch.Report{
		Job: core.JobID(job.JobID), Holder: core.Holder{Attempt: job.AttemptID, Node: n.id, Epoch: n.currentEpoch()},
		Tenant: n.declared.Tenant,
	}, nil
}

func (s *Server) handleAck(ctx context.Context, n *conn, in *wire.JobAck) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	err := s.Jobs.Reports.Ack(ctx, r)
	if err == nil {
		return nil
	}
	switch e := convert.Error(err); e.Code {
	case wire.SchedulerDependencyDown:
		return aboutJob(e, in.ActiveJob) // the ACK timer reads the lease before it decides
	case wire.NotFound:
		return nil // the store may have been emptied: the node's next list of jobs decides
	}
	n.ws.Send(wire.JobCancel(*in)) // another node has the job, or it has ended
	return nil
}

// aboutJob returns an error that names the job of the message that it answers: a node may have sent several.
func aboutJob(e *wire.Error, job wire.ActiveJob) *wire.Error {
	named := *e
	named.JobID = job.JobID
	return &named
}

func (s *Server) handleReject(ctx context.Context, n *conn, in *wire.JobReject) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	n.recordEnd(in.ActiveJob)
	return onlyStoreErrors(s.fail(ctx, r, in.Reason))
}

// onlyStoreErrors drops an answer that a node does not wait for, unless the store failed.
func onlyStoreErrors(err error) *wire.Error {
	if err == nil {
		return nil
	}
	if e := convert.Error(err); e.Code == wire.SchedulerDependencyDown || e.Code == wire.Internal {
		return e
	}
	return nil
}

func (s *Server) handlePartial(ctx context.Context, n *conn, in *wire.JobPartial) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	if e := convert.CheckPartial(in); e != nil {
		return e
	}
	if !n.admitPartial(in.ActiveJob) {
		return nil
	}
	if s.Jobs.Reports.IsHolder(&r) {
		s.Jobs.RecordPartial(r.Job, r.Attempt)
		s.Sessions.DeliverPartial(in)
	} else if to := n.partialReceiver(in.ActiveJob); to != "" {
		s.Sessions.SendPartial(ctx, to, in)
	}
	return nil
}

func (s *Server) handleResult(ctx context.Context, n *conn, in *wire.JobResult) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	speech, e := audio.SpeechFormat("tts_audio", in.TTSAudio)
	if e == nil {
		e = convert.CheckResult(in.Result)
	}
	if e != nil {
		// A repeat would be refused again: the attempt has failed.
		if err := s.fail(ctx, r, string(e.Code)); err != nil {
			return s.acknowledge(n, in.ActiveJob, err)
		}
		return s.acknowledge(n, in.ActiveJob, e)
	}
	if in.TTS {
		in.Result = withSpeech(in.Result, in.TTSAudio)
	}
	err := s.Jobs.Reports.Done(ctx, r, in.Result)
	if err == nil && in.TTS {
		n.speech.add(in.ActiveJob, speech)
	}
	return s.acknowledge(n, in.ActiveJob, err)
}

// withSpeech adds to a result that a spoken one follows, and its format if the node names it.
func withSpeech(result json.RawMessage, format *wire.AudioFormat) json.RawMessage {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(result, &fields) // an empty result has no fields
	if fields == nil {
		fields = make(map[string]json.RawMessage) // null sets the map to nil
	}
	fields["tts"] = json.RawMessage("true")
	delete(fields, "tts_audio")
	if text, err := json.Marshal(format); err == nil && format != nil {
		fields["tts_audio"] = text
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	if out.Encode(fields) != nil {
		return result
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

func (s *Server) handleFail(ctx context.Context, n *conn, in *wire.JobFail) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	err := s.fail(ctx, r, in.Reason)
	return s.acknowledge(n, in.ActiveJob, err)
}

// acknowledge acknowledges the outcome of an attempt. If the store failed the answer is that error, and the node repeats the
// outcome.
func (s *Server) acknowledge(n *conn, job wire.ActiveJob, err error) *wire.Error {
	n.recordEnd(job)
	ack := wire.JobResultAck{ActiveJob: job, Accepted: err == nil}
	if err != nil {
		e := convert.Error(err)
		if e.Code == wire.SchedulerDependencyDown || e.Code == wire.DeadlineExceeded || e.Code == wire.Internal {
			return aboutJob(e, job)
		}
		ack.Code, ack.Detail = e.Code, e.Detail
	}
	n.ws.Send(ack)
	return nil
}

// handleCancelled handles that a node has stopped a job: the slot that it still holds is free.
func (s *Server) handleCancelled(ctx context.Context, n *conn, in *wire.JobCancelled) *wire.Error {
	r, e := n.reportOf(&in.ActiveJob)
	if e != nil {
		return e
	}
	n.recordEnd(in.ActiveJob)
	return onlyStoreErrors(s.Jobs.Reports.Fail(ctx, r, core.ReasonCancelled, ""))
}

func (s *Server) handleUnavailable(ctx context.Context, n *conn, in *wire.ModelNotAvailable) *wire.Error {
	u, e := convert.Unavailable(&wire.ModelNotAvailableRequest{
		NodeID: string(n.id), ServiceID: in.ServiceID, Version: in.Version, Reason: in.Reason, JobID: in.JobID, AttemptID: in.AttemptID,
	})
	if e != nil {
		return e
	}
	if err := s.Nodes.ReportUnavailable(ctx, u); err != nil {
		return convert.Error(err)
	}
	return nil
}

// handleLeave removes a node that stops. If the store does not answer, the node is lost with its connection instead.
func (s *Server) handleLeave(ctx context.Context, n *conn, _ *wire.NodeLeave) *wire.Error {
	defer s.Conns.lockNode(n.id)()
	if s.Conns.get(n.id) != n {
		return nil // the node has another connection, over which it has not left
	}
	if err := s.Nodes.Leave(ctx, n.id, n.currentEpoch()); err != nil {
		e := convert.Error(err)
		n.audit(actionLeave, string(n.id), n.declared.Tenant, e)
		return e
	}
	n.audit(actionLeave, string(n.id), n.declared.Tenant, nil)
	s.Conns.forget(n)
	n.ws.Close(wire.CloseNormal, nil)
	return nil
}

// fail reports the failure of an attempt to the dispatcher.
func (s *Server) fail(ctx context.Context, r dispatch.Report, nodeReason string) error {
	reason, detail := convert.FailureReason(nodeReason)
	return s.Jobs.Reports.Fail(ctx, r, reason, detail)
}

// handleSpeech sends a piece of a spoken result on, if the result was accepted from this node.
func (s *Server) handleSpeech(n *conn, frame []byte) *wire.Error {
	h, data, err := wire.ReadBinary(frame)
	if err != nil {
		return convert.Error(err)
	}
	if h.Kind != wire.KindTTS {
		return wire.Invalid("kind", "a node sends tts")
	}
	format, expected := n.speech.format(h.ActiveJob)
	if !expected {
		e := wire.FieldErrorf(wire.NotHolder, "job_id",
			"no result of attempt %d of job %s with \"tts\": true was accepted from this node, or its speech has ended; drop it",
			h.AttemptID, h.JobID)
		return aboutJob(e, h.ActiveJob)
	}
	e := audio.CheckSpeech(&h, format, data)
	if h.Last || e != nil {
		n.speech.remove(h.ActiveJob)
	}
	if e != nil {
		s.Sessions.LoseSpeech(h.ActiveJob)
		return e
	}
	h.Audio = &format
	s.Sessions.DeliverSpeech(&h, data)
	return nil
}
