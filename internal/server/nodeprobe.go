package server

import (
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

func (h *nodeHandlers) probeRoute() route {
	return route{
		method: "POST", path: "/v1/nodes/{id}/probe", rule: operators, action: "node.probe", tag: "nodes",
		summary: "Send a synthetic utterance through a node",
		description: "Reserves a slot of this node, delivers a moment of silence to it as it delivers every job, and answers when the " +
			"node has sent a result, has failed or has taken too long. Works also while the node is drained or ejected; no other node " +
			"gets the job. A probe counts in no statistics, and neither for nor against the node. The body may be absent.",
		handler: handler{h.serveProbe, reflect.TypeFor[wire.ProbeRequest](), reflect.TypeFor[wire.ProbeResult]()}, stream: true,
		optionalBody: true,
		params:       []param{idParam("The node's name.")},
		codes: []wire.Code{
			wire.NotFound, wire.AllCandidatesFullOrFailed, wire.PreferredNodeNotCapable, wire.RateLimited, wire.SchedulerDependencyDown,
			wire.DeadlineExceeded,
		},
	}
}

const (
	minProbeTimeout     = 100 * time.Millisecond
	defaultProbeTimeout = 10 * time.Second
	maxProbeTimeout     = time.Minute
)

// serve decodes the body, if there is one.
func (h *nodeHandlers) serveProbe(w http.ResponseWriter, r *http.Request) {
	var in wire.ProbeRequest
	if hasBody(r) {
		if err := readBody(w, r, &in); err != nil {
			h.writeError(w, err)
			return
		}
	}
	out, err := h.probe(r, &in)
	if err != nil {
		h.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// hasBody reports whether a request has a body. One without a type and without content has none, whatever its length was announced to be.
func hasBody(r *http.Request) bool {
	if r.ContentLength == 0 || r.Header.Get("Content-Type") != "" {
		return r.ContentLength != 0
	}
	var first [1]byte
	_, err := io.ReadFull(r.Body, first[:])
	return err == nil
}

func (h *nodeHandlers) probe(r *http.Request, in *wire.ProbeRequest) (*wire.ProbeResult, error) {
	id, ctx := r.PathValue("id"), r.Context()
	p := &dispatch.TestJobParams{Node: core.NodeID(id), Timeout: defaultProbeTimeout}
	if in.TimeoutMS != 0 {
		if in.TimeoutMS < minProbeTimeout.Milliseconds() || in.TimeoutMS > maxProbeTimeout.Milliseconds() {
			return nil, wire.Invalid("timeout_ms", "must be between %d and %d", minProbeTimeout.Milliseconds(),
				maxProbeTimeout.Milliseconds())
		}
		p.Timeout = time.Duration(in.TimeoutMS) * time.Millisecond
	}
	var e *wire.Error
	if p.Direction, e = h.probeDirection(in); e != nil {
		return nil, e
	}
	st, err := h.registry.Node(ctx, p.Node)
	if err != nil {
		return nil, err
	}
	callOf(ctx).concerns("node", id, st.Node.Tenant)
	p.Tenant = st.Node.Tenant
	if p.Direction == (core.Direction{}) {
		first := st.Node.Directions(1)
		if len(first) == 0 {
			return nil, wire.FieldErrorf(wire.PreferredNodeNotCapable, "node_id", "node %s serves no direction", id)
		}
		p.Direction = first[0]
	}
	out, err := h.dispatcher.RunTestJob(ctx, p)
	if err != nil {
		return nil, err
	}
	view := viewTestJob(out)
	if !view.OK {
		callOf(ctx).reason = view.Reason
	}
	return view, nil
}

// direction converts the direction of a probe, which may be absent.
func (h *nodeHandlers) probeDirection(in *wire.ProbeRequest) (d core.Direction, e *wire.Error) {
	switch {
	case in.SrcLang == "" && in.TgtLang == "":
		return d, nil
	case in.SrcLang == "":
		return d, wire.Invalid("src_lang", "is missing: a direction has a source and a target")
	case in.TgtLang == "":
		return d, wire.Invalid("tgt_lang", "is missing: a direction has a source and a target")
	}
	if d.Src, e = h.read.Lang("src_lang", in.SrcLang); e != nil {
		return d, e
	}
	if d.Tgt, e = h.read.Lang("tgt_lang", in.TgtLang); e != nil {
		return d, e
	}
	if d.Src == d.Tgt {
		return d, wire.Invalid("tgt_lang", "is the same language as src_lang (%s)", d.Src)
	}
	return d, nil
}
