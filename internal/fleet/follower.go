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
	pollInterval    = 750 * time.Millisecond // how often silent nodes are detected
	compareInterval = 30 * time.Second       // how often the whole fleet is compared with the store, in case a change was missed
	watchRetryDelay = time.Second            // after the stream of changes was lost
	jitter          = 0.1                    // so that instances do not poll at the same time
)

// Follower keeps a Fleet in step with the store: it applies changes as they are pushed, compares the whole fleet if some
// may have been missed, and detects silent nodes more than once a second.
type Follower struct {
	Fleet *Fleet
	Nodes store.NodeReader
	Marks store.Marks
	Log   *slog.Logger
	// OnSilent is called with batches of nodes that became silent and returns those whose jobs it could not handle. They are
	// reported again after the next poll, the others are not.
	OnSilent func(context.Context, []core.NodeID) (unhandled map[core.NodeID]error)

	storeFailed       bool        // the last poll failed
	silenceCountsFrom Instant     // no node is reported as silent before: heartbeats could not be recorded while the store was unavailable
	compareDue        atomic.Bool // a comparison with the store is due
	silent            silentQueue
}

// Run follows the store until the context ends.
func (f *Follower) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { f.watch(ctx) })
	wg.Go(func() { f.poll(ctx) })
	wg.Go(func() { f.reportSilent(ctx) })
	wg.Wait()
}

// watch applies pushed changes.
func (f *Follower) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.Nodes.Watch(ctx, func() { f.compareMissed(ctx) }, func(c store.Change) { f.apply(ctx, c) })
		if ctx.Err() != nil {
			return
		}
		f.Log.Warn("lost the stream of node changes; retrying", "error", err)
		backoff.SleepJitter(ctx, watchRetryDelay, jitter)
	}
}

func (f *Follower) apply(ctx context.Context, c store.Change) {
	switch {
	case c.Gap:
		f.compareMissed(ctx)
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

// compare updates the whole fleet from the store.
func (f *Follower) compare(ctx context.Context) {
	f.compareDue.Store(false)
	started := f.Fleet.Now()
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
	for batch := range slices.Chunk(all, admitBatch) {
		if err := f.Fleet.Admit(ctx, f.Marks, batch...); err != nil {
			complete = false
			f.compareDue.Store(true)
			f.Log.Warn("could not read the marks of nodes; retrying", "error", err)
		}
	}
	if complete {
		f.Fleet.SetPartial(false)
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

// poll detects silent nodes and changes that were not pushed.
func (f *Follower) poll(ctx context.Context) {
	compared := f.Fleet.Now()
	for backoff.SleepJitter(ctx, pollInterval, jitter) {
		lastSeen, err := f.Nodes.LastSeen(ctx)
		if err == nil && f.storeFailed {
			f.silenceCountsFrom, f.storeFailed = f.Fleet.Now()+Instant(f.Fleet.presence), false
		}
		if err != nil {
			f.storeFailed = true
			f.Log.Warn("could not read when nodes were last seen", "error", err)
			continue
		}
		f.recordLastSeen(lastSeen)
		if now := f.Fleet.Now(); f.compareDue.Load() || f.Fleet.Partial() || now-compared > Instant(compareInterval) {
			compared = now
			f.compare(ctx)
			f.Fleet.EvictIdleIndexes()
		}
	}
}

// recordLastSeen applies when nodes were last seen and queues those that are silent.
func (f *Follower) recordLastSeen(lastSeen []store.LastSeen) {
	for _, s := range lastSeen {
		f.Fleet.RecordSeen(s.Node, s.Age)
	}
	f.Fleet.ExpireSilent()
	silenceCounts := f.Fleet.Now() >= f.silenceCountsFrom
	var silent []core.NodeID
	for _, s := range lastSeen {
		switch {
		case s.Age >= f.Fleet.presence:
			silent = append(silent, s.Node)
		case f.Fleet.Node(s.Node) == nil:
			f.compareDue.Store(true) // back again, or new
		}
	}
	f.silent.update(silent, silenceCounts)
}
