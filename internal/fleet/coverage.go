package fleet

import (
	"iter"
	"maps"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Coverage says how well directions are covered: for each, and for each group of nodes on which its jobs depend, how many nodes there are.
type Coverage struct {
	Requirements []core.Requirement // of the directions

	division *core.Pools
	shared   map[core.PoolID][]Covered // by direction, of the nodes that serve every tenant
	own      map[ownGroup]Covered      // of the nodes of single tenants
	pools    map[core.PoolID]bool      // that have registered nodes, for whatever direction
}

type ownGroup struct {
	core.CoverGroup
	direction int
}

// Covered counts nodes that serve a direction.
type Covered struct {
	Nodes           int // registered ones, whatever their state
	Ready           int // of these, that get jobs while they have free slots
	Slots, Withheld int // of all that would get jobs if they were admitted
}

func (c *Covered) add(o Covered) {
	c.Nodes += o.Nodes
	c.Ready += o.Ready
	c.Slots += o.Slots
	c.Withheld += o.Withheld
}

// CoveringNode is a node as it counts.
type CoveringNode struct {
	Declared *core.Node
	Pool     core.PoolID
	// Usable means that it would get jobs if it had free slots and were admitted.
	Usable bool
	Silent bool // it is not in view
}

// Ready reports whether the node gets jobs while it has free slots.
func (n *CoveringNode) Ready() bool { return n.Usable && n.Declared.Slots() > 0 }

// covered is what one node adds to the groups that depend on it.
func (n *CoveringNode) covered() Covered {
	c := Covered{Nodes: 1}
	if n.Usable {
		c.Slots, c.Withheld = n.Declared.MaxJobs, n.Declared.MaxJobs-n.Declared.Slots()
		if n.Ready() {
			c.Ready = 1
		}
	}
	return c
}

// Covering iterates over all nodes as they count, those in view before the silent ones.
func (f *Fleet) Covering() iter.Seq[CoveringNode] {
	return func(yield func(CoveringNode) bool) {
		division, now := f.Divided(), f.Now()
		for pool, members := range division.All() {
			for n := range members {
				declared := n.Declared()
				if !yield(CoveringNode{Declared: declared, Pool: pool, Usable: isUsable(declared, n, now)}) {
					return
				}
			}
		}
		for declared := range f.Silent() {
			n := CoveringNode{Declared: declared, Silent: true}
			if division.Definition() != nil {
				n.Pool = division.Definition().Assign(declared).Pool
			}
			if !yield(n) {
				return
			}
		}
	}
}

// CoveringNode returns a node in view as it counts with a declaration.
func (f *Fleet) CoveringNode(declared *core.Node) CoveringNode {
	c := CoveringNode{Declared: declared}
	if division := f.Division(); division != nil {
		c.Pool = division.Assign(declared).Pool
	}
	if n := f.Node(declared.ID); n != nil {
		c.Usable = isUsable(declared, n, f.Now())
	}
	return c
}

// isUsable reports whether a node with a declaration would get jobs if it had free slots and were admitted.
func isUsable(declared *core.Node, n *Node, now Instant) bool {
	return declared.AcceptsJobs() && declared.Reachable() && n.Unready(false, now) == core.ReasonNone
}

// Cover counts the nodes of the fleet for directions. It is a pass over all nodes.
func (f *Fleet) Cover(directions []core.Direction) *Coverage {
	c := &Coverage{division: f.Division(), shared: make(map[core.PoolID][]Covered), own: make(map[ownGroup]Covered),
		pools: make(map[core.PoolID]bool)}
	for _, d := range directions {
		c.Requirements = append(c.Requirements, core.NewRequirement(d, false))
	}
	for n := range f.Covering() {
		c.count(&n)
	}
	return c
}

// count adds a node to the groups that depend on it.
func (c *Coverage) count(n *CoveringNode) {
	c.pools[n.Pool] = true
	covered := n.covered()
	for i, g := range c.dependents(n) {
		c.change(g, i, covered, 1)
	}
}

// Replace counts a node as it is after a decision.
func (c *Coverage) Replace(before, after *CoveringNode) {
	was, is := before.covered(), after.covered()
	for i, g := range c.dependents(before) {
		c.change(g, i, was, -1)
	}
	for i, g := range c.dependents(after) {
		c.change(g, i, is, 1)
	}
}

func (c *Coverage) change(g core.CoverGroup, direction int, by Covered, sign int) {
	by = Covered{sign * by.Nodes, sign * by.Ready, sign * by.Slots, sign * by.Withheld}
	if g.Tenant != "" {
		key := ownGroup{g, direction}
		sum := c.own[key]
		sum.add(by)
		c.own[key] = sum
		return
	}
	counts := c.shared[g.Pool]
	if counts == nil {
		counts = make([]Covered, len(c.Requirements))
		c.shared[g.Pool] = counts
	}
	counts[direction].add(by)
}

// dependents iterates over the directions that a node serves and the groups that depend on it.
func (c *Coverage) dependents(n *CoveringNode) iter.Seq2[int, core.CoverGroup] {
	return func(yield func(int, core.CoverGroup) bool) {
		groups, count := c.division.CoverGroupsOf(n.Declared.Tenant, n.Pool)
		for i := range c.Requirements {
			if c.Requirements[i].Mismatch(&n.Declared.Capability) != core.ReasonNone {
				continue
			}
			for _, g := range groups[:count] {
				if !yield(i, g) {
					return
				}
			}
		}
	}
}

// Of returns how well a direction is covered by a group.
func (c *Coverage) Of(g core.CoverGroup, direction int) Covered {
	var sum Covered
	if counts := c.shared[g.Pool]; counts != nil {
		sum = counts[direction]
	}
	if g.Tenant != "" {
		sum.add(c.own[ownGroup{g, direction}])
	}
	return sum
}

// Needs calls fn with each group that depends on a node and how well it would be covered without it, until fn returns false.
func (c *Coverage) Needs(n *CoveringNode) iter.Seq2[Cover, Covered] {
	return func(yield func(Cover, Covered) bool) {
		own := n.covered()
		for i, g := range c.dependents(n) {
			rest := c.Of(g, i)
			rest.add(Covered{-own.Nodes, -own.Ready, -own.Slots, -own.Withheld})
			if !yield(Cover{g, c.Requirements[i].Direction}, rest) {
				return
			}
		}
	}
}

// Cover names what is covered.
type Cover struct {
	core.CoverGroup
	core.Direction
}

// String describes it for people.
func (c Cover) String() string { return c.Direction.String() + c.CoverGroup.String() }

// All iterates over what has to be covered, and how well it is: for each direction the groups that have registered nodes for it, and all
// nodes if none has any; and every pool to which tenants are bound and that has no registered nodes at all. The groups of a direction have
// an order.
func (c *Coverage) All() iter.Seq2[Cover, Covered] {
	groups := make([][]core.CoverGroup, len(c.Requirements)) // of which nodes are registered
	for pool, counts := range c.shared {
		for i := range counts {
			if counts[i].Nodes > 0 {
				groups[i] = append(groups[i], core.CoverGroup{Pool: pool})
			}
		}
	}
	for g, covered := range c.own {
		if covered.Nodes > 0 {
			groups[g.direction] = append(groups[g.direction], g.CoverGroup)
		}
	}
	empty := c.emptyBoundPools()
	return func(yield func(Cover, Covered) bool) {
		for i, list := range groups {
			if len(list) == 0 {
				list = append(list, core.CoverGroup{})
			}
			list = append(list, empty...)
			slices.SortFunc(list, core.CompareCoverGroups)
			for _, g := range list {
				if !yield(Cover{g, c.Requirements[i].Direction}, c.Of(g, i)) {
					return
				}
			}
		}
	}
}

// emptyBoundPools returns the pools to which tenants are bound and that have no registered nodes at all.
func (c *Coverage) emptyBoundPools() []core.CoverGroup {
	if c.division == nil {
		return nil
	}
	empty := make(map[core.CoverGroup]bool)
	for _, pool := range c.division.Overrides {
		if !c.pools[pool] {
			empty[core.CoverGroup{Pool: pool}] = true
		}
	}
	return slices.Collect(maps.Keys(empty))
}
