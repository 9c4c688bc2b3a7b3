package journal

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/run"
)

const (
	maxQueued = 4096 // entries that wait to be written; others are dropped and counted
	maxBatch  = 256  // entries that are written together
)

// queue holds entries until Run writes them.
type queue[T any] struct {
	name    string // of the log, for messages
	dropped prometheus.Counter
	log     *slog.Logger
	entries chan T
}

// newQueue makes a queue for the log of this name. dropped counts the entries that are never written.
func newQueue[T any](name string, dropped prometheus.Counter, log *slog.Logger) *queue[T] {
	return &queue[T]{name: name, dropped: dropped, log: log, entries: make(chan T, maxQueued)}
}

// Add queues an entry, or drops it if the queue is full. It never waits.
func (q *queue[T]) Add(entry T) {
	select {
	case q.entries <- entry:
	default:
		q.dropped.Inc()
	}
}

// writeBackoff is between two tries to write entries.
var writeBackoff = run.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}

// Run writes entries in their order until the context ends, and then once more what is queued. While write fails, entries wait.
func (q *queue[T]) Run(ctx context.Context, write func(context.Context, []T) error) {
	for {
		select {
		case <-ctx.Done():
			q.writeLast(context.WithoutCancel(ctx), write)
			return
		case first := <-q.entries:
			batch := q.collect([]T{first})
			if !writeBackoff.Retry(ctx, func() error { return write(ctx, batch) }) {
				q.writeLast(context.WithoutCancel(ctx), write, batch...)
				return
			}
		}
	}
}

// collect adds queued entries to a batch.
func (q *queue[T]) collect(batch []T) []T {
	for len(batch) < maxBatch {
		select {
		case e := <-q.entries:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

// lastWriteTimeout limits how long a stopping instance waits for its last entries to be written.
const lastWriteTimeout = time.Second

// writeLast writes what is queued, after a batch that was not written, once.
func (q *queue[T]) writeLast(ctx context.Context, write func(context.Context, []T) error, batch ...T) {
	ctx, cancel := context.WithTimeout(ctx, lastWriteTimeout)
	defer cancel()
	for batch = q.collect(batch); len(batch) > 0; batch = q.collect(nil) {
		if err := write(ctx, batch); err != nil {
			q.dropped.Add(float64(len(batch) + len(q.entries)))
			q.log.Warn("the last entries of a log could not be written", "log", q.name, "entries", len(batch)+len(q.entries), "error", err)
			return
		}
	}
}
