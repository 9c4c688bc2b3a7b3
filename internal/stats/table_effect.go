package stats

import (
	"cmp"
	"context"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxEffectCounted bounds the directions of drained nodes that are counted, and maxEffectListed those that are listed.
	maxEffectCounted = 2_000
	maxEffectListed  = 200
)

// DrainEffect returns what would be missing if nodes were drained, but for their jobs: in each group of nodes on which jobs depend that has
// some of them. The error is that of the context.
func (t *NodeTable) DrainEffect(ctx context.Context, drained ...*core.Node) (*wire.DrainEffect, error) {
	s, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	e := newEffect(s, drained, t.fleet.Division())
	for group, directions := range e.directions {
		others, capabilities := e.others(group)
		for _, d := range directions {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			e.add(group, d, countServing(d, others, capabilities))
		}
	}
	e.sort()
	return e.out, nil
}

// effect is what would be missing if nodes were drained, while it is counted.
type effect struct {
	*snapshot
	division   *core.Pools
	drained    map[core.NodeID]bool
	directions map[core.CoverGroup][]core.Direction // of the drained nodes of a group, each once
	cells      map[core.CoverGroup]*cell            // the other ready nodes, each in the cell of its pool and its tenant
	out        *wire.DrainEffect
}

// cell counts the ready nodes of each kind of one pool and one tenant.
type cell struct {
	nodes        []int
	capabilities []*core.Capability
}

func newEffect(s *snapshot, drained []*core.Node, division *core.Pools) *effect {
	e := &effect{
		snapshot: s, division: division, drained: make(map[core.NodeID]bool, len(drained)),
		directions: make(map[core.CoverGroup][]core.Direction),
		cells:      make(map[core.CoverGroup]*cell),
		out:        &wire.DrainEffect{None: []wire.DirectionName{}, One: []wire.DirectionName{}},
	}
	for _, n := range drained {
		e.drained[n.ID] = true
		e.out.Slots += n.Slots()
	}
	known := make(map[groupDirection]bool)
	kinds := make(map[groupKind]bool) // whose directions are known
	ready, own, listed := 0, 0, make(map[core.NodeID]bool, len(drained))
	for i := range s.rows {
		r := &s.rows[i]
		if r.grantable {
			ready += int(r.slots)
		}
		if !e.drained[r.node.ID] {
			if r.grantable {
				e.count(r)
			}
			continue
		}
		listed[r.node.ID] = true
		if r.grantable {
			own += int(r.slots)
		}
		if kind := (groupKind{core.CoverGroup{Pool: r.pool, Tenant: r.node.Tenant}, r.kindNumber}); !kinds[kind] {
			kinds[kind] = true
			e.addDirections(known, r.node, r.pool)
		}
	}
	for _, n := range drained {
		if !listed[n.ID] { // it has registered since
			e.addDirections(known, n, e.poolOf(n))
		}
	}
	if own > 0 {
		e.out.ShareOfSlots = float64(own) / float64(ready)
	}
	return e
}

type (
	// groupKind is a kind of nodes of a pool and a tenant.
	groupKind struct {
		core.CoverGroup
		kind int32
	}
	// groupDirection is a direction that nodes of a group serve.
	groupDirection struct {
		core.CoverGroup
		direction core.Direction
	}
)

func (e *effect) poolOf(n *core.Node) core.PoolID {
	if e.division == nil {
		return ""
	}
	return e.division.Assign(n).Pool
}

// addDirections adds the directions of a drained node of a pool that are not known yet to the groups that depend on it, while there is
// room.
func (e *effect) addDirections(known map[groupDirection]bool, n *core.Node, pool core.PoolID) {
	groups, count := e.division.CoverGroupsOf(n.Tenant, pool)
	for _, d := range n.Directions(maxEffectCounted + 1) {
		for _, g := range groups[:count] {
			key := groupDirection{g, d}
			if known[key] {
				continue
			}
			if len(known) >= maxEffectCounted*count {
				e.out.Truncated = true
				return
			}
			known[key] = true
			e.directions[g] = append(e.directions[g], d)
		}
	}
}

// count counts a ready node that is not drained.
func (e *effect) count(r *row) {
	key := core.CoverGroup{Pool: r.pool, Tenant: r.node.Tenant}
	c := e.cells[key]
	if c == nil {
		c = &cell{make([]int, e.kinds), make([]*core.Capability, e.kinds)}
		e.cells[key] = c
	}
	c.nodes[r.kindNumber]++
	c.capabilities[r.kindNumber] = r.kind.capability
}

// others counts the nodes of each kind of a group.
func (e *effect) others(group core.CoverGroup) (nodes []int, capabilities []*core.Capability) {
	nodes, capabilities = make([]int, e.kinds), make([]*core.Capability, e.kinds)
	for key, c := range e.cells {
		if key.Tenant != "" && key.Tenant != group.Tenant || !e.division.HasPool(group, key.Pool) {
			continue
		}
		for kind, n := range c.nodes {
			if n > 0 {
				nodes[kind] += n
				capabilities[kind] = c.capabilities[kind]
			}
		}
	}
	return nodes, capabilities
}

// add adds a direction of a group that so many other nodes serve, unless these are enough.
func (e *effect) add(group core.CoverGroup, d core.Direction, serving int) {
	list := &e.out.None
	switch serving {
	case 0:
	case 1:
		list = &e.out.One
	default:
		return
	}
	if len(*list) == maxEffectListed {
		e.out.Truncated = true
		return
	}
	*list = append(*list, wire.DirectionName{SrcLang: string(d.Src), TgtLang: string(d.Tgt), PoolID: string(group.Pool),
		TenantID: string(group.Tenant)})
}

// sort orders the directions by their languages.
func (e *effect) sort() {
	for _, list := range [][]wire.DirectionName{e.out.None, e.out.One} {
		slices.SortFunc(list, func(a, b wire.DirectionName) int {
			return cmp.Or(cmp.Compare(a.SrcLang, b.SrcLang), cmp.Compare(a.TgtLang, b.TgtLang), cmp.Compare(a.PoolID, b.PoolID),
				cmp.Compare(a.TenantID, b.TenantID))
		})
	}
}

// countServing counts the nodes that serve a direction, of which there are as many as given of each kind. It stops when there are two.
func countServing(d core.Direction, nodes []int, capabilities []*core.Capability) (n int) {
	requirement := core.NewRequirement(d, false)
	for i, c := range capabilities {
		if c == nil || requirement.Mismatch(c) != core.ReasonNone {
			continue
		}
		if n += nodes[i]; n >= 2 {
			break
		}
	}
	return n
}
