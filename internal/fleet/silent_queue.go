package fleet

import (
	"context"
	"errors"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
)

// ErrHandledElsewhere means that another instance handles a silent node.
var ErrHandledElsewhere = errors.New("another instance handles the node")

// reportBatch is the maximum number of silent nodes in one report.
const reportBatch = 512

// silentQueue holds the silent nodes that a poll found and that are to be reported. Thousands of nodes may be lost at once,
// and handling their jobs takes time: the next poll must not wait for it, or live nodes would count as silent too.
type silentQueue struct {
	mu       run.Mutex
	reported map[core.NodeID]bool // reported or queued
	queue    []core.NodeID
	queued   chan struct{} // holds one element if the queue is not empty
}

// queuedChan returns the channel that signals a non-empty queue. The caller holds the lock.
func (l *silentQueue) queuedChan() chan struct{} {
	if l.queued == nil {
		l.queued = make(chan struct{}, 1)
	}
	return l.queued
}

// update sets the nodes that are silent now and drops all others. New ones are queued if silence counts; otherwise they wait for a later
// update, which it reports.
func (l *silentQueue) update(silent []core.NodeID, silenceCounts bool) (waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	reported := make(map[core.NodeID]bool, len(silent))
	for _, id := range silent {
		switch {
		case l.reported[id]:
			reported[id] = true
		case silenceCounts:
			reported[id] = true
			l.queue = append(l.queue, id)
		default:
			waiting = true
		}
	}
	l.reported = reported
	if len(l.queue) > 0 {
		select {
		case l.queuedChan() <- struct{}{}:
		default:
		}
	}
	return waiting
}

// next removes a batch from the queue. It waits until there is one, and returns none when the context ends.
func (l *silentQueue) next(ctx context.Context) []core.NodeID {
	for {
		l.mu.Lock()
		n := min(len(l.queue), reportBatch)
		batch := l.queue[:n:n]
		l.queue = l.queue[n:]
		queued := l.queuedChan()
		l.mu.Unlock()
		if n > 0 {
			return batch
		}
		select {
		case <-queued:
		case <-ctx.Done():
			return nil
		}
	}
}

// reportAgain makes the next poll queue the node once more if it is still silent.
func (l *silentQueue) reportAgain(id core.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.reported, id)
}

// reportSilent reports silent nodes until the context ends.
func (f *Follower) reportSilent(ctx context.Context) {
	for {
		batch := f.silent.next(ctx)
		if len(batch) == 0 {
			return
		}
		for id, err := range f.OnSilent(ctx, batch) {
			f.silent.reportAgain(id)
			f.pollSoon()
			if !errors.Is(err, ErrHandledElsewhere) && ctx.Err() == nil {
				f.Log.Warn("could not handle the jobs of a silent node; retrying", "node_id", id, "error", err)
			}
		}
	}
}
