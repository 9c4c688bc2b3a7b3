package fleet

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	pollInterval    = 750 * time.Millisecond // how often the silent are looked for
	compareInterval = 30 * time.Second       // how often the whole fleet is compared, in case a change was missed
	watchRetryDelay   = time.Second            // after the store failed
	jitter       = 0.1                    // so that instances do not act in step
)

// Follower keeps a Fleet in step with the store: changes as they are pushed, a whole comparison when some
// may have been missed, and a look at who has fallen silent more than once a second.
type Follower struct {
	Fleet *Fleet
	Nodes store.NodeReader
	Marks store.Marks
	Log   *slog.Logger
	// Silent is called with nodes that are not heard any more, many at a time, and returns those of which it could not see
	// to the jobs: they are reported again with the next poll, the others not.
	OnSilent func(context.Context, []core.NodeID) (unhandled map[core.NodeID]error)

	storeFailed bool        // the store did not answer the last time
	silenceCountsFrom  Instant     // before this nobody is judged silent: while the store was away nobody could be heard
	compareDue   atomic.Bool // a comparison is due
	silent silentQueue
}

// Run follows until the context ends.
func (f *Follower) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { f.watch(ctx) })
	wg.Go(func() { f.poll(ctx) })
	wg.Go(func() { f.reportSilent(ctx) })
	wg.Wait()
}

// watch follows the pushed changes.
func (f *Follower) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.Nodes.Watch(ctx, func() { f.compare(ctx) }, func(c store.Change) { f.apply(ctx, c) })
		if ctx.Err() != nil {
			return
		}
		f.Log.Warn("lost the stream of node changes; trying again", "error", err)
		backoff.SleepJitter(ctx, watchRetryDelay, jitter)
	}
}

func (f *Follower) apply(ctx context.Context, c store.Change) {
	switch {
	case c.Gap:
		f.compare(ctx)
	case c.Removed:
		f.Fleet.Remove(c.Node)
	case c.Mark != nil:
		f.Fleet.Mark(*c.Mark)
	default:
		f.update(ctx, c.Now)
	}
}

func (f *Follower) update(ctx context.Context, s store.NodeStatus) {
	if err := f.Fleet.Admit(ctx, f.Marks, s); err != nil {
		f.compareDue.Store(true)
		f.Log.Warn("could not read a node's marks", "node_id", s.Node.ID, "error", err)
	}
}

// admitAtOnce is how many nodes are admitted before their marks are read: a node that is new to the view may be chosen in
// spite of a mark for so long.
const admitBatch = 512

// compare takes over the whole fleet from the store.
func (f *Follower) compare(ctx context.Context) {
	f.compareDue.Store(false)
	began := f.Fleet.Now()
	all, err := f.Nodes.Nodes(ctx)
	if err != nil {
		f.compareDue.Store(true)
		f.Log.Warn("could not compare the fleet with the store", "error", err)
		return
	}
	known := make(map[core.NodeID]bool, len(all))
	for _, s := range all {
		known[s.Node.ID] = true
	}
	complete := true
	for some := range slices.Chunk(all, admitBatch) {
		if err := f.Fleet.Admit(ctx, f.Marks, some...); err != nil {
			complete = false
			f.compareDue.Store(true)
			f.Log.Warn("could not read the marks of nodes; trying again", "error", err)
		}
	}
	if complete {
		f.Fleet.SetPartial(false)
	}
	for n := range f.Fleet.All() {
		// A node that registered while the list was read is not on it, but it was heard since.
		if !known[n.ID()] && n.SinceSeen(began) > 0 {
			f.Fleet.Remove(n.ID())
		}
	}
	for n := range f.Fleet.Silent() {
		if !known[n.ID] {
			f.Fleet.Remove(n.ID)
		}
	}
}

// poll looks for the silent, and for what the pushed changes did not tell.
func (f *Follower) poll(ctx context.Context) {
	compared := f.Fleet.Now()
	for backoff.SleepJitter(ctx, pollInterval, jitter) {
		sightings, err := f.Nodes.LastSeen(ctx)
		if err == nil && f.storeFailed {
			f.silenceCountsFrom, f.storeFailed = f.Fleet.Now()+Instant(f.Fleet.presence), false
		}
		if err != nil {
			f.storeFailed = true
			f.Log.Warn("could not ask the store who is alive", "error", err)
			continue
		}
		f.recordLastSeen(sightings)
		if now := f.Fleet.Now(); f.compareDue.Load() || f.Fleet.Partial() || now-compared > Instant(compareInterval) {
			compared = now
			f.compare(ctx)
			f.Fleet.EvictIdlePools()
		}
	}
}

// take notes who was heard, and has those reported who were not.
func (f *Follower) recordLastSeen(sightings []store.LastSeen) {
	for _, s := range sightings {
		f.Fleet.RecordSeen(s.Node, s.Age)
	}
	f.Fleet.ExpireSilent()
	judging := f.Fleet.Now() >= f.silenceCountsFrom // else silence counts from when nodes could be heard
	var silent []core.NodeID
	for _, s := range sightings {
		switch {
		case s.Age >= f.Fleet.presence:
			silent = append(silent, s.Node)
		case f.Fleet.Node(s.Node) == nil:
			f.compareDue.Store(true) // heard again, or never heard of
		}
	}
	f.silent.update(silent, judging)
}
