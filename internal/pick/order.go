package pick

import (
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// Group is a part of the pools in which a job may run. A job leaves the eligible pools only if none of their nodes has a free slot.
type Group uint8

const (
	// Eligible are the pools that are eligible for the job.
	Eligible Group = iota
	// Others are the other pools, and the nodes without a pool.
	Others
)

// order goes through the pools of a route for one job that are in a group and in which the job may run. The order is random, and each next
// pool is chosen with a weight of its ready nodes. So the first pool of a job, and a node in it, are chosen as if all nodes were in one
// pool.
type order struct {
	intN    func(n int) int
	route   *fleet.Route
	first   core.PoolID // comes first if it has ready nodes; empty: none
	stops   []fleet.Stop
	ends    []int32 // of the stops, as in a route
	visited []int   // positions in stops
	left    int     // the ready nodes of the pools that were not visited

	ownStops []fleet.Stop // memory for stops that are not those of the route
	ownEnds  []int32
}

// begin begins an order. Its memory is used again.
func (o *order) begin(intN func(n int) int, route *fleet.Route, group Group, rule *core.PoolRule, first core.PoolID) {
	*o = order{intN: intN, route: route, first: first, visited: o.visited[:0], ownStops: o.ownStops[:0], ownEnds: o.ownEnds[:0]}
	switch all := rule.AllEligible(); {
	case group == Eligible && all:
		o.stops, o.ends = route.Stops, route.Ends
	case group == Eligible:
		o.collect(rule, true)
	case !rule.Restricts():
		if !all {
			o.collect(rule, false)
		}
		if route.Outside.Index != nil {
			o.add(&route.Outside)
		}
	}
	o.left = fleet.Total(o.ends)
}

// end releases the route: a later one may be in force.
func (o *order) end() {
	clear(o.ownStops)
	*o = order{visited: o.visited[:0], ownStops: o.ownStops[:0], ownEnds: o.ownEnds[:0]}
}

// collect adds the pools that are eligible, or those that are not.
func (o *order) collect(rule *core.PoolRule, eligible bool) {
	for i := range o.route.Stops {
		if rule.Eligible(o.route.Stops[i].Pool) == eligible {
			o.add(&o.route.Stops[i])
		}
	}
}

// add adds a pool.
func (o *order) add(s *fleet.Stop) {
	o.ownStops, o.ownEnds = append(o.ownStops, *s), fleet.AppendEnd(o.ownEnds, s.Ready)
	o.stops, o.ends = o.ownStops, o.ownEnds
}

// next returns the next pool; nil if there is none. Pools without ready nodes come last.
func (o *order) next() *fleet.Stop {
	if len(o.visited) == len(o.stops) {
		return nil
	}
	i := o.choose()
	o.visited = append(o.visited, i)
	o.left -= o.stops[i].Ready
	return &o.stops[i]
}

// choose returns the position of the next pool.
func (o *order) choose() int {
	if len(o.stops) == 1 {
		return 0
	}
	if o.first != "" && len(o.visited) == 0 {
		if i := slices.IndexFunc(o.stops, func(s fleet.Stop) bool { return s.Pool == o.first && s.Ready > 0 }); i >= 0 {
			return i
		}
	}
	switch {
	case o.left <= 0:
		i := 0
		for slices.Contains(o.visited, i) {
			i++
		}
		return i
	case len(o.visited) == 0:
		return o.stopOf(o.intN(o.left))
	}
	return o.weighted(o.intN(o.left))
}

// stopOf returns the position of the pool with the n-th ready node. It begins where the pool would be if all had as many nodes:
// mostly that is near, so that few cache lines are read.
func (o *order) stopOf(n int) int {
	i := n * len(o.ends) / o.left
	for i > 0 && int(o.ends[i-1]) > n {
		i--
	}
	for int(o.ends[i]) <= n {
		i++
	}
	return i
}

// weighted returns the position of the pool with the n-th ready node of those that were not visited.
func (o *order) weighted(n int) int {
	for i := range o.stops {
		if slices.Contains(o.visited, i) {
			continue
		}
		if n -= o.stops[i].Ready; n < 0 {
			return i
		}
	}
	panic("pick: fewer nodes are ready than were counted")
}
