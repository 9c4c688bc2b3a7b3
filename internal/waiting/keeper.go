package waiting

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

const (
	// keepInterval is the interval between two rounds of the keeper.
	keepInterval = 100 * time.Millisecond
	// keepJitter is the relative jitter of keepInterval.
	keepJitter = 0.1
	// heartbeatEvery is the number of rounds between two heartbeats of the instance.
	heartbeatEvery = 2
	// repeatsAtOnce is how many waiters are put into a queue again at the same time.
	repeatsAtOnce = 16
	// maxSurveyed is how many nodes are probed when the first request of a class begins to wait.
	maxSurveyed = 128
)

// keeper looks after the queues while a request waits. It sends the heartbeats of this instance, keeps the copy of the open classes up to
// date, and, on one of the instances, looks for free slots that nobody was offered.
type keeper struct {
	instance   core.InstanceID
	store      *client
	fleet      *fleet.Fleet
	open       *openClasses
	waiters    *waiters
	offers     *offerer
	snapshots  *snapshots
	shares     *shareLog
	tasks      *run.Group
	metrics    *telemetry.Waiting
	maxWaiting int

	repeats map[core.PoolID]<-chan error // where lost waiters are being put into the queue again; used by run

	sweeping atomic.Bool
	rounds   map[core.PoolID]*sweepRound // used by the sweep that is under way

	running run.Mutex
	active  bool
}

// start runs the keeper, unless it runs.
func (k *keeper) start() {
	k.running.Lock()
	defer k.running.Unlock()
	if !k.active {
		k.active = k.tasks.Go(k.run)
	}
}

// run looks after the queues until nobody waits, here or, according to the copy, elsewhere, and no offer is outstanding.
func (k *keeper) run(ctx context.Context) {
	unanswered := make(map[core.PoolID]bool) // where the last heartbeat failed: the queue may be lost when the store answers again
	for round := 0; ; round++ {
		if !run.SleepJitter(ctx, keepInterval, keepJitter) || k.stopIfIdle() {
			return
		}
		k.waiters.checkClasses(k.fleet)
		var due map[core.PoolID][]*fleet.Node
		if !k.sweeping.Load() {
			due = k.offers.outstanding.takeDue(time.Now())
		}
		pools := k.open.openPools()
		add := func(pool core.PoolID) {
			if !slices.Contains(pools, pool) {
				pools = append(pools, pool)
			}
		}
		for pool := range k.waiters.pools() {
			add(pool)
		}
		for pool := range due {
			add(pool)
		}
		freed := make(map[core.PoolID]bool)
		for _, pool := range pools { // first: nothing that takes long may delay it
			// an offer that was not used is taken back by this at the latest
			if round%heartbeatEvery == 0 || due[pool] != nil || unanswered[pool] {
				var err error
				if freed[pool], err = k.heartbeat(ctx, pool); err != nil {
					unanswered[pool] = true
				} else {
					delete(unanswered, pool)
				}
			}
		}
		switch {
		case len(pools) == 0:
		case k.open.refresh(ctx, pools...) == nil:
			k.sweepAll(freed, due)
		default:
			k.offers.outstanding.addAll(due, time.Now())
		}
	}
}

// sampleShares remembers from time to time what tenants were granted.
func (k *keeper) sampleShares(ctx context.Context) {
	if !k.shares.isDue(time.Now()) {
		return
	}
	if queues, err := k.snapshots.read(ctx, 0); err == nil {
		k.shares.record(time.Now(), countShares(queues))
	}
}

// stopIfIdle stops the keeper if nobody waits.
func (k *keeper) stopIfIdle() bool {
	k.running.Lock()
	defer k.running.Unlock()
	k.active = k.waiters.count.Load() > 0 || k.open.any.Load() || k.offers.outstanding.count.Load() > 0
	return !k.active
}

// heartbeat says that this instance is alive. If the queue has fewer waiters of this instance than have waited during the whole call, it
// has lost some, and all are put into it again, in the background. It reports whether nodes should be swept: slots were freed, or waiters
// were put into the queue again, which may be the first of their classes. An instance without waiters sends heartbeats too, so that those
// of dead instances are removed.
func (k *keeper) heartbeat(ctx context.Context, pool core.PoolID) (freed bool, _ error) {
	own := k.waiters.confirmedIn(pool)
	r, err := k.store.Beat(ctx, pool, k.instance)
	if err != nil {
		k.store.RecordError("beat", err)
		return false, err
	}
	own = k.waiters.still(own)
	switch repeat := k.repeats[pool]; {
	case repeat != nil:
		select {
		case err := <-repeat:
			delete(k.repeats, pool)
			return true, err
		default: // it goes on
		}
	case r.Waiters < len(own):
		ended := make(chan error, 1)
		if k.tasks.Go(func(ctx context.Context) { ended <- k.repeatAll(ctx, own) }) {
			k.repeats[pool] = ended
		}
	}
	return r.Freed, nil
}

// repeatAll puts waiters into their queue again. It ends at the first error: the next heartbeat will do.
func (k *keeper) repeatAll(ctx context.Context, own []*waiter) error {
	var failure atomic.Pointer[error]
	run.ForEach(repeatsAtOnce, own, func(w *waiter) {
		if failure.Load() != nil {
			return
		}
		if err := k.repeat(ctx, w); err != nil {
			failure.Store(&err)
		}
	})
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}

// repeat puts a waiter into its queue again, unless it has left.
func (k *keeper) repeat(ctx context.Context, w *waiter) error {
	if len(k.waiters.still([]*waiter{w})) == 0 {
		return nil
	}
	_, err := k.enqueue(ctx, w, true)
	if err == nil && len(k.waiters.still([]*waiter{w})) == 0 { // it has left meanwhile, perhaps before it was put there
		err = k.store.Settle(ctx, w.pool, *w.queued.Load(), fairqueue.Left)
	}
	if err != nil {
		k.store.RecordError("enqueue", err)
	}
	return err
}

// enqueue puts a waiter into its queue, with the same name if that is repeated. If it has expired there and not here, the clock of the
// store has changed, as after a failover, or was not known well: its times are then set again, by the clock as it is now.
func (k *keeper) enqueue(ctx context.Context, w *waiter, repeat bool) (fairqueue.EnqueueResult, error) {
	r, err := k.store.Enqueue(ctx, w.pool, w.params(k.maxWaiting, repeat))
	if err != nil || r.Verdict != fairqueue.Expired || !time.Now().Before(w.until) {
		return r, err
	}
	if err := k.readClock(ctx, w); err != nil {
		return r, err
	}
	return k.store.Enqueue(ctx, w.pool, w.params(k.maxWaiting, repeat))
}

// readClock sets the times of a waiter by the clock of the store.
func (k *keeper) readClock(ctx context.Context, w *waiter) error {
	now, err := k.store.Clock(ctx, store.ClockKey{Pool: w.pool})
	if err == nil {
		w.setClock(now.UnixMilli(), k.instance)
	}
	return err
}

// survey probes nodes of a class because its first request begins to wait: a slot may have become free when nobody waited for it yet.
func (k *keeper) survey(ctx context.Context, class *waitClass) {
	k.probe(ctx, k.sample(class, maxSurveyed), telemetry.SweepFirst)
}

// sample returns up to n nodes that can serve a class, from a random one on.
func (k *keeper) sample(class *waitClass, n int) []*fleet.Node {
	filter, now := k.open.filterOf(class), k.fleet.Now()
	restriction := core.RestrictionOf(&class.spec.Options)
	route := k.fleet.RestrictedRoute(class.spec.Direction, class.spec.Options.RequireTTS, &restriction)
	total := 0
	for x := range route.Indexes() {
		total += x.Len()
	}
	first := 0
	if total > n {
		first = rand.IntN(total)
	}
	nodes := make([]*fleet.Node, 0, min(n, total))
	for _, before := range [...]bool{false, true} { // those from the random one on, then those before it
		i := 0
		for m := range route.All() {
			if before && i == first || len(nodes) == n {
				break
			}
			if (i < first) == before && filter.reject(m.Node, now) == core.ReasonNone {
				nodes = append(nodes, m.Node)
			}
			i++
		}
	}
	return nodes
}
