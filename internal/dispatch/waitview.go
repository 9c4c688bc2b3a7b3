package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// WaitingParams selects requests that wait for a slot.
type WaitingParams struct {
	Tenant *core.TenantID // nil: of all
	Pool   *core.PoolID   // in whose queue they wait, empty: that of requests that are bound to no pool; nil: any
	Limit  int            // the maximum length of each list
}

// WaitingView is who waits for a slot, on all instances. A request that is being offered a slot is not in it.
type WaitingView struct {
	Now       int64 // the time of the store in Unix milliseconds, as all others are
	Total     int
	Requests  []WaitingOne // those that have waited longest first
	Pools     []WaitingGroup
	Classes   []WaitingGroup
	Tenants   []WaitingGroup
	Truncated bool // there are more than one of the lists has
}

// WaitingOne is a request that waits.
type WaitingOne struct {
	fairqueue.Waiter
	Job      core.JobID
	Pool     core.PoolID
	Class    WaitingClass
	Place    int           // in the line of its tenant and class, the first is 1
	Estimate time.Duration // until it has a slot, or EstimateUnknown
}

// WaitingGroup counts requests that wait: those in the queue of a pool, of a class, or of a tenant.
type WaitingGroup struct {
	Pool    core.PoolID
	Class   *WaitingClass  // nil: it is no class
	Tenant  *core.TenantID // nil: it is no tenant
	Waiting int
	Oldest  int64 // since when the one waits that has waited longest

	Interval fairqueue.Interval // between two slots of a class
	Weight   float64            // of a tenant
	Share    WaitShare          // of a tenant
}

// WaitingClass says what the requests of a class require of a node.
type WaitingClass struct {
	ID        string
	Direction core.Direction // empty: this version does not understand the requirements
	Requires  []string       // what they require besides, such as service(asr-large)
}

// KnowsPool reports whether requests of a tenant, or of any, may wait in the queue of a pool.
func (l *Line) KnowsPool(pool core.PoolID, tenant *core.TenantID) bool {
	division := l.fleet.Division()
	if tenant != nil && pool != "" {
		bound, is := core.PoolID(""), false
		if division.Enabled() {
			bound, is = division.Overrides[*tenant]
		}
		return is && bound == pool
	}
	return slices.Contains(l.snapshots.pools(), pool)
}

// ViewWaiting returns who waits for a slot.
func (l *Line) ViewWaiting(ctx context.Context, p WaitingParams) (*WaitingView, error) {
	queues, err := l.snapshots.get(ctx)
	if err != nil {
		return nil, store.CallError(ctx)
	}
	now, counts := time.Now(), countShares(queues)
	l.shares.record(now, counts)
	v := newWaitingViewer(&p, queues)
	for i := range v.Tenants {
		g := &v.Tenants[i]
		key := sharer{g.Pool, *g.Tenant}
		g.Share = l.shares.shareOf(now, key, counts[key])
	}
	v.finish()
	return &v.WaitingView, nil
}

// waitingViewer collects a WaitingView.
type waitingViewer struct {
	WaitingView
	params  *WaitingParams
	listed  []listedWaiter
	classes map[*classSnapshot]*WaitingClass
}

// listedWaiter is a waiter of a snapshot.
type listedWaiter struct {
	waiter *fairqueue.Waiter
	pool   core.PoolID
	class  *classSnapshot
	flow   *fairqueue.FlowView
	place  int
}

// newWaitingViewer collects what matches of the queues.
func newWaitingViewer(p *WaitingParams, queues []*queueSnapshot) *waitingViewer {
	v := &waitingViewer{params: p, classes: make(map[*classSnapshot]*WaitingClass)}
	v.Now = time.Now().UnixMilli() // if nobody waits
	for _, q := range queues {
		v.addQueue(q)
	}
	return v
}

// addQueue adds what matches of a queue.
func (v *waitingViewer) addQueue(q *queueSnapshot) {
	v.Now = q.now
	if v.params.Pool != nil && *v.params.Pool != q.pool {
		return
	}
	pool := WaitingGroup{Pool: q.pool}
	tenants := make(map[core.TenantID]*WaitingGroup)
	for _, c := range q.classes {
		class := WaitingGroup{Pool: q.pool, Class: describeClass(c), Interval: c.Interval}
		v.classes[c] = class.Class
		for i := range c.flows {
			f := &c.flows[i]
			id := core.TenantID(f.Tenant)
			if v.params.Tenant != nil && *v.params.Tenant != id {
				continue
			}
			t := tenants[id]
			if t == nil {
				t = &WaitingGroup{Pool: q.pool, Tenant: &id, Weight: float64(f.Weight) / fairqueue.WeightScale}
				tenants[id] = t
			}
			for _, g := range []*WaitingGroup{&pool, &class, t} {
				g.add(f)
			}
			for place := range f.Waiters {
				v.listed = append(v.listed, listedWaiter{&f.Waiters[place], q.pool, c, f, place + 1})
			}
		}
		if class.Waiting > 0 {
			v.Classes = append(v.Classes, class)
		}
	}
	for _, t := range tenants {
		v.Tenants = append(v.Tenants, *t)
	}
	if v.Total += pool.Waiting; pool.Waiting > 0 {
		v.Pools = append(v.Pools, pool)
	}
}

// add counts the waiters of a flow.
func (g *WaitingGroup) add(f *fairqueue.FlowView) {
	g.Waiting += f.Waiting
	for i := range f.Waiters {
		if g.Oldest == 0 || f.Waiters[i].Since < g.Oldest {
			g.Oldest = f.Waiters[i].Since
		}
	}
}

// finish orders the lists and cuts them.
func (v *waitingViewer) finish() {
	slices.SortFunc(v.listed, func(a, b listedWaiter) int {
		return cmp.Or(cmp.Compare(a.waiter.Since, b.waiter.Since), cmp.Compare(a.waiter.ID, b.waiter.ID))
	})
	v.Truncated = v.Total > min(len(v.listed), v.params.Limit)
	for _, w := range v.listed[:min(len(v.listed), v.params.Limit)] {
		v.Requests = append(v.Requests, WaitingOne{
			Waiter: *w.waiter, Job: WaiterJob(w.waiter), Pool: w.pool, Class: *v.classes[w.class], Place: w.place,
			Estimate: estimateOf(w.class.estimate(w.flow.Tenant, w.place, w.flow.Weight)),
		})
	}
	for _, list := range []*[]WaitingGroup{&v.Pools, &v.Classes, &v.Tenants} {
		slices.SortFunc(*list, compareGroups)
		if len(*list) > v.params.Limit {
			*list, v.Truncated = (*list)[:v.params.Limit], true
		}
	}
}

// compareGroups orders the groups with most waiters first.
func compareGroups(a, b WaitingGroup) int {
	order := cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Pool, b.Pool))
	switch {
	case order == 0 && a.Class != nil:
		order = cmp.Compare(a.Class.ID, b.Class.ID)
	case order == 0 && a.Tenant != nil:
		order = cmp.Compare(*a.Tenant, *b.Tenant)
	}
	return order
}

// estimateOf returns an estimate of the queue as a duration.
func estimateOf(ms int64) time.Duration {
	if ms < 0 {
		return EstimateUnknown
	}
	return time.Duration(ms) * time.Millisecond
}

// describeClass says what the requests of a class require.
func describeClass(c *classSnapshot) *WaitingClass {
	d := &WaitingClass{ID: c.ID}
	if c.class == nil {
		return d
	}
	d.Direction = c.class.spec.Direction
	d.Requires = c.class.spec.ExtraRequirements()
	if tenant := c.class.spec.Tenant; tenant != "" {
		d.Requires = append(d.Requires, "tenant("+string(tenant)+")") // it has nodes of its own
	}
	if node := c.class.spec.Options.PreferredNode; node != "" {
		d.Requires = append(d.Requires, "node("+string(node)+")")
	}
	for _, node := range c.class.except {
		d.Requires = append(d.Requires, "not_node("+string(node)+")")
	}
	return d
}
