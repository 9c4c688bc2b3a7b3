package waiting

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// ViewParams selects requests that wait for a slot.
type ViewParams struct {
	Tenant *core.TenantID // nil: of all
	Pool   *core.PoolID   // in whose queue they wait, empty: that of requests that are bound to no pool; nil: any
	Limit  int            // the maximum length of each list
}

// View is who waits for a slot, on all instances. A request that is being offered a slot is not in it.
type View struct {
	Now       int64 // the time of the store in Unix milliseconds, as all others are
	Total     int
	Requests  []ViewedRequest // those that have waited longest first
	Pools     []ViewedGroup
	Classes   []ViewedGroup
	Tenants   []ViewedGroup
	Truncated bool // there are more than one of the lists has
}

// ViewedRequest is a request that waits.
type ViewedRequest struct {
	fairqueue.Waiter
	Job      core.JobID
	Pool     core.PoolID
	Class    ViewedClass
	Place    int           // among the requests of its tenant and class; the first is 1
	Estimate time.Duration // until it has a slot, or EstimateUnknown
}

// ViewedGroup counts requests that wait: those in the queue of a pool, of a class, or of a tenant.
type ViewedGroup struct {
	Pool    core.PoolID
	Class   *ViewedClass   // set only if the group is a class
	Tenant  *core.TenantID // set only if the group is a tenant
	Waiting int
	Oldest  int64 // Unix ms at which the longest-waiting request began to wait

	Interval fairqueue.Interval // between two slots of a class
	Weight   float64            // of a tenant
	Share    Share              // of a tenant
}

// ViewedClass says what the requests of a class require of a node.
type ViewedClass struct {
	ID        string
	Direction core.Direction // empty: this version does not understand the requirements
	Requires  []string       // what they require besides, such as service(asr-large)
}

// KnowsPool reports whether requests of a tenant, or of any, may wait in the queue of a pool.
func (q *Queue) KnowsPool(pool core.PoolID, tenant *core.TenantID) bool {
	division := q.options.Fleet.Division()
	if tenant != nil && pool != "" {
		bound, is := core.PoolID(""), false
		if division.Enabled() {
			bound, is = division.Overrides[*tenant]
		}
		return is && bound == pool
	}
	return slices.Contains(q.snapshots.pools(), pool)
}

// View returns who waits for a slot.
func (q *Queue) View(ctx context.Context, p ViewParams) (*View, error) {
	queues, err := q.snapshots.get(ctx)
	if err != nil {
		return nil, store.CallError(ctx)
	}
	now, counts := time.Now(), countShares(queues)
	q.shares.record(now, counts)
	v := newViewer(&p, queues)
	for i := range v.Tenants {
		g := &v.Tenants[i]
		key := sharer{g.Pool, *g.Tenant}
		g.Share = q.shares.shareOf(now, key, counts[key])
	}
	v.finish()
	return &v.View, nil
}

// viewer collects a View.
type viewer struct {
	View
	params  *ViewParams
	listed  []listedWaiter
	classes map[*classSnapshot]*ViewedClass
}

// listedWaiter is a waiter of a snapshot.
type listedWaiter struct {
	waiter *fairqueue.Waiter
	pool   core.PoolID
	class  *classSnapshot
	flow   *fairqueue.FlowView
	place  int
}

// newViewer collects what matches of the queues.
func newViewer(p *ViewParams, queues []*queueSnapshot) *viewer {
	v := &viewer{params: p, classes: make(map[*classSnapshot]*ViewedClass)}
	v.Now = time.Now().UnixMilli() // if nobody waits
	for _, q := range queues {
		v.addQueue(q)
	}
	return v
}

// addQueue adds what matches of a queue.
func (v *viewer) addQueue(q *queueSnapshot) {
	v.Now = q.now
	if v.params.Pool != nil && *v.params.Pool != q.pool {
		return
	}
	pool := ViewedGroup{Pool: q.pool}
	tenants := make(map[core.TenantID]*ViewedGroup)
	for _, c := range q.classes {
		class := ViewedGroup{Pool: q.pool, Class: describeClass(c), Interval: c.Interval}
		v.classes[c] = class.Class
		for i := range c.flows {
			f := &c.flows[i]
			id := core.TenantID(f.Tenant)
			if v.params.Tenant != nil && *v.params.Tenant != id {
				continue
			}
			t := tenants[id]
			if t == nil {
				t = &ViewedGroup{Pool: q.pool, Tenant: &id, Weight: float64(f.Weight) / fairqueue.WeightScale}
				tenants[id] = t
			}
			for _, g := range []*ViewedGroup{&pool, &class, t} {
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
func (g *ViewedGroup) add(f *fairqueue.FlowView) {
	g.Waiting += f.Waiting
	for i := range f.Waiters {
		if g.Oldest == 0 || f.Waiters[i].Since < g.Oldest {
			g.Oldest = f.Waiters[i].Since
		}
	}
}

// finish orders the lists and cuts them.
func (v *viewer) finish() {
	slices.SortFunc(v.listed, func(a, b listedWaiter) int {
		return cmp.Or(cmp.Compare(a.waiter.Since, b.waiter.Since), cmp.Compare(a.waiter.ID, b.waiter.ID))
	})
	v.Truncated = v.Total > min(len(v.listed), v.params.Limit)
	for _, w := range v.listed[:min(len(v.listed), v.params.Limit)] {
		v.Requests = append(v.Requests, ViewedRequest{
			Waiter: *w.waiter, Job: JobOf(w.waiter), Pool: w.pool, Class: *v.classes[w.class], Place: w.place,
			Estimate: estimateOf(w.class.estimate(w.flow.Tenant, w.place, w.flow.Weight)),
		})
	}
	for _, list := range []*[]ViewedGroup{&v.Pools, &v.Classes, &v.Tenants} {
		slices.SortFunc(*list, compareGroups)
		if len(*list) > v.params.Limit {
			*list, v.Truncated = (*list)[:v.params.Limit], true
		}
	}
}

// compareGroups orders the groups with most waiters first.
func compareGroups(a, b ViewedGroup) int {
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
func describeClass(c *classSnapshot) *ViewedClass {
	d := &ViewedClass{ID: c.ID}
	if c.class == nil {
		return d
	}
	d.Direction = c.class.spec.Direction
	d.Requires = c.class.spec.ExtraRequirements()
	if tenant := c.class.spec.Tenant; tenant != "" {
		d.Requires = append(d.Requires, "tenant("+string(tenant)+")") // it has nodes of its own
	}
	if node := c.class.spec.Options.Preferred(); node != "" {
		d.Requires = append(d.Requires, "node("+string(node)+")")
	}
	for _, node := range c.class.except {
		d.Requires = append(d.Requires, "not_node("+string(node)+")")
	}
	return d
}

// Found is a request that waits.
type Found struct {
	Instance     core.InstanceID // empty: this one
	Job          core.JobID
	Tenant       core.TenantID
	Direction    core.Direction
	Since, Until time.Time // when it began to wait, and when it gives up
}

// Find returns the requests of a job that wait on other instances: those of a tenant, or all; nil: of any tenant.
func (q *Queue) Find(ctx context.Context, id core.JobID, tenant *core.TenantID) ([]Found, error) {
	queues, err := q.snapshots.get(ctx)
	if err != nil {
		return nil, store.CallError(ctx)
	}
	var found []Found
	v := newViewer(&ViewParams{Tenant: tenant}, queues)
	for _, w := range v.listed {
		if owner := core.InstanceID(w.waiter.Instance); JobOf(w.waiter) == id && owner != q.options.Instance {
			found = append(found, Found{
				Instance: owner, Job: id, Tenant: core.TenantID(w.waiter.Tenant), Direction: v.classes[w.class].Direction,
				Since: time.UnixMilli(w.waiter.Since), Until: time.UnixMilli(w.waiter.Deadline),
			})
		}
	}
	return found, nil
}
