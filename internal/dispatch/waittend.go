package dispatch

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
	// tendInterval is how often the queues are tended in which somebody waits.
	tendInterval = 100 * time.Millisecond
	// tendJitter is by which part of it that varies.
	tendJitter = 0.1
	// beatEvery is after how many intervals the instance says again that it is alive.
	beatEvery = 2
	// repeatsAtOnce is how many waiters are put into a queue again at the same time.
	repeatsAtOnce = 16
	// maxSurveyed is how many nodes are probed when the first request of a class begins to wait.
	maxSurveyed = 128
)

// tender tends the queues while somebody waits: it says that this instance is alive, keeps the copy of the open classes up to date, and, on
// one of the instances, looks for free slots that nobody was offered.
type tender struct {
	*offerer
	maxWaiting int
	shares     *shareLog
	snapshots  *snapshots

	repeats map[core.PoolID]<-chan error // where lost waiters are being put into the queue again; used by run

	sweeping atomic.Bool
	rounds   map[core.PoolID]*sweepRound // used by the sweep that is under way

	running run.Mutex[run.DispatchTender]
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

// run tends the queues until nobody waits, here or, according to the copy, elsewhere, and no offer is outstanding.
func (t *tender) run(ctx context.Context) {
	unanswered := make(map[core.PoolID]bool) // where the last beat failed: the queue may be lost when the store answers again
	for round := 0; ; round++ {
		if !run.SleepJitter(ctx, tendInterval, tendJitter) || t.stopIfIdle() {
			return
		}
		t.waiters.checkClasses(t.fleet)
		var due map[core.PoolID][]*fleet.Node
		if !t.sweeping.Load() {
			due = t.outstanding.takeDue(time.Now())
		}
		pools := t.open.openPools()
		add := func(pool core.PoolID) {
			if !slices.Contains(pools, pool) {
				pools = append(pools, pool)
			}
		}
		for pool := range t.waiters.pools() {
			add(pool)
		}
		for pool := range due {
			add(pool)
		}
		freed := make(map[core.PoolID]bool)
		for _, pool := range pools { // first: nothing that takes long may delay it
			// an offer that was not used is taken back by this at the latest
			if round%beatEvery == 0 || due[pool] != nil || unanswered[pool] {
				var err error
				if freed[pool], err = t.beat(ctx, pool); err != nil {
					unanswered[pool] = true
				} else {
					delete(unanswered, pool)
				}
			}
		}
		switch {
		case len(pools) == 0:
		case t.open.refresh(ctx, pools...) == nil:
			t.sweepAll(freed, due)
		default:
			t.outstanding.addAll(due, time.Now())
		}
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
	t.active = t.waiters.count.Load() > 0 || t.open.any.Load() || t.outstanding.count.Load() > 0
	return !t.active
}

// beat says that this instance is alive. If the queue has fewer waiters of this instance than have waited during the whole call, it has
// lost some, and all are put into it again, in the background. It reports whether nodes should be swept: slots were freed, or waiters were
// put into the queue again, which may be the first of their classes. An instance without waiters beats too, so that those of dead instances
// are removed.
func (t *tender) beat(ctx context.Context, pool core.PoolID) (freed bool, _ error) {
	own := t.waiters.confirmedIn(pool)
	r, err := t.store.Beat(ctx, pool, t.instance)
	if err != nil {
		t.store.recordError("beat", err)
		return false, err
	}
	own = t.waiters.still(own)
	switch repeat := t.repeats[pool]; {
	case repeat != nil:
		select {
		case err := <-repeat:
			delete(t.repeats, pool)
			return true, err
		default: // it goes on
		}
	case r.Waiters < len(own):
		ended := make(chan error, 1)
		if t.tasks.Go(func(ctx context.Context) { ended <- t.repeatAll(ctx, own) }) {
			t.repeats[pool] = ended
		}
	}
	return r.Freed, nil
}

// repeatAll puts waiters into their queue again. It ends at the first error: the next beat will do.
func (t *tender) repeatAll(ctx context.Context, own []*waiter) error {
	var failure atomic.Pointer[error]
	run.ForEach(repeatsAtOnce, own, func(w *waiter) {
		if failure.Load() != nil {
			return
		}
		if err := t.repeat(ctx, w); err != nil {
			failure.Store(&err)
		}
	})
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}

// repeat puts a waiter into its queue again, unless it has left.
func (t *tender) repeat(ctx context.Context, w *waiter) error {
	if len(t.waiters.still([]*waiter{w})) == 0 {
		return nil
	}
	_, err := t.enqueue(ctx, w, true)
	if err == nil && len(t.waiters.still([]*waiter{w})) == 0 { // it has left meanwhile, perhaps before it was put there
		err = t.store.Settle(ctx, w.pool, *w.queued.Load(), fairqueue.Left)
	}
	if err != nil {
		t.store.recordError("enqueue", err)
	}
	return err
}

// enqueue puts a waiter into its queue, with the same name if that is repeated. If it has expired there and not here, the clock of the
// store has changed, as after a failover, or was not known well: its times are then set again, by the clock as it is now.
func (t *tender) enqueue(ctx context.Context, w *waiter, repeat bool) (fairqueue.EnqueueResult, error) {
	r, err := t.store.Enqueue(ctx, w.pool, w.params(t.maxWaiting, repeat))
	if err != nil || r.Verdict != fairqueue.Expired || !time.Now().Before(w.until) {
		return r, err
	}
	if err := t.readClock(ctx, w); err != nil {
		return r, err
	}
	return t.store.Enqueue(ctx, w.pool, w.params(t.maxWaiting, repeat))
}

// readClock sets the times of a waiter by the clock of the store.
func (t *tender) readClock(ctx context.Context, w *waiter) error {
	now, err := t.store.Clock(ctx, store.ClockKey{Pool: w.pool})
	if err == nil {
		w.setClock(now.UnixMilli(), t.instance)
	}
	return err
}

// survey probes nodes of a class because its first request begins to wait: a slot may have become free when nobody waited for it yet.
func (t *tender) survey(ctx context.Context, class *waitClass) {
	t.probe(ctx, t.sample(class, maxSurveyed), telemetry.SweepFirst)
}

// sample returns up to n nodes that can serve a class, from a random one on.
func (t *tender) sample(class *waitClass, n int) []*fleet.Node {
	filter, now := t.open.filterOf(class), t.fleet.Now()
	restriction := core.RestrictionOf(&class.spec.Options)
	route := t.fleet.RestrictedRoute(class.spec.Direction, class.spec.Options.RequireTTS, &restriction)
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
