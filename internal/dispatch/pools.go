package dispatch

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// maxSampledPools is in how many pools a sample of the nodes is tried before all nodes are.
const maxSampledPools = 8

// poolOf returns the pool of a job that got a slot on a node of which the declaration is known.
func poolOf(q *pick.Query, declared *core.Node) core.JobPool {
	p := core.JobPool{Bound: q.Pools.Job.Bound}
	if q.Pools.Division != nil {
		p.ID = q.Pools.Division.Assign(declared).Pool
	}
	return p
}

// affinePool returns the pool in which the job of a session is tried first: that of the job before, if it was given to its node a short time
// ago.
func (d *Dispatcher) affinePool(previous *PreviousJob) core.PoolID {
	division := d.fleet.Division()
	if division == nil || time.Since(previous.At) >= time.Duration(division.AffinitySeconds)*time.Second {
		return ""
	}
	return previous.Pool
}

// poolCounter counts which pools jobs are tried in, if the fleet is divided.
type poolCounter struct {
	metrics *telemetry.Pools
	fleet   *fleet.Fleet
}

// selected counts a job that got a slot.
func (c *poolCounter) selected(q *pick.Query, pool core.PoolID, fallback telemetry.PoolFallback) {
	if q.Pools.Division != nil {
		c.metrics.CountSelected(pool, fallback)
	}
}

// fallbackOf says where the n-th pool that is tried for a job is.
func fallbackOf(n int, eligible bool) telemetry.PoolFallback {
	switch {
	case !eligible:
		return telemetry.FallbackOutside
	case n > 0:
		return telemetry.FallbackNext
	}
	return telemetry.FallbackNone
}

// failed counts a pool in which a job got no slot, with the nodes that were drawn there.
func (c *poolCounter) failed(q *pick.Query, pool core.PoolID, drawn []core.Candidate) {
	if q.Pools.Division == nil {
		return
	}
	reasons := make(map[core.Reason]int)
	for i := range drawn {
		reasons[drawn[i].Reason]++
	}
	c.metrics.CountFailed(pool, core.PoolReason(core.MainReason(reasons)))
}

// refused counts a job that got no slot in any pool. The pool to which it is bound counts as tried also if it has no node for the direction.
func (c *poolCounter) refused(q *pick.Query, route *fleet.Route) {
	if q.Pools.Division == nil {
		return
	}
	if !q.Pools.Job.Bound {
		c.metrics.CountRefused("")
		return
	}
	id := q.Pools.Job.ID
	c.metrics.CountRefused(id)
	if !route.Has(id) {
		c.metrics.CountFailed(id, core.PoolReason(c.gap(q, id)))
	}
}

// maxGapNodes bounds how many nodes of a pool are asked why it has none for a direction.
const maxGapNodes = 1000

// gap returns why most nodes of a pool cannot serve the direction.
func (c *poolCounter) gap(q *pick.Query, pool core.PoolID) core.Reason {
	reasons := make(map[core.Reason]int)
	asked := 0
	for n := range c.fleet.Divided().In(pool) {
		if asked++; asked > maxGapNodes {
			break
		}
		if reason := q.Requirement.Mismatch(&n.Declared().Capability); reason != core.ReasonNone {
			reasons[reason]++
		}
	}
	return core.MainReason(reasons)
}
