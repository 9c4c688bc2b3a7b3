package waiting

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

const (
	// maxSwept is how many nodes are probed in one interval, in all pools. A probe is a script of some 20 µs in Redis, so this is below 5 %
	// of a core while somebody waits, and one instance sweeps a fleet of 1,000 nodes in six intervals, if somebody waits in one queue only.
	maxSwept = 192
	// minSwept is how many nodes of a pool are probed if there are many pools.
	minSwept = 16
	// sweepChunk is how many nodes are probed at once.
	sweepChunk = 64
	// sweepWithin is after what time a sweep does not go on to the next chunk: the store is slow.
	sweepWithin = keepInterval / 2
	// sweepTurn is after what time another instance goes on if the one that sweeps the queue of a pool does not.
	sweepTurn = 3 * keepInterval
	// offerTakes is how long an offer takes, as a rule, until its slot is reserved.
	offerTakes = 40 * time.Millisecond
	// sweepFor is for how long an instance sweeps before another one does, which may know of other nodes.
	sweepFor = 5 * time.Second
)

// sweepRound is a sweep of the nodes for which requests wait in the queue of a pool.
type sweepRound struct {
	turn  store.LockParams
	left  []*fleet.Node // nodes that are to be swept before any is swept again
	since time.Time     // when this instance began to sweep; zero: another one does
}

// sweepAll probes nodes in the background, unless that is being done: those whose offers should have been used by now, and the next ones of
// each pool.
func (k *keeper) sweepAll(freed map[core.PoolID]bool, due map[core.PoolID][]*fleet.Node) {
	if !k.sweeping.CompareAndSwap(false, true) {
		return
	}
	started := k.tasks.Go(func(ctx context.Context) {
		defer k.sweeping.Store(false)
		offered := k.probeDue(ctx, due)
		var free []*fleet.Node
		open := k.open.openPools()
		for _, pool := range open { // also if only others have waiters there: their instances may all be dead
			free = append(free, k.sweep(ctx, pool, max(maxSwept/len(open), minSwept), freed[pool])...)
		}
		maps.DeleteFunc(k.rounds, func(pool core.PoolID, _ *sweepRound) bool { return !slices.Contains(open, pool) })
		k.offerFree(ctx, map[string][]*fleet.Node{telemetry.SweepOffered: offered, telemetry.SweepPeriodic: free})
		k.sampleShares(ctx)
	})
	if !started {
		k.sweeping.Store(false)
	}
}

// probeDue returns the nodes with free slots of those whose offers should have been used by now. Those of which the store says nothing are
// probed later.
func (k *keeper) probeDue(ctx context.Context, due map[core.PoolID][]*fleet.Node) (free []*fleet.Node) {
	for pool, nodes := range due {
		for chunk := range slices.Chunk(nodes, sweepChunk) {
			if !k.open.any.Load() {
				return free
			}
			found, ok := k.probeFree(ctx, chunk)
			if !ok {
				k.offers.outstanding.addAll(map[core.PoolID][]*fleet.Node{pool: chunk}, time.Now())
			}
			free = append(free, nodesOf(found)...)
		}
	}
	return free
}

// offerFree offers the slots of nodes that are still free after a moment, by the kinds of their probes. A slot that was offered a moment
// ago is reserved then: it is not offered to two requests, of which the second might be faster.
func (k *keeper) offerFree(ctx context.Context, byKind map[string][]*fleet.Node) {
	slept := false
	for kind, nodes := range byKind {
		for chunk := range slices.Chunk(nodes, sweepChunk) {
			if !slept && !run.Sleep(ctx, offerTakes) {
				return
			}
			slept = true
			k.probe(ctx, chunk, kind)
		}
	}
}

// sweep probes the next of the nodes for which requests wait in the queue of a pool, and returns those with free slots. Slots are free that
// nobody was offered if the instance that freed them died, or a message was lost. Of all instances one does it at a time, for a while.
func (k *keeper) sweep(ctx context.Context, pool core.PoolID, limit int, freed bool) (free []*fleet.Node) {
	round := k.rounds[pool]
	if round == nil {
		round = &sweepRound{turn: store.LockParams{Name: "wait-sweep:" + string(pool), Holder: string(k.instance), TTL: sweepTurn}}
		k.rounds[pool] = round
	}
	mine, err := round.takeTurn(ctx, k.store)
	if err != nil || !mine && !freed {
		return nil
	}
	wanted := k.open.filters(pool)
	if wanted == nil {
		return nil
	}
	if len(round.left) == 0 {
		round.left = k.nodesFor(wanted)
	}
	began := time.Now()
	for limit > 0 && time.Since(began) < sweepWithin {
		nodes := round.takeNext(wanted, min(limit, sweepChunk), k.fleet.Now())
		if len(nodes) == 0 {
			break
		}
		found, ok := k.probeFree(ctx, nodes)
		if !ok {
			return free
		}
		free = append(free, nodesOf(found)...)
		limit -= len(nodes)
	}
	if mine && len(round.left) == 0 && time.Since(round.since) >= sweepFor {
		round.endTurn(ctx, k.store)
	}
	return free
}

// takeTurn reports whether it is for this instance to sweep.
func (r *sweepRound) takeTurn(ctx context.Context, st *client) (bool, error) {
	lock, err := st.Lock(ctx, r.turn)
	switch {
	case err != nil:
		st.RecordError("lock", err)
	case !lock.Held:
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = time.Now()
	}
	return lock.Held, err
}

// endTurn lets another instance sweep.
func (r *sweepRound) endTurn(ctx context.Context, st *client) {
	r.since = time.Time{}
	if err := st.Unlock(ctx, r.turn); err != nil {
		st.RecordError("unlock", err) // it expires
	}
}

// nodesFor returns the nodes for which requests wait in the queue of a pool, in random order.
func (k *keeper) nodesFor(wanted *classFilters) []*fleet.Node {
	now := k.fleet.Now()
	taken := make(map[*fleet.Node]bool)
	var nodes []*fleet.Node
	for _, r := range wanted.routes {
		for m := range k.fleet.Route(r.requirement.Direction, r.requirement.TTS).All() {
			if !taken[m.Node] && r.wants(m.Node, now) {
				taken[m.Node] = true
				nodes = append(nodes, m.Node)
			}
		}
	}
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodes
}

// takeNext takes up to n nodes for which requests still wait.
func (r *sweepRound) takeNext(wanted *classFilters, n int, now fleet.Instant) []*fleet.Node {
	nodes := make([]*fleet.Node, 0, n)
	for len(r.left) > 0 && len(nodes) < n {
		if wanted.wants(r.left[0], now) {
			nodes = append(nodes, r.left[0])
		}
		r.left = r.left[1:]
	}
	return nodes
}

// probe probes nodes and offers their free slots. It reports false if the store did not answer.
func (k *keeper) probe(ctx context.Context, nodes []*fleet.Node, kind string) bool {
	free, ok := k.probeFree(ctx, nodes)
	for _, f := range free {
		k.offers.offerAtLeast(f.node, f.slots)
	}
	if len(free) > 0 {
		k.metrics.Sweeps.WithLabelValues(kind).Inc()
	}
	return ok
}

// probeFree probes nodes and returns those that have free slots. It reports false if the store did not answer.
func (k *keeper) probeFree(ctx context.Context, nodes []*fleet.Node) (free []freeNode, _ bool) {
	ids := make([]core.NodeID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID()
	}
	occupancy := make([]store.Occupancy, len(nodes))
	if err := k.store.Probe(ctx, ids, occupancy); err != nil {
		k.store.RecordError("probe", err)
		return nil, false
	}
	for i, n := range nodes {
		o := &occupancy[i]
		k.fleet.Observe(n, o.InFlight(), o.Slots(), k.fleet.Now())
		if o.Free() {
			free = append(free, freeNode{node: n, slots: o.Slots() - o.InFlight()})
		}
	}
	return free, true
}

func nodesOf(free []freeNode) []*fleet.Node {
	nodes := make([]*fleet.Node, len(free))
	for i := range free {
		nodes[i] = free[i].node
	}
	return nodes
}
