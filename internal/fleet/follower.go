package fleet

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	pollInterval     = 750 * time.Millisecond // between two polls while a node is overdue, or something could not be read
	idlePollInterval = 5 * time.Second        // between two polls while no node is overdue, at most; twice as long while there are none
	compareInterval  = 30 * time.Second       // how often the whole fleet is compared with the store, in case a change was missed
	watchRetryDelay  = time.Second            // after the stream of changes was lost
	jitter           = 0.1                    // so that instances do not poll at the same time
)

// Follower keeps a Fleet in step with the store: it applies changes as they are pushed, compares the whole fleet if some
// may have been missed, and detects silent nodes within a second. It reads last-seen times of overdue nodes alone, and
// declarations of nodes whose version it does not know.
type Follower struct {
	Fleet *Fleet
	Nodes store.NodeReader
	Marks store.Marks
	Log   *slog.Logger
	// OverdueAfter is how long after its last heartbeat a node is overdue. Until then the view only knows that the node is not; it must
	// be less than the presence time, and than every age at which selections treat a node differently. 0: half of the presence time.
	OverdueAfter time.Duration
	// OnSilent is called with batches of nodes that became silent and returns those whose jobs it could not handle. They are
	// reported again after the next poll, the others are not.
	OnSilent func(context.Context, []core.NodeID) (unhandled map[core.NodeID]error)

	// OnRevoked is called when a revocation was added, or may have been added unnoticed, from the goroutine that applies changes. It must
	// not block; nil: it is not called.
	OnRevoked func()

	storeFailed bool // the last poll failed
	// no node is reported as silent before: heartbeats could not be recorded while the store was unavailable
	silenceCountsFrom Instant
	compareDue        atomic.Bool   // a comparison with the store is due
	soon              chan struct{} // holds one element if the next poll must not wait longer than pollInterval
	silent            silentQueue
}

// Run follows the store until the context ends.
func (f *Follower) Run(ctx context.Context) {
	f.soon = make(chan struct{}, 1)
	f.silent.mu = run.NewMutex("fleet_silent")
	var wg sync.WaitGroup
	wg.Go(func() { f.watch(ctx) })
	wg.Go(func() { f.poll(ctx) })
	wg.Go(func() { f.reportSilent(ctx) })
	wg.Wait()
}

// watch applies pushed changes.
func (f *Follower) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.Nodes.Watch(ctx, func() { f.apply(ctx, store.Change{Gap: true}) }, func(c store.Change) { f.apply(ctx, c) })
		if ctx.Err() != nil {
			return
		}
		f.Log.Warn("lost the stream of node changes; retrying", "error", err)
		run.SleepJitter(ctx, watchRetryDelay, jitter)
	}
}

func (f *Follower) apply(ctx context.Context, c store.Change) {
	switch {
	case c.Gap:
		f.reportRevoked()
		f.compareMissed(ctx)
	case c.Revoked:
		f.reportRevoked()
	case c.Removed:
		f.Fleet.Remove(c.Node)
	case c.Mark != nil:
		f.Fleet.Mark(*c.Mark)
	case c.Setting != "": // is for others
	default:
		f.update(ctx, c.Now)
	}
}

// reportRevoked calls OnRevoked, after a revocation was or may have been added.
func (f *Follower) reportRevoked() {
	if f.OnRevoked != nil {
		f.OnRevoked()
	}
}

func (f *Follower) update(ctx context.Context, s store.NodeStatus) {
	if err := f.Fleet.Admit(ctx, f.Marks, s); err != nil {
		f.compareSoon()
		f.Log.Warn("could not read the marks of a node", "node_id", s.Node.ID, "error", err)
	}
}

// admitBatch is how many nodes are admitted before their marks are read. Until then a new node may be selected in spite of
// a mark.
const admitBatch = 512

// compareMissed updates the whole fleet from the store after changes may have been missed, marks among them.
func (f *Follower) compareMissed(ctx context.Context) {
	f.Fleet.forgetReadMarks()
	f.compare(ctx)
}

// compareSoon makes the next poll compare the fleet.
func (f *Follower) compareSoon() {
	f.compareDue.Store(true)
	f.pollSoon()
}

// pollSoon makes the next poll not wait longer than pollInterval.
func (f *Follower) pollSoon() {
	select {
	case f.soon <- struct{}{}:
	default:
	}
}

// compare updates the whole fleet from the store. Declarations are read of those nodes alone whose version is not the one in view.
func (f *Follower) compare(ctx context.Context) {
	f.compareDue.Store(false)
	started := f.Fleet.Now()
	digests, err := f.Nodes.Digests(ctx)
	if err != nil {
		f.compareSoon()
		f.Log.Warn("could not compare the fleet with the store", "error", err)
		return
	}
	known := make(map[core.NodeID]bool, len(digests))
	complete := true
	for batch := range slices.Chunk(digests, admitBatch) {
		for i := range batch {
			known[batch[i].Node] = true
		}
		marked, err := f.compareBatch(ctx, batch)
		if err != nil {
			f.compareSoon()
			f.Log.Warn("could not compare the fleet with the store", "error", err)
			return
		}
		complete = complete && marked
	}
	if complete {
		f.Fleet.SetPartial(false)
	} else {
		f.compareSoon()
	}
	for n := range f.Fleet.All() {
		// A node that registered while the list was read is not on it, but it was seen since.
		if !known[n.ID()] && n.SinceSeen(started) > 0 {
			f.Fleet.Remove(n.ID())
		}
	}
	for n := range f.Fleet.Silent() {
		if !known[n.ID] {
			f.Fleet.Remove(n.ID)
		}
	}
}

// compareBatch compares some nodes with the store, and reports whether their marks could be read.
func (f *Follower) compareBatch(ctx context.Context, batch []store.NodeDigest) (marked bool, err error) {
	var unchanged, changed []core.NodeID
	for i := range batch {
		if f.Fleet.refresh(&batch[i]) {
			unchanged = append(unchanged, batch[i].Node)
		} else {
			changed = append(changed, batch[i].Node)
		}
	}
	var statuses []store.NodeStatus
	if len(changed) > 0 {
		if statuses, err = f.Nodes.Nodes(ctx, changed...); err != nil {
			return false, err
		}
	}
	for _, err := range []error{f.Fleet.Admit(ctx, f.Marks, statuses...), f.Fleet.readMarks(ctx, f.Marks, unchanged)} {
		if err != nil {
			f.Log.Warn("could not read the marks of nodes; retrying", "error", err)
			return false, nil
		}
	}
	return true, nil
}

// poll detects silent nodes and changes that were not pushed.
func (f *Follower) poll(ctx context.Context) {
	compared := f.Fleet.Now()
	for wait := pollInterval; f.sleep(ctx, wait); {
		wait = pollInterval
		next, err := f.readOverdue(ctx)
		if err != nil {
			f.storeFailed = true
			f.Log.Warn("could not read when nodes were last seen", "error", err)
			continue
		}
		now := f.Fleet.Now()
		if f.compareDue.Load() || f.Fleet.Partial() || now-compared >= Instant(compareInterval) {
			compared = now
			f.compare(ctx)
			f.Fleet.EvictIdleIndexes()
		}
		if !f.compareDue.Load() && !f.Fleet.Partial() {
			wait = max(pollInterval, min(next, compareInterval-time.Duration(now-compared)))
		}
	}
}

// sleep waits until the next poll is due, and reports whether it is: the context has not ended.
func (f *Follower) sleep(ctx context.Context, wait time.Duration) bool {
	began := time.Now()
	timer := time.NewTimer(run.Jitter(wait, jitter))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	case <-f.soon:
		return run.Sleep(ctx, min(wait, run.Jitter(pollInterval, jitter))-time.Since(began))
	}
}

// overdueAfter returns after what time without a heartbeat a node is overdue.
func (f *Follower) overdueAfter() time.Duration {
	if f.OverdueAfter > 0 {
		return min(f.OverdueAfter, f.Fleet.presence)
	}
	return f.Fleet.presence / 2
}

// readOverdue reads which nodes are overdue, applies it to the view, and returns when the next poll has to be.
func (f *Follower) readOverdue(ctx context.Context) (next time.Duration, err error) {
	after := f.overdueAfter()
	overdue, err := f.Nodes.Overdue(ctx, after)
	if err != nil {
		return 0, err
	}
	if f.storeFailed {
		f.silenceCountsFrom, f.storeFailed = f.Fleet.Now()+Instant(f.Fleet.presence), false
	}
	if !f.Fleet.recordOverdue(overdue) { // the list shows which nodes are missing from the view, or are not registered any more
		all, err := f.Nodes.Overdue(ctx, 0)
		if err == nil {
			f.recordLastSeen(all.Nodes)
		}
		return pollInterval, err
	}
	waiting := f.recordSilent(overdue.Nodes)
	for _, s := range overdue.Nodes {
		// One that is silent may be in view for as long as an earlier answer of the store was on its way.
		waiting = waiting || s.Age < f.Fleet.presence || f.Fleet.Node(s.Node) != nil
	}
	switch {
	case waiting:
		return pollInterval, nil
	case overdue.Registered > len(overdue.Nodes):
		return min(idlePollInterval, after-overdue.Oldest), nil
	}
	return 2 * idlePollInterval, nil
}

// recordLastSeen applies when nodes were last seen and queues those that are silent.
func (f *Follower) recordLastSeen(lastSeen []store.LastSeen) {
	for _, s := range lastSeen {
		f.Fleet.RecordSeen(s.Node, s.Age)
	}
	for _, s := range lastSeen {
		if s.Age < f.Fleet.presence && f.Fleet.Node(s.Node) == nil {
			f.compareDue.Store(true) // back again, or new
		}
	}
	f.recordSilent(lastSeen)
}

// recordSilent removes silent nodes from the view and queues them, and reports whether some of them have to be reported later. The
// others of the list are ignored.
func (f *Follower) recordSilent(lastSeen []store.LastSeen) (waiting bool) {
	f.Fleet.ExpireSilent()
	var silent []core.NodeID
	for _, s := range lastSeen {
		if s.Age >= f.Fleet.presence {
			silent = append(silent, s.Node)
		}
	}
	return f.silent.update(silent, f.Fleet.Now() >= f.silenceCountsFrom)
}
