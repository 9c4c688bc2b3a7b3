package pick

import (
	"slices"
	"sort"

	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// PoolOrder goes through the pools of a route in a random order in which each next pool is chosen with a weight of its ready nodes. So the
// first pool of a job, and a node in it, are chosen as if all nodes were in one pool.
type PoolOrder struct {
	picker  *Picker
	route   *fleet.Route
	visited []int // positions in the route
	left    int   // the ready nodes of the pools that were not visited
}

// Order begins an order of the pools of a route. Its memory is used again if it is begun again.
func (o *PoolOrder) Order(p *Picker, r *fleet.Route) {
	*o = PoolOrder{picker: p, route: r, visited: o.visited[:0], left: r.Ready()}
}

// Next returns the next pool; false if all were visited. Pools without ready nodes come last.
func (o *PoolOrder) Next() (fleet.Stop, bool) {
	stops := o.route.Stops
	if len(o.visited) == len(stops) {
		return fleet.Stop{}, false
	}
	i := 0
	switch {
	case o.left <= 0:
		for slices.Contains(o.visited, i) {
			i++
		}
	case len(o.visited) == 0:
		nth := o.picker.intN(o.left)
		i = sort.Search(len(stops), func(k int) bool { return nth < stops[k].Before+stops[k].Ready })
	default:
		i = o.weighted(o.picker.intN(o.left))
	}
	o.visited = append(o.visited, i)
	o.left -= stops[i].Ready
	return stops[i], true
}

// weighted returns the position of the pool with the n-th ready node of those that were not visited.
func (o *PoolOrder) weighted(n int) int {
	for i := range o.route.Stops {
		if slices.Contains(o.visited, i) {
			continue
		}
		if n -= o.route.Stops[i].Ready; n < 0 {
			return i
		}
	}
	panic("pick: fewer nodes are ready than were counted")
}
