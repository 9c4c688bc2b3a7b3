package fleet

import (
	"iter"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// routeMaxAge is for how long the number of ready nodes of each pool is used before it is counted again.
const routeMaxAge = Instant(250 * time.Millisecond)

// Stop is a pool that has nodes for the jobs of a route. It fills one cache line, so that no stop extends into a second.
type Stop struct {
	View              // of its nodes that serve the tenant, a moment ago
	Pool  core.PoolID // empty: the nodes that belong to no capability pool
	Ready int         // nodes of the view that get jobs while they have free slots, as they were counted a moment ago
}

// Route has the pools for a direction, as they are for the jobs of tenants that have no nodes of their own; For returns them for the jobs
// of another tenant. Nodes that do not serve the tenant are no members of a stop, and do not count. It does not change.
type Route struct {
	Requirement *core.Requirement
	Division    *core.Pools // by which the fleet is divided; nil: it is not
	// Stops has one element for each pool that has nodes for the direction, ready or not. If the fleet is not divided it has one, with all
	// nodes.
	Stops []Stop
	// Ends has for each stop the number of ready nodes up to its end.
	Ends []int32
	// Outside has the nodes for the direction that belong to no pool. It has no index if there are none.
	Outside Stop

	division *division
	entry    *entry
	at       Instant

	tenants sync.Map // what For has returned: a *Route by core.TenantID
}

// Closed reports whether the indexes of the route are not kept up to date any more: they are empty, which says nothing about the fleet. Ask
// for the route again.
func (r *Route) Closed() bool { return r.entry != nil && r.entry.closed.Load() }

// Add adds a stop.
func (r *Route) Add(s Stop) {
	r.Stops, r.Ends = append(r.Stops, s), AppendEnd(r.Ends, s.Ready)
}

// AppendEnd appends the number of ready nodes up to the end of one more stop.
func AppendEnd(ends []int32, ready int) []int32 { return append(ends, int32(Total(ends)+ready)) }

// Total returns the number of ready nodes up to the last end.
func Total(ends []int32) int {
	if len(ends) == 0 {
		return 0
	}
	return int(ends[len(ends)-1])
}

// Indexes iterates over the indexes of the direction as they are now, of every pool that has, or had, nodes for it, whatever tenants they
// serve. The first is of the nodes that belong to no capability pool: if the fleet is not divided, of all.
func (r *Route) Indexes() iter.Seq[*Index] { return r.entry.all() }

// All iterates over the nodes for the direction as they are now, ready or not and whatever tenant they serve, in no order.
func (r *Route) All() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for x := range r.Indexes() {
			for m := range x.All() {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// IsEmpty reports whether there are no nodes for the jobs of the route, as they were counted a moment ago.
func (r *Route) IsEmpty() bool {
	return r.Outside.Index == nil && (len(r.Stops) == 0 || len(r.Stops) == 1 && r.Stops[0].isEmpty())
}

// isEmpty reports whether the pool has no nodes any more.
func (s *Stop) isEmpty() bool { return s.Len == 0 && !s.IsWhole() || s.Index.Len() == 0 }

// noRestriction is fulfilled by every node.
var noRestriction core.Restriction

// Route returns the pools for a direction. Only the first call for a direction may wait.
func (f *Fleet) Route(d core.Direction, tts bool) *Route {
	return f.RestrictedRoute(d, tts, &noRestriction)
}

// RestrictedRoute returns the pools for a direction with the nodes that fulfil a restriction, or with all nodes for the direction:
// restrictions of many names have no indexes, nor have those for which there is no room. So filter each node. Only the first call for a
// direction and a restriction may wait.
func (f *Fleet) RestrictedRoute(d core.Direction, tts bool, r *core.Restriction) *Route {
	return f.division.Load().route(f, indexKey{d, tts, r.Key()}, r)
}

func (d *division) route(f *Fleet, key indexKey, restriction *core.Restriction) *Route {
	now := f.Now()
	e := d.entry(key, restriction, now, &f.mu)
	if e == nil { // the nodes are filtered one by one
		return d.route(f, indexKey{Direction: key.Direction, tts: key.tts}, &noRestriction)
	}
	old := e.route.Load()
	if old != nil && now-old.at < routeMaxAge {
		return old
	}
	r := &Route{Requirement: &e.requirement, Division: d.definition, division: d, entry: e, at: now}
	if old != nil {
		r.Stops, r.Ends = make([]Stop, 0, len(old.Stops)), make([]int32, 0, len(old.Stops))
	}
	for i, p := range d.pools {
		r.addPool(i, p.stopFor(e.indexes[i].Load(), nil))
	}
	e.route.Store(r)
	return r
}

// addPool adds a pool by its number, if it has nodes for the jobs of the route.
func (r *Route) addPool(number int, s Stop) {
	switch {
	case r.Division != nil && s.Len == 0:
	case r.Division != nil && number == 0:
		r.Outside = s
	default:
		r.Add(s)
	}
}

// For returns the route for the jobs of a tenant, from that of Fleet.Route. It is another one only if the tenant has nodes of its own.
func (r *Route) For(tenant core.TenantID) *Route {
	own := r.division.tenants.of(tenant)
	if own == nil {
		return r
	}
	if t, known := r.tenants.Load(tenant); known {
		return t.(*Route)
	}
	t := &Route{Requirement: r.Requirement, Division: r.Division, division: r.division, entry: r.entry, at: r.at}
	t.Stops, t.Ends = make([]Stop, 0, len(r.Stops)+len(own)), make([]int32, 0, len(r.Stops)+len(own))
	shared := r.Stops
	for i, p := range r.division.pools {
		s := Stop{}
		switch {
		case len(shared) > 0 && shared[0].Index == r.entry.indexes[i].Load():
			s, shared = shared[0], shared[1:]
		case i == 0:
			s = r.Outside
		}
		if len(own) > 0 && own[0].number == i { // in all other pools it has the nodes that serve every tenant
			s, own = p.stopFor(r.entry.indexes[i].Load(), own[0].slots), own[1:]
		}
		t.addPool(i, s)
	}
	r.tenants.Store(tenant, t)
	return t
}
