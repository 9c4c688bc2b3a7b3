package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/compat"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// nodeHandlers handle the requests of nodes about themselves, and those of operators about nodes.
type nodeHandlers struct {
	responder
	registry            *nodes.Registry
	dispatcher          *dispatch.Dispatcher
	verifier            *nodes.Verifier
	read                *convert.Reader
	heartbeat, presence time.Duration
	series              *stats.NodeSeries
	table               *stats.NodeTable
	refused             *refusedNodes
	peers               *peerLists
	bulk                *bulkGate
}

func (h *nodeHandlers) routes() []route {
	return []route{
		h.seriesRoute(), h.tableRoute(), h.probeRoute(), h.refusedRoute(), h.drainManyRoute(), h.resumeManyRoute(),
		{
			method: "POST", path: "/v1/node/register", rule: nodesOnly, action: actionRegister, registers: true, tag: "nodes",
			summary: "Register a node",
			description: "Begins a new epoch of the node. Jobs that it lists as active stay with it; all others that it had are given " +
				"to other nodes.",
			handler: described[wire.RegisterRequest](handleBody(h.responder, h.register)),
			codes:   []wire.Code{wire.NameInUse, wire.RateLimited, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/node/heartbeat", rule: nodesOnly, tag: "nodes", summary: "Send a heartbeat",
			description: "Renews the node's presence and its leases, and applies the changes of its declaration. The answer names the " +
				"jobs that it should cancel. A heartbeat with everything that a registration needs registers a node that is not known.",
			handler: described[wire.HeartbeatRequest](handleBody(h.responder, h.handleHeartbeat)),
			codes:   []wire.Code{wire.NotFound, wire.StaleEpoch, wire.NameInUse, wire.RateLimited, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/node/model_not_available", rule: nodesOnly, tag: "nodes",
			summary: "Report that a service is unavailable",
			description: "Accepted at once. Soon after, and for a while, the service, or the version of it that is named, counts as not " +
				"ready on the node; if the node reports too often, it is not marked any more. The job that failed because of it, if one " +
				"is named, is given to another node at once in any case.",
			handler: handleBody(h.responder, h.reportUnavailable),
			codes:   []wire.Code{wire.NotFound, wire.StaleAttempt, wire.NotHolder, wire.SchedulerDependencyDown},
		},
		{
			method: "GET", path: "/v1/nodes", rule: readers, tag: "nodes", summary: "List the nodes, ordered by name",
			handler: handle(h.responder, h.list), codes: []wire.Code{wire.SchedulerDependencyDown},
			params: listParams("1000",
				param{name: "state", description: "Only nodes in this state: ready, degraded, draining, offline or silent.",
					kind: "string"},
				param{name: "language", description: "Only nodes that have this language, for any step.", kind: "string"},
				param{name: "region", description: "Only nodes of this region.", kind: "string"},
			),
		},
		{
			method: "GET", path: "/v1/nodes/{id}", rule: readers, tag: "nodes", summary: "Show a node", handler: handle(h.responder, h.get),
			params: []param{idParam("The node's name.")},
			codes:  []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
		{
			method: "DELETE", path: "/v1/nodes/{id}", rule: operators, action: "node.remove", tag: "nodes", summary: "Remove a node",
			description: "The node is removed at once, with its drain, and its jobs are given to other nodes. A node that still runs " +
				"registers again: stop it first, or drain it instead.",
			handler: handle(h.responder, h.remove), params: []param{idParam("The node's name.")},
			codes: []wire.Code{wire.NotFound, wire.StaleEpoch, wire.SchedulerDependencyDown},
		},
		{
			method: "POST", path: "/v1/nodes/{id}/drain", rule: operators, action: "node.drain", tag: "nodes", summary: "Drain a node",
			description: "The node gets no new jobs and keeps those that it has. The drain outlasts registrations of the node.",
			handler:     handle(h.responder, h.drainOrTry), params: []param{idParam("The node's name."), dryRunParam},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown, wire.DeadlineExceeded},
		},
		{
			method: "GET", path: "/v1/nodes/{id}/drain_effect", rule: fleetReaders, tag: "nodes",
			summary: "Show what would be missing without a node",
			description: "The same as drain_effect of POST /v1/nodes/{id}/drain?dry_run=true. Use this if instances of an older version " +
				"may answer: they do not know dry_run, and drain the node.",
			handler: handle(h.responder, h.drainEffect), params: []param{idParam("The node's name.")},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown, wire.DeadlineExceeded},
		},
		{
			method: "POST", path: "/v1/nodes/{id}/resume", rule: operators, action: "node.resume", tag: "nodes",
			summary: "End the drain of a node", handler: handle(h.responder, h.drain(false)), params: []param{idParam("The node's name.")},
			codes: []wire.Code{wire.NotFound, wire.SchedulerDependencyDown},
		},
	}
}

// actionRegister is the action of a registration, and of a heartbeat that registers.
const actionRegister = "node.register"

func (h *nodeHandlers) register(ctx context.Context, given *compat.RegisterRequest) (*wire.RegisterResponse, error) {
	in := &given.RegisterRequest
	warnings := given.Translate()
	if e := convert.CheckOptionalID("node_id", in.NodeID); e != nil {
		return nil, e
	}
	if e := checkNode(ctx, core.NodeID(in.NodeID)); e != nil {
		return nil, e
	}
	c, a, e := h.read.Registration(&in.Declaration)
	if e != nil {
		return nil, e
	}
	if e := convert.SetTenant(principalOf(ctx), &c); e != nil {
		return nil, e
	}
	by := nodes.Caller{MaxNodes: principalOf(ctx).MaxNodes}
	if by.Secret, e = nodeToken(in.NodeToken); e != nil {
		return nil, e
	}
	r, err := h.registry.Register(ctx, core.NodeID(in.NodeID), c, by, a)
	if err != nil {
		return nil, err
	}
	callOf(ctx).concerns("node", string(r.Node.ID), r.Node.Tenant)
	out := &wire.RegisterResponse{
		OK: true, NodeID: string(r.Node.ID), Epoch: int64(r.Node.Epoch), NodeToken: r.Secret,
		HeartbeatIntervalMS: h.heartbeat.Milliseconds(), Cancel: convert.ActiveJobs(r.Cancel), Warnings: warnings,
	}
	if !r.Node.Reachable() {
		out.Warnings = append(out.Warnings,
			"callback_url is missing: the node is registered and gets no jobs; register again with it, or connect to /ws/node")
	}
	return out, nil
}

func (h *nodeHandlers) handleHeartbeat(ctx context.Context, given *compat.HeartbeatRequest) (*wire.HeartbeatResponse, error) {
	in := &given.HeartbeatRequest
	given.Translate()
	if e := convert.CheckID("node_id", in.NodeID); e != nil {
		return nil, e
	}
	if e := checkNode(ctx, core.NodeID(in.NodeID)); e != nil {
		return nil, e
	}
	b := nodes.Heartbeat{Node: core.NodeID(in.NodeID), Caller: nodes.Caller{MaxNodes: principalOf(ctx).MaxNodes}}
	var e *wire.Error
	if b.Change, e = h.read.Declaration(&in.Declaration); e != nil {
		return nil, e
	}
	if e := convert.SetTenant(principalOf(ctx), &b.Change); e != nil {
		return nil, e
	}
	if b.Activity, e = convert.Activity(&in.Declaration); e != nil {
		return nil, e
	}
	if b.Caller.Secret, e = nodeToken(in.NodeToken); e != nil {
		return nil, e
	}
	if b.Epoch, e = optionalEpoch(in.Epoch); e != nil {
		return nil, e
	}
	known, err := h.verifier.Check(ctx, b.Node, proofOf(ctx, in.NodeToken, b.Epoch))
	switch {
	case err != nil:
		return nil, err
	case !h.verifier.RequireSecret:
	case known == nil:
		b.Registers = true
	case b.Epoch == 0:
		b.Epoch = known.Epoch
	}
	if in.HBSeq != nil {
		if *in.HBSeq == 0 {
			return nil, wire.Invalid("hb_seq", "counts from 1")
		}
		b.Seq = *in.HBSeq
	}
	beat, err := h.registry.Heartbeat(ctx, b)
	if err != nil {
		return nil, err
	}
	out := &wire.HeartbeatResponse{OK: true, Cancel: convert.ActiveJobs(beat.Cancel), NodeToken: beat.Secret}
	if beat.WasSilent {
		out.Warnings = []string{fmt.Sprintf("no heartbeat was recorded for %s, so the node counted as gone: send one every %s", h.presence,
			h.heartbeat)}
	}
	if beat.Node != nil {
		c := callOf(ctx)
		c.action = actionRegister
		c.concerns("node", in.NodeID, beat.Node.Tenant)
		out.Epoch = int64(beat.Node.Epoch)
	}
	return out, nil
}

// nodeToken checks the form of a node's secret, which may be absent.
func nodeToken(secret string) (string, *wire.Error) {
	if secret != "" && !nodes.ValidSecret(secret) {
		return "", wire.Invalid("node_token", "must be the one that registration answered, or 16 to 128 random characters")
	}
	return secret, nil
}

// proofOf is what a caller shows to act for a node.
func proofOf(ctx context.Context, secret string, epoch core.Epoch) nodes.Proof {
	p := principalOf(ctx)
	if p.Role == auth.Operator {
		return nodes.Proof{Secret: secret, Epoch: epoch}
	}
	return nodes.Proof{Secret: secret, Epoch: epoch, Tenant: &p.Tenant}
}

// optionalEpoch checks an epoch that may be absent.
func optionalEpoch(epoch *int64) (core.Epoch, *wire.Error) {
	if epoch == nil {
		return 0, nil
	}
	if *epoch <= 0 {
		return 0, wire.Invalid("epoch", "must be the number that registration answered, not %d", *epoch)
	}
	return core.Epoch(*epoch), nil
}

func (h *nodeHandlers) reportUnavailable(ctx context.Context, in *wire.ModelNotAvailableRequest) (*wire.OKResponse, error) {
	if e := convert.CheckID("node_id", in.NodeID); e != nil {
		return nil, e
	}
	if e := checkNode(ctx, core.NodeID(in.NodeID)); e != nil {
		return nil, e
	}
	u, e := convert.Unavailable(in)
	if e != nil {
		return nil, e
	}
	if _, err := h.verifier.CheckReport(ctx, core.NodeID(in.NodeID), proofOf(ctx, in.NodeToken, 0)); err != nil {
		return nil, err
	}
	if err := h.registry.ReportUnavailable(ctx, u); err != nil {
		return nil, err
	}
	return &wire.OKResponse{OK: true}, nil
}

// nodeStates are the values of the filter "state" of the list of nodes.
var nodeStates = []string{
	core.HealthReady.String(), core.HealthDegraded.String(), core.HealthDraining.String(), core.HealthOffline.String(), nodes.StateSilent,
}

func (h *nodeHandlers) list(r *http.Request) (*wire.NodeList, error) {
	q, e := parseList(r.URL.Query(), "nodes", 1, maxPage, "state", "language", "region")
	if e != nil {
		return nil, e
	}
	f := nodes.Filter{State: q.Get("state"), Region: q.Get("region"), Tenant: visibleTenant(r.Context())}
	if f.State != "" && !slices.Contains(nodeStates, f.State) {
		return nil, wire.Invalid("state", "must be "+strings.Join(nodeStates, ", ")+", not %q", f.State)
	}
	if f.Lang, e = h.read.OptionalLang("language", q.Get("language")); e != nil {
		return nil, e
	}
	var after core.NodeID
	if q.after != nil {
		after = core.NodeID(q.after[0])
	}
	page, more, err := h.registry.ListNodes(r.Context(), f, after, q.limit)
	if err != nil {
		return nil, err
	}
	out := &wire.NodeList{Nodes: make([]wire.Node, len(page))}
	for i, st := range page {
		out.Nodes[i] = h.view(r.Context(), st)
	}
	if more {
		out.NextCursor = encodeCursor("nodes", string(page[len(page)-1].Node.ID))
	}
	return out, nil
}

// view is a node as the API shows it. Pools and the services that they require are named for other tenants, so a caller of one tenant
// learns of a node without a pool only that it has none, or about the pool that the credential of the node names.
func (h *nodeHandlers) view(ctx context.Context, st store.NodeStatus) wire.Node {
	v := convert.Node(st, h.presence, h.registry.SetAsideFor(st.Node.ID))
	if assigned, divided := h.registry.PoolOf(st.Node); divided {
		if v.PoolID = string(assigned.Pool); v.PoolID == "" {
			pinned := st.Node.Pool != ""
			v.NoPool = new(wire.PoolGap)
			if pinned || visibleTenant(ctx) == nil {
				*v.NoPool = viewPoolGap(assigned, pinned)
			}
		}
	}
	return v
}

func (h *nodeHandlers) get(r *http.Request) (*wire.Node, error) {
	id := r.PathValue("id")
	st, err := h.registry.Node(r.Context(), core.NodeID(id))
	if err != nil {
		return nil, err
	}
	if !principalOf(r.Context()).SeesTenant(st.Node.Tenant) {
		return nil, nodes.UnknownNode(core.NodeID(id))
	}
	v := h.view(r.Context(), st)
	v.Failures, v.Marks = h.series.Failures(st.Node.ID), viewMarks(h.registry.Marks(st.Node.ID))
	return &v, nil
}

// drain makes the handler that drains or resumes a node.
func (h *nodeHandlers) drain(drained bool) func(*http.Request) (*wire.Node, error) {
	return func(r *http.Request) (*wire.Node, error) {
		id := r.PathValue("id")
		st, err := h.registry.Drain(r.Context(), core.NodeID(id), drained)
		if err != nil {
			return nil, err
		}
		callOf(r.Context()).concerns("node", id, st.Node.Tenant)
		v := h.view(r.Context(), st)
		return &v, nil
	}
}

// remove removes a node.
func (h *nodeHandlers) remove(r *http.Request) (*wire.NodeRemoved, error) {
	id := r.PathValue("id")
	removed, err := h.registry.Remove(r.Context(), core.NodeID(id))
	if err != nil {
		return nil, err
	}
	callOf(r.Context()).concerns("node", id, removed.Before.Node.Tenant)
	answer := &wire.NodeRemoved{NodeID: id, MovedJobs: removed.Moved}
	if state := h.registry.StateOf(removed.Before.Node, removed.Before.Age); state != nodes.StateSilent &&
		state != core.HealthOffline.String() {
		answer.Warnings = []string{fmt.Sprintf("node %s sent a heartbeat %s ago: if it still runs, it registers again", id,
			removed.Before.Age.Round(100*time.Millisecond))}
	}
	return answer, nil
}

// viewMarks are the marks of a node as the API shows them.
func viewMarks(marks []fleet.ServiceMark) []wire.ServiceMark {
	var out []wire.ServiceMark
	for _, m := range marks {
		out = append(out, wire.ServiceMark{ServiceID: m.Service, Version: m.Version, UntilMS: time.Now().Add(m.For).UnixMilli(),
			Reason: string(m.Reason)})
	}
	return out
}
