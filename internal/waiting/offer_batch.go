package waiting

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// freeNode is a node with slots that may be free.
type freeNode struct {
	node  *fleet.Node
	slots int           // that are not offered yet
	pools []core.PoolID // whose requests are offered the slots, in this order
}

// nodeGroup is nodes that can serve the same of the classes that are open in a pool. Their slots are offered together: each of them can be
// used by every request that is offered one.
type nodeGroup struct {
	pool    core.PoolID
	classes []string
	nodes   []*freeNode
}

// maxPoolsOfNode is in how many queues requests wait for the slots of one node: those that are bound to its pool, and those that are bound
// to none.
const maxPoolsOfNode = 2

// offerAll offers the free slots of nodes. If the store does not answer, a sweep finds the slots later.
func (o *offerer) offerAll(ctx context.Context, batch map[*fleet.Node]int) {
	pools, nodes := []core.PoolID{""}, make([]*freeNode, 0, len(batch))
	for n, slots := range batch {
		free := &freeNode{n, min(slots, n.Summary().Slots()), []core.PoolID{""}}
		if pool, bound := o.boundPool(n); bound {
			// requests that are bound to its pool and requests that are not have an equal chance to be first
			free.pools = slices.Insert(free.pools, rand.IntN(maxPoolsOfNode), pool)
			if !slices.Contains(pools, pool) {
				pools = append(pools, pool)
			}
		}
		nodes = append(nodes, free)
	}
	if o.open.refresh(ctx, pools...) != nil || !o.open.any.Load() {
		return
	}
	nodes = slices.DeleteFunc(nodes, func(n *freeNode) bool { return o.hasRefused(n.node) })
	for turn := range maxPoolsOfNode {
		for _, g := range o.groupNodes(nodes, turn) {
			o.offerGroup(ctx, g)
		}
	}
}

// groupNodes groups nodes by the classes that they can serve, of the pool whose turn it is.
func (o *offerer) groupNodes(nodes []*freeNode, turn int) []*nodeGroup {
	type groupKey struct {
		pool    core.PoolID
		classes string // the numbers of their filters, as bits
	}
	var groups []*nodeGroup
	byKey := make(map[groupKey]*nodeGroup)
	filters := make(map[core.PoolID]*classFilters)
	now := o.fleet.Now()
	var bits []byte
	for _, n := range nodes {
		if n.slots == 0 || turn >= len(n.pools) {
			continue
		}
		pool := n.pools[turn]
		if _, known := filters[pool]; !known {
			filters[pool] = o.open.filters(pool)
		}
		if filters[pool] == nil {
			continue
		}
		bits = append(bits[:0], make([]byte, (len(filters[pool].classes)+7)/8)...)
		serves := false
		for f := range filters[pool].serving(n.node, now) {
			bits[f.number/8] |= 1 << (f.number % 8)
			serves = true
		}
		if !serves {
			continue
		}
		key := groupKey{pool, string(bits)}
		g := byKey[key]
		if g == nil {
			g = &nodeGroup{pool: pool}
			for number, id := range filters[pool].classes {
				if bits[number/8]&(1<<(number%8)) != 0 {
					g.classes = append(g.classes, id)
				}
			}
			byKey[key] = g
			groups = append(groups, g)
		}
		g.nodes = append(g.nodes, n)
	}
	return groups
}

// offerGroup offers the slots of a group of nodes, those of different nodes in turns.
func (o *offerer) offerGroup(ctx context.Context, g *nodeGroup) {
	nodes := g.nodes
	for more := true; more && len(nodes) > 0; {
		slots := 0
		for _, n := range nodes {
			slots += n.slots
		}
		slots = min(slots, fairqueue.MaxOffers)
		rand.Shuffle(len(g.classes), func(i, j int) { g.classes[i], g.classes[j] = g.classes[j], g.classes[i] })
		r, err := o.store.Offer(ctx, g.pool, slots, g.classes[:min(len(g.classes), fairqueue.MaxAsked)])
		if err != nil {
			o.store.RecordError("offer", err)
			return
		}
		for _, offered := range r.Offers {
			n := nodes[0]
			nodes = nodes[1:]
			if n.slots--; n.slots > 0 {
				nodes = append(nodes, n)
			}
			o.recheck(g.pool, n.node, offerSettled)
			o.deliver(Offer{Pool: g.pool, Waiter: offered.Waiter, Node: n.node.ID()})
		}
		more = r.More || len(r.Offers) == slots
	}
}
