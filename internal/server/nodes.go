package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/wire"
)

func (s *Server) register(ctx context.Context, in *wire.RegisterRequest) (any, error) {
	if e := convert.CheckOptionalID("node_id", in.NodeID); e != nil {
		return nil, e
	}
	if e := mayBe(ctx, core.NodeID(in.NodeID)); e != nil {
		return nil, e
	}
	p, a, e := s.Read.Registration(&in.Declaration)
	if e != nil {
		return nil, e
	}
	if p.Tenant, e = convert.Tenant(grantOf(ctx), p.Tenant); e != nil {
		return nil, e
	}
	r, err := s.Nodes.Register(ctx, core.NodeID(in.NodeID), p, a)
	if err != nil {
		return nil, err
	}
	out := &wire.RegisterResponse{
		OK: true, NodeID: string(r.Node.ID), Epoch: int64(r.Node.Epoch),
		HeartbeatIntervalMS: s.Heartbeat.Milliseconds(), Cancel: convert.ActiveJobs(r.Cancel),
	}
	if !r.Node.Reachable() {
		out.Warnings = []string{"callback_url is missing: the node is registered and gets no jobs; register again with it, or connect to /ws/node"}
	}
	return out, nil
}

func (s *Server) heartbeat(ctx context.Context, in *wire.HeartbeatRequest) (any, error) {
	if e := convert.CheckID("node_id", in.NodeID); e != nil {
		return nil, e
	}
	if e := mayBe(ctx, core.NodeID(in.NodeID)); e != nil {
		return nil, e
	}
	p, e := s.Read.Declaration(&in.Declaration)
	if e != nil {
		return nil, e
	}
	if p.Tenant, e = convert.Tenant(grantOf(ctx), p.Tenant); e != nil {
		return nil, e
	}
	a, e := convert.Activity(&in.Declaration)
	if e != nil {
		return nil, e
	}
	b := nodes.Heartbeat{Node: core.NodeID(in.NodeID), Patch: p, Activity: a}
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
	return &wire.HeartbeatResponse{OK: true, Cancel: convert.ActiveJobs(cancel)}, nil
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
	if e := convert.CheckID("node_id", in.NodeID); e != nil {
		return nil, e
	}
	if e := mayBe(ctx, core.NodeID(in.NodeID)); e != nil {
		return nil, e
	}
	u, e := convert.Unavailable(in)
	if e != nil {
		return nil, e
	}
	err := s.Nodes.ReportUnavailable(ctx, u)
	if err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}

// nodeStates are those that a list of nodes can be narrowed to.
var nodeStates = []string{
	core.HealthReady.String(), core.HealthDegraded.String(), core.HealthDraining.String(), core.HealthOffline.String(), nodes.StateSilent,
}

func (s *Server) nodes(r *http.Request) (any, error) {
	q, e := readList(r.URL.Query(), "nodes", 1, maxPage, "state", "language", "region")
	if e != nil {
		return nil, e
	}
	f := nodes.Filter{State: q.Get("state"), Region: q.Get("region")}
	if f.State != "" && !slices.Contains(nodeStates, f.State) {
		return nil, wire.Invalid("state", "must be "+strings.Join(nodeStates, ", ")+", not %q", f.State)
	}
	if f.Lang, e = s.Read.OptionalLang("language", q.Get("language")); e != nil {
		return nil, e
	}
	var after core.NodeID
	if q.after != nil {
		after = core.NodeID(q.after[0])
	}
	page, more, err := s.Nodes.ListNodes(r.Context(), f, after, q.limit)
	if err != nil {
		return nil, err
	}
	out := &wire.NodeList{Nodes: make([]wire.Node, len(page))}
	for i, st := range page {
		out.Nodes[i] = convert.Node(st, s.Presence, s.Nodes.SetAsideFor(st.Node.ID))
	}
	if more {
		out.NextCursor = cursor("nodes", string(page[len(page)-1].Node.ID))
	}
	return out, nil
}

func (s *Server) node(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if e := convert.CheckID("id", id); e != nil {
		return nil, e
	}
	st, err := s.Nodes.Node(r.Context(), core.NodeID(id))
	if err != nil {
		return nil, err
	}
	return convert.Node(st, s.Presence, s.Nodes.SetAsideFor(st.Node.ID)), nil
}

// drain makes the handler that drains or resumes a node.
func (s *Server) drain(drained bool) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		id := r.PathValue("id")
		if e := convert.CheckID("id", id); e != nil {
			return nil, e
		}
		st, err := s.Nodes.Drain(r.Context(), core.NodeID(id), drained)
		if err != nil {
			return nil, err
		}
		s.NodeConns.Drain(r.Context(), core.NodeID(id), drained)
		return convert.Node(st, s.Presence, s.Nodes.SetAsideFor(st.Node.ID)), nil
	}
}
