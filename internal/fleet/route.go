package fleet

import (
	"iter"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// routeMaxAge is for how long the number of ready nodes of each pool is used before it is counted again.
const routeMaxAge = Instant(250 * time.Millisecond)

// Stop is a pool that has nodes for a direction.
type Stop struct {
	View              // of its index, a moment ago
	Pool  core.PoolID // empty: the nodes that belong to no capability pool
	Ready int         // nodes that get jobs while they have free slots, as they were counted a moment ago
	_     [8]byte     // fills the cache line, so that no stop extends into a second
}

// Route has the pools for a direction. It does not change.
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

	entry *entry
	at    Instant
}

// Closed reports whether the indexes of the route are not kept up to date any more: they are empty, which says nothing about the fleet. Ask for
// the route again.
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

// All iterates over the nodes for the direction, ready or not, in no order.
func (r *Route) All() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, stop := range append(slices.Clone(r.Stops), r.Outside) {
			if stop.Index == nil {
				continue
			}
			for m := range stop.Index.All() {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// Has reports whether a pool has nodes for the direction.
func (r *Route) Has(id core.PoolID) bool {
	return slices.ContainsFunc(r.Stops, func(s Stop) bool { return s.Pool == id })
}

// IsEmpty reports whether there are no nodes for the direction, as they were counted a moment ago.
func (r *Route) IsEmpty() bool {
	return r.Outside.Index == nil && (len(r.Stops) == 0 || len(r.Stops) == 1 && r.Stops[0].Index.Len() == 0)
}

// noRestriction is fulfilled by every node.
var noRestriction core.Restriction

// Route returns the pools for a direction. Only the first call for a direction may wait.
func (f *Fleet) Route(d core.Direction, tts bool) *Route {
	return f.RestrictedRoute(d, tts, &noRestriction)
}

// RestrictedRoute returns the pools for a direction with the nodes that fulfil a restriction, or with all nodes for the direction: restrictions
// of many names have no indexes, nor have those for which there is no room. So filter each node. Only the first call for a direction and a
// restriction may wait.
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
	r := &Route{Requirement: &e.requirement, Division: d.definition, entry: e, at: now}
	if old != nil {
		r.Stops, r.Ends = make([]Stop, 0, len(old.Stops)), make([]int32, 0, len(old.Stops))
	}
	for i, p := range d.pools {
		x := e.indexes[i].Load()
		if x == nil {
			continue
		}
		stop := Stop{View: x.View(), Pool: p.ID, Ready: x.members.common(&p.ready)}
		switch {
		case d.definition != nil && x.Len() == 0:
		case d.definition != nil && i == 0:
			r.Outside = stop
		default:
			r.Add(stop)
		}
	}
	e.route.Store(r)
	return r
}
