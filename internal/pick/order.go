package pick

import (
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// order goes through the pools of a route for one job: first those that are eligible, then the others in which the job may run. Within these
// groups the order is random, and each next pool is chosen with a weight of its ready nodes. So the first pool of a job, and a node in it,
// are chosen as if all nodes were in one pool.
type order struct {
	intN     func(n int) int
	route    *fleet.Route
	rule     *core.PoolRule
	first    core.PoolID // comes first if it has ready nodes; empty: none
	eligible bool        // the group is that of the eligible pools
	group    []fleet.Stop
	ends     []int32 // of the group, as in a route
	visited  []int   // positions in the group
	left     int     // the ready nodes of the pools of the group that were not visited

	ownGroup []fleet.Stop // memory for a group that is not that of the route
	ownEnds  []int32
}

// begin begins an order. Its memory is used again.
func (o *order) begin(intN func(n int) int, route *fleet.Route, rule *core.PoolRule, first core.PoolID) {
	*o = order{
		intN: intN, route: route, rule: rule, first: first, eligible: true, visited: o.visited[:0], ownGroup: o.ownGroup[:0], ownEnds: o.ownEnds[:0],
	}
	if rule.AllEligible() {
		o.group, o.ends = route.Stops, route.Ends
	} else {
		o.collect(rule.Eligible)
	}
	o.left = fleet.Total(o.ends)
}

// end releases the route: a later one may be in force.
func (o *order) end() {
	clear(o.ownGroup)
	*o = order{visited: o.visited[:0], ownGroup: o.ownGroup[:0], ownEnds: o.ownEnds[:0]}
}

// collect makes a group of the pools that are wanted.
func (o *order) collect(wanted func(core.PoolID) bool) {
	o.ownGroup, o.ownEnds = o.ownGroup[:0], o.ownEnds[:0]
	for i := range o.route.Stops {
		if wanted(o.route.Stops[i].Pool) {
			o.add(&o.route.Stops[i])
		}
	}
	o.group, o.ends = o.ownGroup, o.ownEnds
}

// add adds a pool to the group that is being made.
func (o *order) add(s *fleet.Stop) {
	o.ownGroup, o.ownEnds = append(o.ownGroup, *s), fleet.AppendEnd(o.ownEnds, s.Ready)
}

// next returns the next pool; nil if there is none. Pools without ready nodes come last in their group.
func (o *order) next() *fleet.Stop {
	if len(o.visited) == len(o.group) && !o.enterOthers() {
		return nil
	}
	i := o.choose()
	o.visited = append(o.visited, i)
	o.left -= o.group[i].Ready
	return &o.group[i]
}

// enterOthers continues with the pools that are not eligible, and the nodes without a pool, and reports whether there are any in which the job
// may run.
func (o *order) enterOthers() bool {
	if !o.eligible || o.rule.Restricts() {
		return false
	}
	o.eligible, o.visited = false, o.visited[:0]
	o.collect(func(id core.PoolID) bool { return !o.rule.Eligible(id) })
	if o.route.Outside.Index != nil {
		o.add(&o.route.Outside)
		o.group, o.ends = o.ownGroup, o.ownEnds
	}
	o.left = fleet.Total(o.ends)
	return len(o.group) > 0
}

// choose returns the position of the next pool in the group.
func (o *order) choose() int {
	if len(o.group) == 1 {
		return 0
	}
	if o.first != "" && len(o.visited) == 0 {
		if i := slices.IndexFunc(o.group, func(s fleet.Stop) bool { return s.Pool == o.first && s.Ready > 0 }); i >= 0 {
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

// stopOf returns the position of the pool with the n-th ready node of the group. It begins where the pool would be if all had as many nodes:
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
	for i := range o.group {
		if slices.Contains(o.visited, i) {
			continue
		}
		if n -= o.group[i].Ready; n < 0 {
			return i
		}
	}
	panic("pick: fewer nodes are ready than were counted")
}
