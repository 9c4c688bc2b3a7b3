package fleet

import (
	"context"
	"errors"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// ErrOthers says that another instance sees to a silent node.
var ErrHandledElsewhere = errors.New("another instance is at it")

// reportAtOnce is how many silent nodes are reported together.
const reportBatch = 512

// losses is whose silence was found by a poll and is to be reported. Thousands of nodes may be lost at once, and seeing to
// their jobs takes time: the next poll must not wait for it, or nodes that are heard would be taken for silent too.
type silentQueue struct {
	mu    sync.Mutex
	reported map[core.NodeID]bool // reported, or about to be
	queue []core.NodeID
	queued  chan struct{} // holds one when the queue is not empty
}

// wake is where it is waited for something to be queued. The caller holds the lock.
func (l *silentQueue) queuedChan() chan struct{} {
	if l.queued == nil {
		l.queued = make(chan struct{}, 1)
	}
	return l.queued
}

// note takes in who is silent by now. What was noted of others goes; those who are new are queued, unless silence does not
// count for now.
func (l *silentQueue) update(silent []core.NodeID, judging bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := make(map[core.NodeID]bool, len(silent))
	for _, id := range silent {
		switch {
		case l.reported[id]:
			known[id] = true
		case judging:
			known[id] = true
			l.queue = append(l.queue, id)
		}
	}
	l.reported = known
	if len(l.queue) > 0 {
		select {
		case l.queuedChan() <- struct{}{}:
		default:
		}
	}
}

// next takes some out of the queue. It waits until there are any, and returns none when the context ends.
func (l *silentQueue) next(ctx context.Context) []core.NodeID {
	for {
		l.mu.Lock()
		n := min(len(l.queue), reportBatch)
		some := l.queue[:n:n]
		l.queue = l.queue[n:]
		more := l.queuedChan()
		l.mu.Unlock()
		if n > 0 {
			return some
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		}
	}
}

// forget has a node reported again if it is still silent.
func (l *silentQueue) reportAgain(id core.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.reported, id)
}

// report reports who fell silent, until the context ends.
func (f *Follower) reportSilent(ctx context.Context) {
	for {
		some := f.silent.next(ctx)
		if len(some) == 0 {
			return
		}
		for id, err := range f.OnSilent(ctx, some) {
			f.silent.reportAgain(id)
			if !errors.Is(err, ErrHandledElsewhere) && ctx.Err() == nil {
				f.Log.Warn("could not see to the jobs of a silent node; trying again", "node_id", id, "error", err)
			}
		}
	}
}
