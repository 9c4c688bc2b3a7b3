package nodes

import (
	"cmp"
	"context"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Pool is how well one direction is served.
type Pool struct {
	core.Direction
	Nodes, Ready, Capacity, InFlight int
}

const (
	maxDirections     = 10_000 // listed in one answer
	maxNodeDirections = 2_000  // taken into account of one node
)

// Pools lists the directions that nodes declare and how well each is served. It is worked out when it is
// asked for: dispatch has its own index.
func (l *Life) Pools(ctx context.Context) (pools []Pool, truncated bool, err error) {
	all, err := l.All(ctx)
	if err != nil {
		return nil, false, err
	}
	found := make(map[core.Direction]*Pool)
	for _, s := range all {
		n := l.fleet.Node(s.Node.ID)
		if n == nil {
			continue // silent
		}
		ready := s.Node.Grantable() && s.Node.Reachable() && n.Unready(false, l.fleet.Now()) == core.ReasonNone
		for _, d := range s.Node.Capability.Directions(maxNodeDirections) {
			p := found[d]
			if p == nil {
				if len(found) == maxDirections {
					truncated = true
					continue
				}
				p = &Pool{Direction: d}
				found[d] = p
			}
			p.Nodes++
			if ready {
				p.Ready++
				p.Capacity += s.Max
				p.InFlight += s.InFlight()
			}
		}
	}
	for _, p := range found {
		pools = append(pools, *p)
	}
	slices.SortFunc(pools, func(a, b Pool) int { return cmp.Or(cmp.Compare(a.Src, b.Src), cmp.Compare(a.Tgt, b.Tgt)) })
	return pools, truncated, nil
}
