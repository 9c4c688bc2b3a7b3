package server

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/wire"
)

func (s *Server) dispatch(ctx context.Context, in *wire.DispatchRequest) (any, error) {
	spec, e := s.Read.Spec(in)
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
	spec, e := s.Read.Spec(in)
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

func (s *Server) pools(r *http.Request) (any, error) {
	q, e := readList(r.URL.Query(), "pools", 2, maxPage, "language", "region", "node_id")
	if e != nil {
		return nil, e
	}
	f := nodes.PoolFilter{Region: q.Get("region"), Node: core.NodeID(q.Get("node_id"))}
	if e := convert.CheckOptionalID("node_id", string(f.Node)); e != nil {
		return nil, e
	}
	if f.Lang, e = s.Read.OptionalLang("language", q.Get("language")); e != nil {
		return nil, e
	}
	var after core.Direction
	if q.after != nil {
		after = core.Direction{Src: core.Lang(q.after[0]), Tgt: core.Lang(q.after[1])}
	}
	list, more, err := s.Nodes.ListPools(r.Context(), f, after, q.limit)
	if err != nil {
		return nil, err
	}
	out := &wire.PoolList{Pools: make([]wire.Pool, len(list)), Truncated: more}
	for i, p := range list {
		out.Pools[i] = wire.Pool{
			SrcLang: string(p.Src), TgtLang: string(p.Tgt), Nodes: p.Nodes, Ready: p.Ready, Capacity: p.Capacity, InFlight: p.InFlight,
		}
	}
	if more && len(list) > 0 {
		last := list[len(list)-1]
		out.NextCursor = cursor("pools", string(last.Src), string(last.Tgt))
	}
	return out, nil
}
