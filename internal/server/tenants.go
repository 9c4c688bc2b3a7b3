package server

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

func (h *statusHandlers) tenantsRoute() route {
	return route{
		method: "GET", path: "/v1/tenants", rule: jobReaders, peers: true, tag: "operations",
		summary: "List the tenants with their limits and what they use",
		description: "The limits are those of the answering instance. What is counted against a limit is the same on all instances. A " +
			"caller of one tenant sees only that one.",
		handler: handle(h.responder, h.showTenants),
		params: listParams("100",
			param{name: "tenant_id", description: "Only this tenant.", kind: "string"},
			param{name: "scope", description: "here: only what the answering instance counts itself.", kind: "string"},
		),
		codes: []wire.Code{wire.SchedulerDependencyDown},
	}
}

// defaultTenantPage is the number of tenants on a page if the request names none.
const defaultTenantPage = 100

// showTenants lists tenants.
func (h *statusHandlers) showTenants(r *http.Request) (*wire.TenantList, error) {
	q, e := parseList(r.URL.Query(), "tenants", 1, defaultTenantPage, "tenant_id", "scope")
	if e != nil {
		return nil, e
	}
	only := visibleTenant(r.Context())
	if named := q.Get("tenant_id"); named != "" {
		if e := convert.CheckID("tenant_id", named); e != nil {
			return nil, e
		}
		t, e := tenantOf(r.Context(), named)
		if e != nil {
			return nil, e
		}
		only = &t
	}
	all, out, more := h.countTenants(only), new(wire.TenantList), false
	if q.Get("scope") != scopeHere {
		out.Partial, _ = fetchFromPeers(h.peers, r, func(found *wire.TenantList) {
			more = more || found.NextCursor != ""
			for i := range found.Tenants {
				h.addTenant(all, &found.Tenants[i])
			}
		})
	}
	out.Tenants = pageOfTenants(all, &q)
	if more = more || len(out.Tenants) > q.limit; more && len(out.Tenants) > 0 {
		out.Tenants = out.Tenants[:min(len(out.Tenants), q.limit)]
		out.NextCursor = encodeCursor("tenants", out.Tenants[len(out.Tenants)-1].TenantID)
	}
	if q.Get("scope") == scopeHere {
		return out, nil
	}
	return out, h.readTenantUse(r.Context(), out.Tenants)
}

// countTenants returns what this instance counts of the tenants that it knows, or of one of them.
func (h *statusHandlers) countTenants(only *core.TenantID) map[core.TenantID]*wire.TenantInfo {
	all := make(map[core.TenantID]*wire.TenantInfo)
	entry := func(id core.TenantID) *wire.TenantInfo {
		if only != nil && *only != id {
			return new(wire.TenantInfo) // it is not shown
		}
		if all[id] == nil {
			all[id] = h.viewTenant(id)
		}
		return all[id]
	}
	for _, id := range h.tenants.Table().IDs() {
		entry(id)
	}
	if only != nil {
		entry(*only)
	}
	for id, n := range h.dispatcher.InFlightByTenant() {
		entry(id).InFlight.Used = n
	}
	for id, n := range h.sessions.CountByTenant() {
		entry(id).Sessions.Used = n
	}
	for id, refusals := range h.tenants.Refusals() {
		t := entry(id)
		t.Refusals = make(map[string]int64)
		for limit, n := range refusals {
			t.Refusals[limit.String()] = n
		}
	}
	return all
}

// viewTenant describes a tenant by its limits.
func (h *statusHandlers) viewTenant(id core.TenantID) *wire.TenantInfo {
	limits := h.tenants.Of(id)
	t := &wire.TenantInfo{
		TenantID: string(id), Configured: h.tenants.Table().Has(id), Weight: limits.Weight,
		InFlight: wire.TenantUse{Max: limits.InFlight}, Sessions: wire.TenantUse{Max: limits.Sessions}, Refusals: map[string]int64{},
	}
	if limits.DispatchRate > 0 {
		t.Dispatches = &wire.TenantRate{Limit: limits.DispatchRate}
	}
	if limits.AudioRate > 0 {
		t.Audio = &wire.TenantRate{Limit: limits.AudioRate}
	}
	return t
}

// addTenant adds what another instance counts of a tenant.
func (h *statusHandlers) addTenant(all map[core.TenantID]*wire.TenantInfo, found *wire.TenantInfo) {
	id := core.TenantID(found.TenantID)
	t := all[id]
	if t == nil {
		t = h.viewTenant(id)
		all[id] = t
	}
	t.InFlight.Used += found.InFlight.Used
	t.Sessions.Used += found.Sessions.Used
	for limit, n := range found.Refusals {
		t.Refusals[limit] += n
	}
}

// pageOfTenants returns the tenants after the last page, in order.
func pageOfTenants(all map[core.TenantID]*wire.TenantInfo, q *listQuery) []wire.TenantInfo {
	list := make([]wire.TenantInfo, 0, len(all))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if len(q.after) == 0 || string(id) > q.after[0] {
			list = append(list, *all[id])
		}
	}
	return list
}

// readTenantUse sets what is counted against the limits of tenants.
func (h *statusHandlers) readTenantUse(ctx context.Context, list []wire.TenantInfo) error {
	var limited []*wire.TenantInfo
	var ids []core.TenantID
	for i := range list {
		id := core.TenantID(list[i].TenantID)
		if h.tenants.LimitsJobs(id) || h.tenants.LimitsSessions(id) {
			limited, ids = append(limited, &list[i]), append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	use, err := h.tenants.Use(ctx, ids)
	if err != nil {
		return h.storeDown("tenants", err)
	}
	for i, t := range limited {
		limits := h.tenants.Of(ids[i])
		if limits.LimitsJobs() {
			t.InFlight.Used = use[i].InFlight
		}
		if limits.Sessions > 0 {
			t.Sessions.Used = use[i].Sessions
		}
		if t.Dispatches != nil {
			t.Dispatches.Left = use[i].DispatchesLeft(t.Dispatches.Limit)
		}
		if t.Audio != nil {
			t.Audio.Left = use[i].AudioLeft(t.Audio.Limit).Seconds()
		}
	}
	return nil
}
