package pick

import (
	"iter"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// FilterMembers iterates over the nodes of a route with the reason for which each is rejected, as Filter returns it. The pool of a node is the
// one in which the route has it, so no node is assigned to its pool once more.
func (p *Picker) FilterMembers(q *Query, route *fleet.Route) iter.Seq2[fleet.Member, core.Reason] {
	return func(yield func(fleet.Member, core.Reason) bool) {
		for i := range route.Stops {
			if !p.filterStop(q, &route.Stops[i], yield) {
				return
			}
		}
		if route.Outside.Index != nil {
			p.filterStop(q, &route.Outside, yield)
		}
	}
}

// filterStop yields the nodes of one pool, until yield returns false.
func (p *Picker) filterStop(q *Query, stop *fleet.Stop, yield func(fleet.Member, core.Reason) bool) bool {
	allowed := q.Pools.Allows(stop.Pool)
	for m := range stop.Index.All() {
		var reason core.Reason
		if allowed {
			reason = p.filterMember(q, m.Node)
		} else {
			reason = rejectedByPool(q, m.Node)
		}
		if !yield(m, reason) {
			return false
		}
	}
	return true
}

// rejectedByPool returns why a node of a pool in which the job must not run is rejected. What a tenant must not know of has no other reason.
func rejectedByPool(q *Query, n *fleet.Node) core.Reason {
	if n.Summary().Tenant() && !n.Declared().Serves(q.Tenant) {
		return core.ReasonTenant
	}
	return core.ReasonPool
}
