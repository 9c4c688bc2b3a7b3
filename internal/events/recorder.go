// Package events records what happens to the fleet in the event log of the store. Recording never waits: events are queued, and
// written in the background.
package events

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	maxQueued = 4096 // events that wait to be written; others are dropped and counted
	maxBatch  = 256  // events that are written together
)

// Recorder records the events of one instance. A nil Recorder records nothing.
type Recorder struct {
	instance core.InstanceID
	dropped  prometheus.Counter
	log      *slog.Logger
	queue    chan store.Event
}

// NewRecorder makes a recorder. Events are queued until Run writes them.
func NewRecorder(instance core.InstanceID, dropped prometheus.Counter, log *slog.Logger) *Recorder {
	return &Recorder{instance: instance, dropped: dropped, log: log, queue: make(chan store.Event, maxQueued)}
}

// Record records an event that has just happened. It never waits.
func (r *Recorder) Record(e store.Event) {
	if r == nil {
		return
	}
	e.At, e.Instance = time.Now(), r.instance
	select {
	case r.queue <- e:
	default:
		r.dropped.Inc()
	}
}

// writeBackoff is between two tries to write events.
var writeBackoff = backoff.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}

// Run writes events to a store until the context ends, and then once more what is queued. While the store does not answer, events
// wait.
func (r *Recorder) Run(ctx context.Context, st store.Events) {
	for {
		select {
		case <-ctx.Done():
			r.writeLast(context.WithoutCancel(ctx), st)
			return
		case first := <-r.queue:
			batch := r.collect([]store.Event{first})
			if !writeBackoff.Retry(ctx, func() error { return st.AppendEvents(ctx, batch) }) {
				r.writeLast(context.WithoutCancel(ctx), st, batch...)
				return
			}
		}
	}
}

// collect adds queued events to a batch.
func (r *Recorder) collect(batch []store.Event) []store.Event {
	for len(batch) < maxBatch {
		select {
		case e := <-r.queue:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

// lastWriteTimeout limits how long a stopping instance waits for its last events to be written.
const lastWriteTimeout = time.Second

// writeLast writes what is queued, after a batch that was not written, once.
func (r *Recorder) writeLast(ctx context.Context, st store.Events, batch ...store.Event) {
	ctx, cancel := context.WithTimeout(ctx, lastWriteTimeout)
	defer cancel()
	for batch = r.collect(batch); len(batch) > 0; batch = r.collect(nil) {
		if err := st.AppendEvents(ctx, batch); err != nil {
			r.dropped.Add(float64(len(batch) + len(r.queue)))
			r.log.Warn("the last events could not be written", "events", len(batch)+len(r.queue), "error", err)
			return
		}
	}
}
