package nodetable

import (
	"cmp"
	"context"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxCounted bounds the directions of drained nodes that are counted, and maxListed those that are listed.
	maxCounted = 2_000
	maxListed  = 200
)

// DrainEffect returns what would be missing if nodes were drained, but for their jobs. Of each node, other nodes count that are ready and serve
// everybody whom the node serves: those without a tenant, and those of its own. The error is that of the context.
func (t *Table) DrainEffect(ctx context.Context, drained ...*core.Node) (*wire.DrainEffect, error) {
	s, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	e := newEffect(s, drained)
	for tenant, directions := range e.directions {
		others, capabilities := e.others(tenant)
		for _, d := range directions {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			e.add(d, countServing(d, others, capabilities))
		}
	}
	e.sort()
	return e.out, nil
}

// effect is what would be missing if nodes were drained, while it is counted.
type effect struct {
	*snapshot
	drained    map[core.NodeID]bool
	directions map[core.TenantID][]core.Direction // of the drained nodes of a tenant, each once
	out        *wire.DrainEffect
}

func newEffect(s *snapshot, drained []*core.Node) *effect {
	e := &effect{
		snapshot: s, drained: make(map[core.NodeID]bool, len(drained)), directions: make(map[core.TenantID][]core.Direction),
		out: &wire.DrainEffect{None: []wire.DirectionName{}, One: []wire.DirectionName{}},
	}
	for _, n := range drained {
		e.drained[n.ID] = true
		e.out.Slots += n.Slots()
	}
	known := make(map[ownedDirection]bool)
	kinds := make(map[ownedKind]bool) // whose directions are known
	ready, own, listed := 0, 0, make(map[core.NodeID]bool, len(drained))
	for i := range s.rows {
		r := &s.rows[i]
		if r.grantable {
			ready += int(r.slots)
		}
		if !e.drained[r.node.ID] {
			continue
		}
		listed[r.node.ID] = true
		if r.grantable {
			own += int(r.slots)
		}
		if kind := (ownedKind{r.node.Tenant, r.kindNumber}); !kinds[kind] {
			kinds[kind] = true
			e.addDirections(known, r.node)
		}
	}
	for _, n := range drained {
		if !listed[n.ID] { // it has registered since
			e.addDirections(known, n)
		}
	}
	if own > 0 {
		e.out.ShareOfSlots = float64(own) / float64(ready)
	}
	return e
}

type (
	// ownedKind is a kind of nodes of a tenant.
	ownedKind struct {
		tenant core.TenantID
		kind   int32
	}
	// ownedDirection is a direction that nodes of a tenant serve.
	ownedDirection struct {
		tenant    core.TenantID
		direction core.Direction
	}
)

// addDirections adds the directions of a drained node that are not known yet, while there is room.
func (e *effect) addDirections(known map[ownedDirection]bool, n *core.Node) {
	for _, d := range n.Capability.Directions(maxCounted + 1) {
		key := ownedDirection{n.Tenant, d}
		if known[key] {
			continue
		}
		if len(known) == maxCounted {
			e.out.Truncated = true
			return
		}
		known[key] = true
		e.directions[n.Tenant] = append(e.directions[n.Tenant], d)
	}
}

// others counts the ready nodes of each kind that are not drained and serve a tenant.
func (e *effect) others(tenant core.TenantID) (nodes []int, capabilities []*core.Capability) {
	nodes, capabilities = make([]int, e.kinds), make([]*core.Capability, e.kinds)
	for i := range e.rows {
		if r := &e.rows[i]; r.grantable && !e.drained[r.node.ID] && r.node.Serves(tenant) {
			nodes[r.kindNumber]++
			capabilities[r.kindNumber] = r.kind.capability
		}
	}
	return nodes, capabilities
}

// add adds a direction that so many other nodes serve, unless these are enough.
func (e *effect) add(d core.Direction, serving int) {
	list := &e.out.None
	switch serving {
	case 0:
	case 1:
		list = &e.out.One
	default:
		return
	}
	name := wire.DirectionName{SrcLang: string(d.Src), TgtLang: string(d.Tgt)}
	switch {
	case slices.Contains(*list, name): // of another tenant
	case len(*list) == maxListed:
		e.out.Truncated = true
	default:
		*list = append(*list, name)
	}
}

// sort orders the directions by their languages.
func (e *effect) sort() {
	for _, list := range [][]wire.DirectionName{e.out.None, e.out.One} {
		slices.SortFunc(list, func(a, b wire.DirectionName) int {
			return cmp.Or(cmp.Compare(a.SrcLang, b.SrcLang), cmp.Compare(a.TgtLang, b.TgtLang))
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
