package nodes

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Pool is how well one direction is served.
type Pool struct {
	core.Direction
	Nodes, Ready, Capacity, InFlight int
}

// maxNodeDirections is how many directions of one node are taken into account.
const maxNodeDirections = 2_000

// PoolFilter selects directions, and which nodes count for them. Zero fields select all.
type PoolFilter struct {
	Lang   core.Lang   // spoken or wanted
	Region string      // only nodes of this region
	Node   core.NodeID // only this node
}

// Pools lists the directions that nodes declare and how well each is served, in their order and from after one of them on,
// and says whether there are more. It is worked out when it is asked for, from what this instance knows of the nodes;
// only how full those are that serve the directions of the page is asked of the store.
func (l *Registry) Pools(ctx context.Context, f PoolFilter, after core.Direction, limit int) (pools []Pool, more bool, err error) {
	first := firstPools{after: after, limit: limit + 1, found: make(map[core.Direction]*Pool)}
	for n := range l.fleet.All() {
		declared := n.Declared()
		for _, d := range f.directions(declared) {
			p := first.pool(d)
			if p == nil {
				continue
			}
			p.Nodes++
			if l.grantable(n) {
				p.Ready++
				p.Capacity += declared.MaxJobs
			}
		}
	}
	first.cut()
	for _, p := range first.found {
		pools = append(pools, *p)
	}
	slices.SortFunc(pools, func(a, b Pool) int { return compareDirections(a.Direction, b.Direction) })
	if more = len(pools) > limit; more {
		pools = pools[:limit]
	}
	return pools, more, l.fill(ctx, f, pools)
}

// firstPools keeps the first directions after one of them, however many nodes declare: callers and nodes choose how many
// there are.
type firstPools struct {
	after core.Direction
	limit int
	found map[core.Direction]*Pool
	last  *core.Direction // nothing behind it is kept; nil: nothing was dropped yet
}

// pool is where a direction is counted; nil when it is not among the first.
func (f *firstPools) pool(d core.Direction) *Pool {
	if compareDirections(d, f.after) <= 0 || f.last != nil && compareDirections(d, *f.last) > 0 {
		return nil
	}
	p := f.found[d]
	if p == nil {
		if len(f.found) >= 2*f.limit {
			f.cut()
			return f.pool(d)
		}
		p = &Pool{Direction: d}
		f.found[d] = p
	}
	return p
}

// cut drops all but the first.
func (f *firstPools) cut() {
	if len(f.found) <= f.limit {
		return
	}
	all := slices.SortedFunc(maps.Keys(f.found), compareDirections)
	for _, d := range all[f.limit:] {
		delete(f.found, d)
	}
	f.last = &all[f.limit-1]
}

func compareDirections(a, b core.Direction) int {
	return cmp.Or(cmp.Compare(a.Src, b.Src), cmp.Compare(a.Tgt, b.Tgt))
}

// grantable reports whether a node would be given a job of a direction that it serves, if it had room.
func (l *Registry) grantable(n *fleet.Node) bool {
	declared := n.Declared()
	return declared.AcceptsJobs() && declared.Reachable() && n.Unready(false, l.fleet.Now()) == core.ReasonNone
}

// directions are those of a node that are selected.
func (f *PoolFilter) directions(n *core.Node) []core.Direction {
	if f.Region != "" && f.Region != n.Region || f.Node != "" && f.Node != n.ID {
		return nil
	}
	all := n.Capability.Directions(maxNodeDirections)
	if f.Lang == "" {
		return all
	}
	return slices.DeleteFunc(all, func(d core.Direction) bool { return d.Src != f.Lang && d.Tgt != f.Lang })
}

// fill asks how full the nodes of the pools are.
func (l *Registry) fill(ctx context.Context, f PoolFilter, pools []Pool) error {
	listed := make(map[core.Direction]*Pool, len(pools))
	for i := range pools {
		listed[pools[i].Direction] = &pools[i]
	}
	var ids []core.NodeID
	var serves [][]*Pool
	for n := range l.fleet.All() {
		declared := n.Declared()
		if !l.grantable(n) {
			continue
		}
		var of []*Pool
		for _, d := range f.directions(declared) {
			if p := listed[d]; p != nil {
				of = append(of, p)
			}
		}
		if len(of) > 0 {
			ids, serves = append(ids, n.ID()), append(serves, of)
		}
	}
	full := make([]store.Occupancy, len(ids))
	if err := l.store.Probe(ctx, ids, full); err != nil {
		return l.down(ctx, "pools", err)
	}
	for i, of := range serves {
		for _, p := range of {
			p.InFlight += full[i].InFlight()
		}
	}
	return nil
}
