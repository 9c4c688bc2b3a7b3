package server

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// report reads who speaks of which attempt.
func report(ctx context.Context, in *wire.JobAckRequest) (dispatch.Report, *wire.Error) {
	var r dispatch.Report
	if e := checkID("job_id", in.JobID); e != nil {
		return r, e
	}
	if e := checkID("node_id", in.NodeID); e != nil {
		return r, e
	}
	if e := mayBe(ctx, core.NodeID(in.NodeID)); e != nil {
		return r, e
	}
	if e := checkAttempt("attempt_id", in.AttemptID); e != nil {
		return r, e
	}
	ep, e := epoch(in.Epoch)
	if e != nil {
		return r, e
	}
	return dispatch.Report{
		Job:    core.JobID(in.JobID),
		Holder: core.Holder{Attempt: in.AttemptID, Node: core.NodeID(in.NodeID), Epoch: ep},
	}, nil
}

func (s *Server) ack(ctx context.Context, in *wire.JobAckRequest) (any, error) {
	r, e := report(ctx, in)
	if e != nil {
		return nil, e
	}
	if err := s.Jobs.Ack(ctx, r); err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}

func (s *Server) done(ctx context.Context, in *wire.JobDoneRequest) (any, error) {
	r, e := report(ctx, &in.JobAckRequest)
	if e != nil {
		return nil, e
	}
	if in.Status != "" && in.Status != "ok" {
		return s.failed(ctx, r, in.Reason)
	}
	if e := checkResult(in.Result); e != nil {
		return nil, e
	}
	if err := s.Jobs.Done(ctx, r, in.Result); err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}

func checkResult(result json.RawMessage) *wire.Error {
	body := bytes.TrimSpace(result)
	switch {
	case len(body) == 0, string(body) == "null":
		return nil
	case body[0] != '{':
		return wire.Invalid("result", "must be an object")
	case !session.Fits(body):
		return wire.Wrong(wire.PayloadTooLarge, "result", "it does not fit into a message of %d bytes, in which its texts are twice: send less", wire.MaxFrame)
	}
	var said struct {
		TTSAudio *wire.AudioFormat `json:"tts_audio"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return wire.Invalid("result.tts_audio", "must be an object with encoding, sample_rate and channels")
	}
	_, e := speechFormat("result.tts_audio", said.TTSAudio)
	return e
}

func (s *Server) jobFail(ctx context.Context, in *wire.JobFailRequest) (any, error) {
	r, e := report(ctx, &in.JobAckRequest)
	if e != nil {
		return nil, e
	}
	return s.failed(ctx, r, in.Reason)
}

func (s *Server) failed(ctx context.Context, r dispatch.Report, said string) (any, error) {
	reason := core.ReasonNodeFailed
	switch core.Reason(said) {
	case core.ReasonNodeBusy:
		reason = core.ReasonNodeBusy
	case core.ReasonModelNotAvailable:
		reason = core.ReasonModelNotAvailable
	}
	if err := s.Jobs.Fail(ctx, r, reason, nodeReason(said)); err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}

// nodeReason keeps a node's own word for a failure if it is a name, and drops it if it is prose: prose may
// hold what somebody said.
func nodeReason(said string) string {
	if !core.ValidID(said) {
		return ""
	}
	return said
}
