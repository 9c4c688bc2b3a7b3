package server

import (
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/internal/waiting"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// defaultWaitingPage is the maximum length of each list of GET /v1/waiting if the request names none.
const defaultWaitingPage = 100

func (h *jobHandlers) waitingRoute() route {
	return route{
		method: "GET", path: "/v1/waiting", rule: jobReaders, tag: "jobs", summary: "List the requests that wait for a slot",
		description: "Of all instances, with how long each waits, its place and an estimate, and counted by pool, class and tenant. A " +
			"caller of one tenant sees only what is of that tenant, and nothing that is counted of others.",
		handler: handle(h.responder, h.waiting),
		params: []param{
			{name: "tenant_id", description: "Only requests of this tenant.", kind: "string"},
			{name: "pool", description: "Only requests that wait in the queue of this capability pool; given and empty: those that are " +
				"bound to none.", kind: "string"},
			{name: "limit", description: "The maximum length of each list, 100 by default, at most 1000.", kind: "integer"},
		},
		codes: []wire.Code{wire.SchedulerDependencyDown},
	}
}

// waiting lists the requests that wait.
func (h *jobHandlers) waiting(r *http.Request) (*wire.WaitingList, error) {
	q, e := parseList(r.URL.Query(), "waiting", 1, defaultWaitingPage, "tenant_id", "pool")
	if e != nil {
		return nil, e
	}
	visible := visibleTenant(r.Context())
	p := waiting.ViewParams{Tenant: visible, Limit: q.limit}
	if named := q.Get("tenant_id"); named != "" {
		if e := convert.CheckID("tenant_id", named); e != nil {
			return nil, e
		}
		tenant, e := tenantOf(r.Context(), named)
		if e != nil {
			return nil, e
		}
		p.Tenant = &tenant
	}
	if q.Has("pool") {
		pool := core.PoolID(q.Get("pool"))
		if e := convert.CheckOptionalID("pool", string(pool)); e != nil {
			return nil, e
		}
		if !h.dispatcher.Waiting.KnowsPool(pool, visible) {
			return nil, wire.Invalid("pool", "there is no capability pool %s", pool)
		}
		p.Pool = &pool
	}
	v, err := h.dispatcher.Waiting.View(r.Context(), p)
	if err != nil {
		return nil, err
	}
	return viewWaiting(v, visible == nil), nil
}

// viewWaiting is what waits as the API shows it, with what says something about all tenants or without.
func viewWaiting(v *waiting.View, all bool) *wire.WaitingList {
	out := &wire.WaitingList{
		NowMS: v.Now, Total: v.Total, Truncated: v.Truncated, Requests: make([]wire.WaitingRequest, len(v.Requests)),
		Pools: make([]wire.WaitingPool, len(v.Pools)), Classes: make([]wire.WaitingClass, len(v.Classes)),
		Tenants: make([]wire.WaitingTenant, len(v.Tenants)),
	}
	for i := range v.Requests {
		w := &v.Requests[i]
		out.Requests[i] = wire.WaitingRequest{
			JobID: string(w.Job), TenantID: w.Tenant, PoolID: string(w.Pool), WaitingRequirements: viewRequirements(&w.Class),
			SinceMS: w.Since, DeadlineMS: w.Deadline,
			Place: w.Place, EstimateMS: viewEstimate(w.Estimate), Instance: w.Instance,
		}
	}
	for i, g := range v.Pools {
		out.Pools[i] = wire.WaitingPool{PoolID: string(g.Pool), Waiting: g.Waiting, OldestMS: g.Oldest}
	}
	for i, g := range v.Classes {
		out.Classes[i] = wire.WaitingClass{PoolID: string(g.Pool), WaitingRequirements: viewRequirements(g.Class), Waiting: g.Waiting,
			OldestMS: g.Oldest}
		if all && g.Interval.Known() {
			ms := float64(g.Interval.US) / 1000
			out.Classes[i].IntervalMS = &ms
		}
	}
	for i, g := range v.Tenants {
		out.Tenants[i] = wire.WaitingTenant{PoolID: string(g.Pool), TenantID: string(*g.Tenant), Waiting: g.Waiting, OldestMS: g.Oldest,
			Weight: g.Weight}
		if all {
			out.Tenants[i].Share = &wire.WaitingShare{Granted: g.Share.Granted, Entitled: g.Share.Entitled,
				WindowMS: g.Share.Window.Milliseconds()}
		}
	}
	return out
}

// viewCancelledWaiting is a request that was cancelled while it waited, as the job that it would have become.
func viewCancelledWaiting(w *waiting.Found) wire.Job {
	since := w.Since.UnixMilli()
	return wire.Job{
		JobID: string(w.Job), TenantID: string(w.Tenant), SrcLang: string(w.Direction.Src), TgtLang: string(w.Direction.Tgt),
		State: core.StateCancelled.String(), Reason: string(core.ReasonCancelled), CreatedMS: since, UpdatedMS: since,
		DeadlineMS: w.Until.UnixMilli(), Attempts: []wire.Attempt{},
	}
}

// viewRequirements says what the requests of a class require.
func viewRequirements(c *waiting.ViewedClass) wire.WaitingRequirements {
	requires := c.Requires
	if requires == nil {
		requires = []string{}
	}
	return wire.WaitingRequirements{ClassID: c.ID, SrcLang: string(c.Direction.Src), TgtLang: string(c.Direction.Tgt), Requires: requires}
}

// viewEstimate is an estimate in milliseconds; nil: it is not known.
func viewEstimate(d time.Duration) *int64 {
	if d == waiting.EstimateUnknown {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

// viewExplainedWait is a wait of an explanation as the API shows it.
func viewExplainedWait(w *waiting.Explained) *wire.ExplainWait {
	if w == nil {
		return nil
	}
	out := &wire.ExplainWait{
		PoolID: string(w.Pool), Place: w.Place, TenantWaiting: w.TenantWaiting, EstimateMS: viewEstimate(w.Estimate),
		Refusal: string(w.Refusal), Detail: w.Detail,
	}
	if w.OtherTenants >= 0 {
		out.OtherTenants, out.OtherClasses = &w.OtherTenants, &w.OtherClasses
	}
	return out
}
