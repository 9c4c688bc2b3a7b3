package nodes

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Node returns one node.
func (r *Registry) Node(ctx context.Context, id core.NodeID) (store.NodeStatus, error) {
	status, err := store.ReadNode(ctx, r.store, id)
	switch {
	case errors.Is(err, store.ErrNoNode):
		return store.NodeStatus{}, UnknownNode(id)
	case err != nil:
		return store.NodeStatus{}, r.storeError(ctx, "node", err)
	}
	return status, nil
}

// SetAsideFor returns for how much longer this instance gives a node no jobs because it did not acknowledge deliveries.
func (r *Registry) SetAsideFor(id core.NodeID) time.Duration {
	n := r.fleet.Node(id)
	if n == nil {
		return 0
	}
	return n.SetAsideFor(r.fleet.Now())
}

// Marks returns the marks of a node that are in force, as this instance knows them.
func (r *Registry) Marks(id core.NodeID) []fleet.ServiceMark {
	n := r.fleet.Node(id)
	if n == nil {
		return nil
	}
	return n.Marks(r.fleet.Now())
}

// PoolOf returns the capability pool of a node, or why it has none; false if there are no pools.
func (r *Registry) PoolOf(n *core.Node) (core.Assignment, bool) {
	division := r.fleet.Division()
	if division == nil {
		return core.Assignment{}, false
	}
	return division.Assign(n), true
}

// StateSilent is the state of a node that has sent no heartbeat for the presence time; the other states are those of its
// health.
const StateSilent = "silent"

// StateOf returns the state of a node that was last seen the given time ago.
func (r *Registry) StateOf(n *core.Node, age time.Duration) string {
	if age >= r.cfg.Presence && n.Health != core.HealthOffline {
		return StateSilent
	}
	return n.EffectiveHealth().String()
}

// Filter selects nodes. Zero fields select all.
type Filter struct {
	State  string    // as StateOf returns it
	Lang   core.Lang // that the node has for any service
	Region string
	Tenant *core.TenantID // only nodes of this tenant
}

// matches reports whether a declaration is selected, whatever the state of the node.
func (f *Filter) matches(n *core.Node) bool {
	c := &n.Capability
	return (f.Region == "" || f.Region == n.Region) && (f.Tenant == nil || *f.Tenant == n.Tenant) &&
		(f.Lang == "" || slices.Contains(c.Semantic, f.Lang) || slices.Contains(c.ASR, f.Lang) || slices.Contains(c.TTS, f.Lang))
}

// ListNodes lists nodes ordered by id, after a given id, and reports whether there are more. The ids of all nodes are read;
// of the nodes themselves only those of the page, and those that this instance cannot exclude by its fleet.
func (r *Registry) ListNodes(ctx context.Context, f Filter, after core.NodeID, limit int) (page []store.NodeStatus, more bool, err error) {
	all, err := r.store.Overdue(ctx, 0)
	if err != nil {
		return nil, false, r.storeError(ctx, "nodes", err)
	}
	ids := make([]core.NodeID, 0, len(all.Nodes))
	for _, s := range all.Nodes {
		if s.Node > after && r.mayMatch(&f, s.Node) {
			ids = append(ids, s.Node)
		}
	}
	slices.Sort(ids)
	for len(ids) > 0 && len(page) <= limit {
		n := min(len(ids), limit+1-len(page))
		batch, err := r.store.Nodes(ctx, ids[:n]...)
		if err != nil {
			return nil, false, r.storeError(ctx, "nodes", err)
		}
		ids = ids[n:]
		for _, s := range batch {
			if f.matches(s.Node) && (f.State == "" || f.State == r.StateOf(s.Node, s.Age)) {
				page = append(page, s)
			}
		}
	}
	if more = len(page) > limit; more {
		page = page[:limit]
	}
	return page, more, nil
}

// mayMatch reports whether a node may be selected, by its declaration in the fleet.
func (r *Registry) mayMatch(f *Filter, id core.NodeID) bool {
	n := r.fleet.Node(id)
	return n == nil || f.matches(n.Declared())
}

// DirectionCapacity says how well one direction is served.
type DirectionCapacity struct {
	core.Direction
	Nodes, Ready, Capacity, InFlight int
	// Uncovered are the pools, and the tenants, that have registered nodes for the direction and no ready one. It is nil if only some nodes
	// are selected.
	Uncovered []core.CoverGroup
}

// directionEntry is a direction that is being counted.
type directionEntry struct {
	DirectionCapacity
	groups map[core.CoverGroup]int // that have registered nodes, and how many of these are ready
}

// cover counts a node in the groups that depend on it.
func (c *directionEntry) cover(groups []core.CoverGroup, ready bool) {
	if c.groups == nil && len(groups) > 0 {
		c.groups = make(map[core.CoverGroup]int)
	}
	for _, g := range groups {
		n := c.groups[g]
		if ready {
			n++
		}
		c.groups[g] = n
	}
}

// uncovered lists the groups without a ready node.
func (c *directionEntry) uncovered() (list []core.CoverGroup) {
	for g, ready := range c.groups {
		if g.Tenant != "" {
			ready += c.groups[core.CoverGroup{Pool: g.Pool}]
		}
		if ready == 0 && g != (core.CoverGroup{}) {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, core.CompareCoverGroups)
	return list
}

// maxNodeDirections bounds how many directions of one node are counted.
const maxNodeDirections = 2_000

// DirectionFilter selects directions, and the nodes that count for them. Zero fields select all.
type DirectionFilter struct {
	Lang   core.Lang      // source or target
	Region string         // only nodes of this region
	Node   core.NodeID    // only this node
	Tenant *core.TenantID // only nodes of this tenant
	// Also are directions that are listed although no node serves them.
	Also []core.Direction
}

// ListDirections lists the directions that nodes declare and how well each is served, ordered by direction, after a given one, and
// reports whether there are more. It is computed from this instance's fleet; only the occupancy of the nodes that serve the
// page's directions is read from the store.
func (r *Registry) ListDirections(ctx context.Context, f DirectionFilter, after core.Direction, limit int) (list []DirectionCapacity,
	more bool, err error) {
	page := directionPage{after: after, limit: limit + 1, directions: make(map[core.Direction]*directionEntry)}
	for _, d := range f.Also {
		if f.Lang == "" || d.Src == f.Lang || d.Tgt == f.Lang {
			page.entry(d)
		}
	}
	divided := r.fleet.Divided()
	division := divided.Definition()
	// Without pools and tenants all nodes are in one group, for which the direction itself stands; and some nodes say nothing about a
	// group.
	grouped := (division != nil || divided.HasTenants()) && f.Region == "" && f.Node == "" && f.Tenant == nil
	for n := range r.fleet.Covering() {
		groups, count := division.CoverGroupsOf(n.Declared.Tenant, n.Pool)
		if !grouped {
			count = 0
		}
		for _, d := range f.directions(n.Declared) {
			c := page.directions[d]
			if !n.Silent {
				c = page.entry(d)
			}
			if c == nil {
				continue
			}
			c.cover(groups[:count], n.Ready())
			if n.Silent {
				continue
			}
			c.Nodes++
			if n.Usable && !n.Declared.Ejected() {
				c.Ready++
				c.Capacity += n.Declared.Slots()
			}
		}
	}
	page.truncate()
	for _, c := range page.directions {
		c.Uncovered = c.uncovered()
		list = append(list, c.DirectionCapacity)
	}
	slices.SortFunc(list, func(a, b DirectionCapacity) int { return compareDirections(a.Direction, b.Direction) })
	if more = len(list) > limit; more {
		list = list[:limit]
	}
	return list, more, r.countInFlight(ctx, f, list)
}

// directionPage collects the first directions after a given one in bounded memory: clients and nodes choose how many directions
// there are.
type directionPage struct {
	after      core.Direction
	limit      int
	directions map[core.Direction]*directionEntry
	last       *core.Direction // later directions were dropped; nil: none was dropped yet
}

// entry returns the entry of a direction; nil if it is not on the page.
func (p *directionPage) entry(d core.Direction) *directionEntry {
	if compareDirections(d, p.after) <= 0 || p.last != nil && compareDirections(d, *p.last) > 0 {
		return nil
	}
	entry := p.directions[d]
	if entry == nil {
		if len(p.directions) >= 2*p.limit {
			p.truncate()
			return p.entry(d)
		}
		entry = &directionEntry{DirectionCapacity: DirectionCapacity{Direction: d}}
		p.directions[d] = entry
	}
	return entry
}

// truncate drops all directions beyond the limit.
func (p *directionPage) truncate() {
	if len(p.directions) <= p.limit {
		return
	}
	all := slices.SortedFunc(maps.Keys(p.directions), compareDirections)
	for _, d := range all[p.limit:] {
		delete(p.directions, d)
	}
	p.last = &all[p.limit-1]
}

func compareDirections(a, b core.Direction) int {
	return cmp.Or(cmp.Compare(a.Src, b.Src), cmp.Compare(a.Tgt, b.Tgt))
}

// isGrantable reports whether a node would get a job of a direction that it serves, if it had a free slot.
func (r *Registry) isGrantable(n *fleet.Node) bool {
	declared := n.Declared()
	return declared.AcceptsJobs() && !declared.Ejected() && declared.Reachable() && n.Unready(false, r.fleet.Now()) == core.ReasonNone
}

// directions returns the selected directions of a node.
func (f *DirectionFilter) directions(n *core.Node) []core.Direction {
	if f.Region != "" && f.Region != n.Region || f.Node != "" && f.Node != n.ID || f.Tenant != nil && *f.Tenant != n.Tenant {
		return nil
	}
	all := n.Directions(maxNodeDirections)
	if f.Lang == "" {
		return all
	}
	return slices.DeleteFunc(all, func(d core.Direction) bool { return d.Src != f.Lang && d.Tgt != f.Lang })
}

// countInFlight adds the in-flight jobs of the nodes to the directions that they serve.
func (r *Registry) countInFlight(ctx context.Context, f DirectionFilter, list []DirectionCapacity) error {
	listed := make(map[core.Direction]*DirectionCapacity, len(list))
	for i := range list {
		listed[list[i].Direction] = &list[i]
	}
	var ids []core.NodeID
	var served [][]*DirectionCapacity // by the node of the same index
	for n := range r.fleet.All() {
		declared := n.Declared()
		if !r.isGrantable(n) {
			continue
		}
		var serves []*DirectionCapacity
		for _, d := range f.directions(declared) {
			if c := listed[d]; c != nil {
				serves = append(serves, c)
			}
		}
		if len(serves) > 0 {
			ids, served = append(ids, n.ID()), append(served, serves)
		}
	}
	occupancy := make([]store.Occupancy, len(ids))
	if err := r.store.Probe(ctx, ids, occupancy); err != nil {
		return r.storeError(ctx, "directions", err)
	}
	for i, serves := range served {
		for _, c := range serves {
			c.InFlight += occupancy[i].InFlight()
		}
	}
	return nil
}
