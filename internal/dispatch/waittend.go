package dispatch

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/lockwait"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

const (
	// tendInterval is how often the queues are tended in which somebody waits.
	tendInterval = 100 * time.Millisecond
	// beatEvery is with how many of these intervals the instance says that it is alive.
	beatEvery = 2
	// maxSwept is how many nodes one sweep probes.
	maxSwept = 128
)

// tender tends the queues while somebody waits: it says that this instance is alive, keeps the copy of the open classes up to date, and, on one
// of the instances, looks for free slots that nobody was offered.
type tender struct {
	*offerer
	maxWaiting int
	shares     *shareLog
	snapshots  *snapshots

	sweeping atomic.Bool

	running lockwait.Mutex[lockwait.DispatchTender]
	active  bool
}

// start starts tending, unless that is being done.
func (t *tender) start() {
	t.running.Lock()
	defer t.running.Unlock()
	if !t.active {
		t.active = t.tasks.Go(t.run)
	}
}

// run tends the queues until nobody waits, here or, according to the copy, elsewhere.
func (t *tender) run(ctx context.Context) {
	for round := 0; ; round++ {
		if !backoff.SleepJitter(ctx, tendInterval, 0.1) || t.stopIfIdle() {
			return
		}
		own := t.waiters.pools()
		pools := t.open.openPools()
		for pool := range own {
			if t.open.classes(pool) == nil {
				pools = append(pools, pool)
			}
		}
		freed := make(map[core.PoolID]bool)
		for _, pool := range pools { // first: nothing that takes long may delay it
			freed[pool] = round%beatEvery == 0 && t.beat(ctx, pool)
		}
		if len(pools) > 0 && t.open.refresh(ctx, pools...) == nil {
			t.sweepAll(pools, freed)
		}
	}
}

// sweepAll sweeps the queues in the background, unless that is being done.
func (t *tender) sweepAll(pools []core.PoolID, freed map[core.PoolID]bool) {
	if !t.sweeping.CompareAndSwap(false, true) {
		return
	}
	started := t.tasks.Go(func(ctx context.Context) {
		defer t.sweeping.Store(false)
		for _, pool := range pools { // also if only others have waiters there: their instances may all be dead
			t.sweep(ctx, pool, freed[pool])
		}
		t.sampleShares(ctx)
	})
	if !started {
		t.sweeping.Store(false)
	}
}

// sampleShares remembers from time to time what tenants were granted.
func (t *tender) sampleShares(ctx context.Context) {
	if !t.shares.isDue(time.Now()) {
		return
	}
	if queues, err := t.snapshots.read(ctx, 0); err == nil {
		t.shares.record(time.Now(), countShares(queues))
	}
}

// stopIfIdle ends tending if nobody waits.
func (t *tender) stopIfIdle() bool {
	t.running.Lock()
	defer t.running.Unlock()
	t.active = t.waiters.count.Load() > 0 || t.open.any.Load()
	return !t.active
}

// beat says that this instance is alive. If the queue of a pool does not have all waiters that were there before and after that, it has lost
// them: they are put into it again. It reports whether slots were freed. An instance without waiters beats too: so those of dead instances are
// removed.
func (t *tender) beat(ctx context.Context, pool core.PoolID) (freed bool) {
	own := t.waiters.confirmedIn(pool)
	r, err := t.store.Beat(ctx, pool, t.instance)
	if err != nil {
		t.store.recordError("beat", err)
		return false
	}
	if own = t.waiters.still(own); r.Waiters >= len(own) {
		return r.Freed
	}
	for _, w := range own {
		if !t.repeat(ctx, w) {
			return r.Freed
		}
	}
	return true // they may be the first of their classes
}

// repeat puts a waiter into its queue again, unless it has left. It reports false if the store did not answer.
func (t *tender) repeat(ctx context.Context, w *waiter) bool {
	one := []*waiter{w}
	if len(t.waiters.still(one)) == 0 {
		return true
	}
	_, err := t.store.Enqueue(ctx, w.pool, w.params(t.maxWaiting, true))
	if err == nil && len(t.waiters.still([]*waiter{w})) == 0 { // it has left meanwhile, perhaps before it was put there
		err = t.store.Dequeue(ctx, w.pool, w.Waiter, false)
	}
	if err != nil {
		t.store.recordError("enqueue", err)
	}
	return err == nil
}

// sweep probes some of the nodes for which requests wait in the queue of a pool, and offers their free slots. Slots are free that nobody was offered if
// the instance that freed them died, or a message was lost. Of all instances one does it at a time.
func (t *tender) sweep(ctx context.Context, pool core.PoolID, freed bool) {
	if !freed {
		first, err := t.store.Debounce(ctx, "wait-sweep:"+string(pool), tendInterval)
		if err != nil {
			t.store.recordError("debounce", err)
		}
		if err != nil || !first {
			return
		}
	}
	var nodes []*fleet.Node
	seen := make(map[core.NodeID]bool)
	classes := t.open.classes(pool)
	for _, class := range classes {
		for _, n := range t.sample(class, max(1, maxSwept/len(classes))) {
			if !seen[n.ID()] && len(nodes) < maxSwept {
				seen[n.ID()] = true
				nodes = append(nodes, n)
			}
		}
	}
	t.probe(ctx, nodes, telemetry.SweepPeriodic)
}

// survey probes nodes of a class because its first request begins to wait: a slot may have become free when nobody waited for it yet.
func (t *tender) survey(ctx context.Context, class *waitClass) {
	t.probe(ctx, t.sample(class, maxSwept), telemetry.SweepFirst)
}

// sample returns up to n nodes that can serve a class, from a random one on.
func (t *tender) sample(class *waitClass, n int) []*fleet.Node {
	filter := newClassFilter(t.fleet, t.open.picker, class)
	route := t.fleet.Route(class.spec.Direction, class.spec.Options.RequireTTS)
	total := 0
	for x := range route.Indexes() {
		total += x.Len()
	}
	if total == 0 {
		return nil
	}
	skip := 0
	if total > n {
		skip = rand.IntN(total)
	}
	var nodes []*fleet.Node
	for _, skipped := range [...]bool{false, true} { // those after the random one, then those before
		i := 0
		for m := range route.All() {
			if i++; (i <= skip) == skipped && len(nodes) < n && filter.canServe(m.Node) {
				nodes = append(nodes, m.Node)
			}
		}
	}
	return nodes
}

// probe probes nodes and offers their free slots.
func (t *tender) probe(ctx context.Context, nodes []*fleet.Node, kind string) {
	if len(nodes) == 0 {
		return
	}
	ids := make([]core.NodeID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID()
	}
	occupancy := make([]store.Occupancy, len(nodes))
	if err := t.store.Probe(ctx, ids, occupancy); err != nil {
		t.store.recordError("probe", err)
		return
	}
	found := false
	for i, n := range nodes {
		o := &occupancy[i]
		t.fleet.Observe(n, o.InFlight(), o.Slots(), t.fleet.Now())
		if o.Free() {
			t.freed(n, o.Slots()-o.InFlight())
			found = true
		}
	}
	if found {
		t.metrics.Waiting.Sweeps.WithLabelValues(kind).Inc()
	}
}
