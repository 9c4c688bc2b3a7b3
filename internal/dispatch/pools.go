package dispatch

import (
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// maxSampledPools is in how many pools a sample of the nodes is tried before all nodes are.
const maxSampledPools = 8

// poolOf returns the pool of a job that got a slot on a node with this declaration. A job that is bound stays in its pool: the slot was
// granted for a declaration with which the node belonged to it, and this one may be later.
func poolOf(q *pick.Query, declared *core.Node) core.JobPool {
	switch {
	case q.Pools.Job.Bound:
		return q.Pools.Job
	case q.Pools.Division == nil:
		return core.JobPool{}
	}
	return core.JobPool{ID: q.Pools.Division.Assign(declared).Pool}
}

// affinePool returns the pool in which the job of a session is tried first: that of the job before, if it was given to its node a short
// time ago.
func (d *Dispatcher) affinePool(previous *PreviousJob) core.PoolID {
	division := d.fleet.Division()
	if division == nil || time.Since(previous.At) >= time.Duration(division.AffinitySeconds)*time.Second {
		return ""
	}
	return previous.Pool
}

// triedPools are the pools in which one selection has tried to place a job.
type triedPools struct {
	any    bool
	first  core.PoolID // if any was tried
	failed []failedPool
}

// failedPool is a pool in which a job got no slot, with the most frequent reason of the nodes that were drawn there.
type failedPool struct {
	id     core.PoolID
	reason core.Reason
}

// begin records that a pool is tried.
func (t *triedPools) begin(id core.PoolID) {
	if !t.any {
		t.any, t.first = true, id
	}
}

// fail records that a pool has no slot. It may be tried more than once, with other nodes.
func (t *triedPools) fail(id core.PoolID, reason core.Reason) {
	for i := range t.failed {
		if t.failed[i].id == id {
			t.failed[i].reason = reason
			return
		}
	}
	t.failed = append(t.failed, failedPool{id, reason})
}

// has reports whether a pool was tried in vain.
func (t *triedPools) has(id core.PoolID) bool {
	return slices.ContainsFunc(t.failed, func(f failedPool) bool { return f.id == id })
}

// fallback says where a job got a slot, compared with where it was tried first.
func (t *triedPools) fallback(rule *core.PoolRule, id core.PoolID) telemetry.PoolFallback {
	switch {
	case !rule.Eligible(id):
		return telemetry.FallbackOutside
	case t.any && t.first != id:
		return telemetry.FallbackNext
	}
	return telemetry.FallbackNone
}

// mainReason returns the most frequent reason of some nodes.
func mainReason(nodes []core.Candidate) core.Reason {
	reasons := make(map[core.Reason]int)
	for i := range nodes {
		reasons[nodes[i].Reason]++
	}
	return core.MainReason(reasons)
}

// poolCounter counts which pools jobs are tried in, if the fleet is divided. Of a job for which nodes are selected repeatedly because it
// waits, only the last selection counts.
type poolCounter struct {
	metrics *telemetry.Pools
	fleet   *fleet.Fleet
	picker  *pick.Picker
}

// selected counts a job that got a slot in a pool, and the pools in which it was tried in vain before.
func (c *poolCounter) selected(x *search, pool core.PoolID) {
	rule := &x.query.Pools
	if rule.Division == nil {
		return
	}
	for _, f := range x.tried.failed {
		if f.id != pool {
			c.metrics.CountFailed(f.id, f.reason.OfPool())
		}
	}
	c.metrics.CountSelected(pool, x.tried.fallback(rule, pool))
}

// refused counts a job that was refused because it got no slot in any pool.
func (c *poolCounter) refused(r *refusedSelection) {
	if r.query.Pools.Division == nil {
		return
	}
	id := core.PoolID("")
	if r.query.Pools.Job.Bound {
		id = r.query.Pools.Job.ID
	}
	c.metrics.CountRefused(id)
	c.failed(r)
}

// failed counts the pools in which a job got no slot. The pool to which it is bound counts as tried also if it has no node for the job.
func (c *poolCounter) failed(r *refusedSelection) {
	if r.query.Pools.Division == nil {
		return
	}
	for _, f := range r.tried.failed {
		c.metrics.CountFailed(f.id, f.reason.OfPool())
	}
	if bound := r.query.Pools.Job; bound.Bound && !r.tried.has(bound.ID) {
		c.metrics.CountFailed(bound.ID, c.gap(&r.query, bound.ID).OfPool())
	}
}

// maxGapNodes bounds how many nodes of a pool are asked why it has none for a job.
const maxGapNodes = 1000

// gap returns why most nodes of a pool cannot do a job.
func (c *poolCounter) gap(q *pick.Query, pool core.PoolID) core.Reason {
	anywhere := *q
	anywhere.Pools = core.PoolRule{} // to assign each node to its pool again is expensive
	reasons := make(map[core.Reason]int)
	asked := 0
	for n := range c.fleet.Divided().In(pool) {
		if asked++; asked > maxGapNodes {
			break
		}
		if reason := c.picker.Filter(&anywhere, n); reason != core.ReasonNone {
			reasons[reason]++
		}
	}
	return core.MainReason(reasons)
}
