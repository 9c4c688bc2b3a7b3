package server

import (
	"net/http"

	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

func (h *statusHandlers) poolsRoute() route {
	return route{
		method: "GET", path: "/api/v1/phase3/pools", rule: fleetReaders, tag: "operations", summary: "Show the capability pools",
		description: "The pools that are in force, with the nodes, slots and stages of each, and the nodes that belong to none and why, " +
			"as the answering instance sees them. Without pools the list is empty.",
		handler: handle(h.responder, h.showPools), codes: []wire.Code{wire.InvalidRequest, wire.SchedulerDependencyDown},
	}
}

// viewExplainedPools are the pools of an explanation as the API shows them.
func viewExplainedPools(list []dispatch.ExplainedPool) []wire.ExplainPool {
	var out []wire.ExplainPool
	for _, p := range list {
		out = append(out, wire.ExplainPool{
			PoolID: string(p.ID), Eligible: p.Eligible, Fallback: p.Fallback, Why: p.Why, Service: p.Service,
			Nodes: p.Nodes, Capable: p.Capable, Free: p.Free, Reason: p.Reason,
		})
	}
	return out
}

func (h *statusHandlers) showPools(r *http.Request) (*wire.PoolOverview, error) {
	for name := range r.URL.Query() {
		return nil, wire.Invalid(name, "is not known; this list has no filters")
	}
	o, err := h.pools.Overview(r.Context())
	if err != nil {
		return nil, h.storeDown("pools", err)
	}
	return viewPools(o), nil
}
