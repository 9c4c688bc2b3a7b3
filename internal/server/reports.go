package server

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// report reads who speaks of which attempt.
func report(ctx context.Context, in *wire.JobAckRequest) (dispatch.Report, *wire.Error) {
	var r dispatch.Report
	if e := convert.CheckID("job_id", in.JobID); e != nil {
		return r, e
	}
	if e := convert.CheckID("node_id", in.NodeID); e != nil {
		return r, e
	}
	if e := mayBe(ctx, core.NodeID(in.NodeID)); e != nil {
		return r, e
	}
	if e := convert.CheckAttempt("attempt_id", in.AttemptID); e != nil {
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
	if e := convert.CheckResult(in.Result); e != nil {
		return nil, e
	}
	if err := s.Jobs.Done(ctx, r, in.Result); err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}

func (s *Server) jobFail(ctx context.Context, in *wire.JobFailRequest) (any, error) {
	r, e := report(ctx, &in.JobAckRequest)
	if e != nil {
		return nil, e
	}
	return s.failed(ctx, r, in.Reason)
}

func (s *Server) failed(ctx context.Context, r dispatch.Report, said string) (any, error) {
	reason, detail := convert.FailureReason(said)
	if err := s.Jobs.Fail(ctx, r, reason, detail); err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}
