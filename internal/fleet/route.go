package fleet

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// routeMaxAge is for how long the number of ready nodes of each pool is used before it is counted again.
const routeMaxAge = Instant(250 * time.Millisecond)

// Stop is a pool that has nodes for a direction.
type Stop struct {
	Pool  core.PoolID // empty: the nodes that belong to no capability pool
	Index *Index
	Ready int // nodes that get jobs while they have free slots, as they were counted a moment ago
	// Before is the number of ready nodes of all stops before this one.
	Before int
}

// Route has the pools for a direction. It does not change.
type Route struct {
	Definition *core.Pools // by which the fleet is divided; nil: it is not
	Stops      []Stop      // one for each pool that has nodes for the direction, ready or not
	at         Instant
}

// Ready returns the number of ready nodes of all stops.
func (r *Route) Ready() int {
	if len(r.Stops) == 0 {
		return 0
	}
	last := &r.Stops[len(r.Stops)-1]
	return last.Before + last.Ready
}

// Route returns the pools for a direction. Only the first call for a direction may wait.
func (f *Fleet) Route(d core.Direction, tts bool) *Route {
	return f.division.Load().route(f, indexKey{d, tts})
}

// route is kept with the index of the first pool.
func (d *division) route(f *Fleet, key indexKey) *Route {
	now := f.Now()
	first := d.pools[0].index(key, now, &f.mu)
	if r := first.route.Load(); r != nil && now-r.at < routeMaxAge {
		return r
	}
	r := &Route{Definition: d.definition, at: now}
	for _, p := range d.pools {
		x := p.index(key, now, &f.mu)
		if len(d.pools) == 1 || x.Len() > 0 {
			r.Stops = append(r.Stops, Stop{Pool: p.ID, Index: x, Ready: x.members.common(&p.ready), Before: r.Ready()})
		}
	}
	first.route.Store(r)
	return r
}
