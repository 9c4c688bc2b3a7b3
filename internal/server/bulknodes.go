package server

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func (h *nodeHandlers) drainManyRoute() route {
	return route{
		method: "POST", path: "/v1/nodes/drain", rule: operators, action: "node.drain_many", tag: "nodes",
		summary:     "Drain all nodes that match",
		description: "As POST /v1/jobs/cancel: count with dry_run first, and confirm the number.",
		handler:     handleBody(h.responder, h.drainNodes(true)), codes: bulkCodes,
	}
}

func (h *nodeHandlers) resumeManyRoute() route {
	return route{
		method: "POST", path: "/v1/nodes/resume", rule: operators, action: "node.resume_many", tag: "nodes",
		summary:     "End the drain of all nodes that match",
		description: "As POST /v1/jobs/cancel: count with dry_run first, and confirm the number.",
		handler:     handleBody(h.responder, h.drainNodes(false)), codes: bulkCodes,
	}
}

// drainNodes makes the handler that drains or resumes the nodes that match.
func (h *nodeHandlers) drainNodes(drained bool) func(context.Context, *wire.NodesDrainRequest) (*wire.NodesDrainResponse, error) {
	return func(ctx context.Context, in *wire.NodesDrainRequest) (*wire.NodesDrainResponse, error) {
		callOf(ctx).dryRun = in.DryRun
		limits := bulkLimits{in.Expect, in.Limit, in.DryRun}
		if e := limits.check(); e != nil {
			return nil, e
		}
		f, values, e := h.readNodeFilter(in.Filter)
		if e != nil {
			return nil, e
		}
		end, e := h.bulk.begin(ctx)
		if e != nil {
			return nil, e
		}
		defer end()
		found, err := h.matchingNodes(ctx, f)
		if err != nil {
			return nil, err
		}
		out := &wire.NodesDrainResponse{DryRun: in.DryRun, Matches: len(found), Truncated: len(found) > maxBulk, Remaining: len(found)}
		if in.DryRun {
			if drained {
				if out.DrainEffect, err = h.table.DrainEffect(ctx, found...); err != nil {
					return nil, errNoEffect()
				}
			}
			return out, nil
		}
		allowed, e := limits.admit(len(found), "nodes")
		if e != nil {
			return nil, e
		}
		var changed, unchanged, failed atomic.Int64
		tried := forEach(ctx, found[:allowed], func(ctx context.Context, n *core.Node) error {
			if n.Drained == drained && h.registry.RemembersDrain(n.ID) == drained {
				unchanged.Add(1)
				return nil
			}
			if _, err := h.registry.Drain(ctx, n.ID, drained); err != nil {
				failed.Add(1)
				return err
			}
			changed.Add(1)
			return nil
		})
		out.Changed, out.Unchanged, out.Failed, out.Remaining = int(changed.Load()), int(unchanged.Load()), int(failed.Load()),
			len(found)-tried
		auditBulk(ctx, "nodes", values.Encode(), out.Changed, out.Failed, out.Matches)
		return out, nil
	}
}

// nodeFilter selects nodes.
type nodeFilter struct {
	nodes.Filter
	search  string
	state   string
	serves  *core.Requirement
	service string
	pool    core.PoolID
}

// maxNodeSearch is the maximum length of a part of the name of a node, or of the name of a service.
const maxNodeSearch = 128

// readNodeFilter converts a filter, and returns what audit entries have of it: what is longer than an identifier, or is none, is refused.
func (h *nodeHandlers) readNodeFilter(in *wire.NodeFilter) (*nodeFilter, url.Values, *wire.Error) {
	if in == nil {
		return nil, nil, wire.Invalid("filter", "is missing; {} matches all nodes")
	}
	values := url.Values{}
	for name, text := range map[string]string{
		"search": in.Search, "state": in.State, "language": in.Language, "src_lang": in.SrcLang, "tgt_lang": in.TgtLang,
		"region":    in.Region,
		"tenant_id": in.TenantID, "service": in.Service, "pool_id": in.PoolID,
	} {
		if text != "" {
			values.Set(name, text)
		}
	}
	for _, name := range []string{"search", "region", "tenant_id", "pool_id"} {
		if e := convert.CheckOptionalID("filter."+name, values.Get(name)); e != nil {
			return nil, nil, e
		}
	}
	f := &nodeFilter{search: strings.ToLower(in.Search), state: in.State, service: in.Service, pool: core.PoolID(in.PoolID),
		Filter: nodes.Filter{Region: in.Region}}
	if in.State != "" && !slices.Contains(stats.NodeStates(), in.State) {
		return nil, nil, wire.Invalid("filter.state", "must be one of %s", strings.Join(stats.NodeStates(), ", "))
	}
	if err := core.CheckModelName(in.Service); in.Service != "" &&
		(err != nil || len(in.Service) > maxNodeSearch || strings.ContainsRune(in.Service, ' ')) {
		return nil, nil, wire.Invalid("filter.service",
			"must be the id of a service, perhaps with @ and a version, of at most %d bytes and without spaces", maxNodeSearch)
	}
	if in.TenantID != "" {
		tenant := core.TenantID(in.TenantID)
		f.Tenant = &tenant
	}
	return f, values, h.readFilterLanguages(in, f)
}

// readFilterLanguages converts the languages of a filter.
func (h *nodeHandlers) readFilterLanguages(in *wire.NodeFilter, f *nodeFilter) *wire.Error {
	var d core.Direction
	for _, lang := range []struct {
		name, text string
		into       *core.Lang
	}{{"filter.language", in.Language, &f.Lang}, {"filter.src_lang", in.SrcLang, &d.Src}, {"filter.tgt_lang", in.TgtLang, &d.Tgt}} {
		var e *wire.Error
		if *lang.into, e = h.read.OptionalLang(lang.name, lang.text); e != nil {
			return e
		}
	}
	if (d.Src == "") != (d.Tgt == "") {
		return wire.Invalid("filter.src_lang", "and tgt_lang are given together: a direction has both")
	}
	if d.Src != "" {
		r := core.NewRequirement(d, false)
		f.serves = &r
	}
	return nil
}

// matchingNodes reads the nodes that match, ordered by name.
func (h *nodeHandlers) matchingNodes(ctx context.Context, f *nodeFilter) ([]*core.Node, error) {
	var found []*core.Node
	var after core.NodeID
	for {
		page, more, err := h.registry.ListNodes(ctx, f.Filter, after, maxPage)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if h.matches(f, &page[i]) {
				found = append(found, page[i].Node)
			}
		}
		if !more || len(page) == 0 {
			return found, nil
		}
		after = page[len(page)-1].Node.ID
	}
}

// matches reports whether a node that the list selects matches the rest of a filter.
func (h *nodeHandlers) matches(f *nodeFilter, st *store.NodeStatus) bool {
	n := st.Node
	if f.search != "" && !strings.Contains(strings.ToLower(string(n.ID)), f.search) {
		return false
	}
	if f.state != "" {
		state := stats.StateNameAbsent()
		if st.Age < h.presence {
			state = stats.StateName(n)
		}
		if state != f.state {
			return false
		}
	}
	if f.serves != nil && f.serves.Mismatch(&n.Capability) != core.ReasonNone {
		return false
	}
	if f.service != "" {
		if installed, _ := n.ServiceState(f.service); !installed {
			return false
		}
	}
	if f.pool != "" {
		if assigned, divided := h.registry.PoolOf(n); !divided || assigned.Pool != f.pool {
			return false
		}
	}
	return true
}
