package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func (s *Server) register(ctx context.Context, in *wire.RegisterRequest) (any, error) {
	if e := checkOptionalID("node_id", in.NodeID); e != nil {
		return nil, e
	}
	if in.SemanticLangs == nil {
		return nil, wire.Invalid("semantic_langs", "is missing: list the languages the node can repair")
	}
	if in.MaxConcurrentJobs == nil {
		return nil, wire.Invalid("max_concurrent_jobs", "is missing: say how many jobs the node takes at once")
	}
	p, e := s.patch(&in.Declaration)
	if e != nil {
		return nil, e
	}
	a, e := activity(&in.Declaration)
	if e != nil {
		return nil, e
	}
	r, err := s.Nodes.Register(ctx, core.NodeID(in.NodeID), p, a)
	if err != nil {
		return nil, err
	}
	return &wire.RegisterResponse{
		OK: true, NodeID: string(r.Node.ID), Epoch: int64(r.Node.Epoch),
		HeartbeatIntervalMS: s.Heartbeat.Milliseconds(), Cancel: viewActive(r.Cancel),
	}, nil
}

func (s *Server) heartbeat(ctx context.Context, in *wire.HeartbeatRequest) (any, error) {
	if e := checkID("node_id", in.NodeID); e != nil {
		return nil, e
	}
	p, e := s.patch(&in.Declaration)
	if e != nil {
		return nil, e
	}
	a, e := activity(&in.Declaration)
	if e != nil {
		return nil, e
	}
	b := nodes.Beat{Node: core.NodeID(in.NodeID), Patch: p, Activity: a}
	if b.Epoch, e = epoch(in.Epoch); e != nil {
		return nil, e
	}
	if in.HBSeq != nil {
		if *in.HBSeq == 0 {
			return nil, wire.Invalid("hb_seq", "counts from 1")
		}
		b.Seq = *in.HBSeq
	}
	cancel, err := s.Nodes.Heartbeat(ctx, b)
	if err != nil {
		return nil, err
	}
	return &wire.HeartbeatResponse{OK: true, Cancel: viewActive(cancel)}, nil
}

// epoch reads an epoch that may be absent.
func epoch(given *int64) (core.Epoch, *wire.Error) {
	if given == nil {
		return 0, nil
	}
	if *given <= 0 {
		return 0, wire.Invalid("epoch", "must be the number that registration answered, not %d", *given)
	}
	return core.Epoch(*given), nil
}

func (s *Server) modelNotAvailable(ctx context.Context, in *wire.ModelNotAvailableRequest) (any, error) {
	if e := checkID("node_id", in.NodeID); e != nil {
		return nil, e
	}
	if e := checkOptionalID("job_id", in.JobID); e != nil {
		return nil, e
	}
	if in.ServiceID == "" || len(in.ServiceID) > maxName {
		return nil, wire.Invalid("service_id", "must be 1 to %d characters", maxName)
	}
	if in.JobID != "" {
		if e := checkAttempt("attempt_id", in.AttemptID); e != nil {
			return nil, e
		}
	}
	err := s.Nodes.Missing(ctx, nodes.Unavailable{
		Node: core.NodeID(in.NodeID), Service: in.ServiceID, Detail: nodeReason(in.Reason),
		Job: core.JobID(in.JobID), Attempt: in.AttemptID,
	})
	if err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}

func (s *Server) dispatch(ctx context.Context, in *wire.DispatchRequest) (any, error) {
	spec, e := s.spec(in)
	if e != nil {
		return nil, e
	}
	r := dispatch.Request{Spec: spec}
	if r.Request == "" {
		r.Request, r.Unique = newRequestID(), true
	}
	p, err := s.Jobs.Dispatch(ctx, r)
	if err != nil {
		return nil, err
	}
	return &wire.DispatchResponse{JobID: string(p.Job), NodeID: string(p.Node), AttemptID: p.Attempt}, nil
}

// newRequestID makes a request id for a caller that gave none: as random as the runtime's generator, which
// is not predictable from its output.
func newRequestID() core.RequestID {
	var random [16]byte
	binary.NativeEndian.PutUint64(random[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(random[8:], rand.Uint64())
	id := make([]byte, 0, 4+2*len(random))
	return core.RequestID(hex.AppendEncode(append(id, "req-"...), random[:]))
}

// maxExplained is how many nodes an explanation lists.
const maxExplained = 1000

func (s *Server) explain(ctx context.Context, in *wire.DispatchRequest) (any, error) {
	spec, e := s.spec(in)
	if e != nil {
		return nil, e
	}
	x, err := s.Jobs.Explain(ctx, spec, maxExplained)
	if err != nil {
		return nil, err
	}
	out := &wire.ExplainResponse{
		SrcLang: string(spec.Direction.Src), TgtLang: string(spec.Direction.Tgt),
		Verdict: cmp.Or(string(x.Verdict), "OK"), Detail: x.Detail, Truncated: x.Truncated,
		Reasons: make(map[string]int, len(x.Reasons)), Nodes: make([]wire.ExplainNode, len(x.Nodes)),
	}
	for reason, n := range x.Reasons {
		out.Reasons[string(reason)] = n
	}
	for i, n := range x.Nodes {
		out.Nodes[i] = wire.ExplainNode{
			NodeID: string(n.Node.ID), Eligible: n.Reason == core.ReasonNone, Reason: string(n.Reason), Preference: n.Reason.Soft(),
			InFlight: n.InFlight(), MaxConcurrentJobs: n.Node.MaxJobs,
		}
	}
	return out, nil
}

// report reads who speaks of which attempt.
func report(in *wire.JobAckRequest) (dispatch.Report, *wire.Error) {
	var r dispatch.Report
	if e := checkID("job_id", in.JobID); e != nil {
		return r, e
	}
	if e := checkID("node_id", in.NodeID); e != nil {
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
	r, e := report(in)
	if e != nil {
		return nil, e
	}
	if err := s.Jobs.Ack(ctx, r); err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}

func (s *Server) done(ctx context.Context, in *wire.JobDoneRequest) (any, error) {
	r, e := report(&in.JobAckRequest)
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
	switch body := bytes.TrimSpace(result); {
	case len(body) == 0, string(body) == "null":
		return nil
	case body[0] != '{':
		return wire.Invalid("result", "must be an object")
	case len(body) > maxResult:
		return wire.Invalid("result", "is larger than %d bytes", maxResult)
	}
	return nil
}

func (s *Server) jobFail(ctx context.Context, in *wire.JobFailRequest) (any, error) {
	r, e := report(&in.JobAckRequest)
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

func (s *Server) nodes(r *http.Request) (any, error) {
	all, err := s.Nodes.All(r.Context())
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b store.NodeStatus) int { return cmp.Compare(a.Node.ID, b.Node.ID) })
	out := &wire.NodeList{Nodes: make([]wire.Node, len(all))}
	for i, st := range all {
		out.Nodes[i] = s.viewNode(st)
	}
	return out, nil
}

func (s *Server) node(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if e := checkID("id", id); e != nil {
		return nil, e
	}
	st, err := s.Nodes.Node(r.Context(), core.NodeID(id))
	if err != nil {
		return nil, err
	}
	return s.viewNode(st), nil
}

// drain makes the handler that drains or resumes a node.
func (s *Server) drain(drained bool) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		id := r.PathValue("id")
		if e := checkID("id", id); e != nil {
			return nil, e
		}
		st, err := s.Nodes.Drain(r.Context(), core.NodeID(id), drained)
		if err != nil {
			return nil, err
		}
		return s.viewNode(st), nil
	}
}

const (
	fewJobs  = 100
	manyJobs = 1000
)

func (s *Server) jobs(r *http.Request) (any, error) {
	q := r.URL.Query()
	p := store.ListParams{Node: core.NodeID(q.Get("node_id")), Session: core.SessionID(q.Get("session_id")), Limit: fewJobs}
	if e := checkOptionalID("node_id", string(p.Node)); e != nil {
		return nil, e
	}
	if e := checkOptionalID("session_id", string(p.Session)); e != nil {
		return nil, e
	}
	if name := q.Get("state"); name != "" {
		state, err := core.ParseState(name)
		if err != nil {
			return nil, wire.Invalid("state", "%s", err)
		}
		p.State = state
	}
	if limit := q.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > manyJobs {
			return nil, wire.Invalid("limit", "must be a number between 1 and %d", manyJobs)
		}
		p.Limit = n
	}
	list, err := s.Jobs.Jobs(r.Context(), p)
	if err != nil {
		return nil, err
	}
	out := &wire.JobList{Jobs: make([]wire.Job, len(list))}
	for i := range list {
		out.Jobs[i] = viewJob(list[i])
	}
	return out, nil
}

func (s *Server) job(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if e := checkID("id", id); e != nil {
		return nil, e
	}
	j, err := s.Jobs.Job(r.Context(), core.JobID(id))
	if err != nil {
		return nil, err
	}
	return viewJob(j), nil
}

func (s *Server) cancel(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if e := checkID("id", id); e != nil {
		return nil, e
	}
	j, cancelled, err := s.Jobs.Cancel(r.Context(), core.JobID(id))
	if err != nil {
		return nil, err
	}
	return &wire.CancelResponse{OK: true, Cancelled: cancelled, Job: viewJob(j)}, nil
}

func (s *Server) pools(r *http.Request) (any, error) {
	list, truncated, err := s.Nodes.Pools(r.Context())
	if err != nil {
		return nil, err
	}
	out := &wire.PoolList{Pools: make([]wire.Pool, len(list)), Truncated: truncated}
	for i, p := range list {
		out.Pools[i] = wire.Pool{
			SrcLang: string(p.Src), TgtLang: string(p.Tgt), Nodes: p.Nodes, Ready: p.Ready, Capacity: p.Capacity, InFlight: p.InFlight,
		}
	}
	return out, nil
}

func (s *Server) health(*http.Request) (any, error) { return &wire.HealthResponse{Status: "ok"}, nil }

func (s *Server) version(*http.Request) (any, error) { return &s.Version, nil }

// ready answers whether new work should come here.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	out := &wire.ReadyResponse{Ready: true}
	switch {
	case s.stopping.Load():
		out.Ready, out.Reason = false, "it is shutting down"
	case s.Ping(r.Context()) != nil:
		out.Ready, out.Reason = false, "the shared store does not answer"
	}
	status := http.StatusOK
	if !out.Ready {
		status = http.StatusServiceUnavailable
	}
	write(w, status, out)
}

func (s *Server) spec31(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(s.openapi)
}
