package nodetable

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxCounted bounds the directions of a node that are counted, and maxListed those that are listed.
	maxCounted = 2_000
	maxListed  = 200
)

// DrainEffect returns what would be missing if a node were drained, but for its jobs. Other nodes count that are ready and serve everybody whom
// the node serves: those without a tenant, and those of its own. The error is that of the context.
func (t *Table) DrainEffect(ctx context.Context, n *core.Node) (*wire.DrainEffect, error) {
	s, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	out := &wire.DrainEffect{Slots: n.Slots(), None: []wire.DirectionName{}, One: []wire.DirectionName{}}
	ready, own := 0, 0
	others := make([]int, s.kinds) // nodes of each kind
	capabilities := make([]*core.Capability, s.kinds)
	for i := range s.rows {
		r := &s.rows[i]
		if !r.grantable {
			continue
		}
		ready += int(r.slots)
		switch {
		case r.node.ID == n.ID:
			own = int(r.slots)
		case r.node.Serves(n.Tenant):
			others[r.kindNumber]++
			capabilities[r.kindNumber] = r.kind.capability
		}
	}
	if own > 0 {
		out.ShareOfSlots = float64(own) / float64(ready)
	}
	directions := n.Capability.Directions(maxCounted + 1)
	if len(directions) > maxCounted {
		directions, out.Truncated = directions[:maxCounted], true
	}
	for _, d := range directions {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		list := &out.None
		switch countServing(d, others, capabilities) {
		case 0:
		case 1:
			list = &out.One
		default:
			continue
		}
		if len(*list) == maxListed {
			out.Truncated = true
			continue
		}
		*list = append(*list, wire.DirectionName{SrcLang: string(d.Src), TgtLang: string(d.Tgt)})
	}
	return out, nil
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
