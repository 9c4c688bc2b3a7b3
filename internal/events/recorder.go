// Package events records what happens to the fleet in the event log of the store. Recording never waits: events are queued, and
// written in the background.
package events

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/logqueue"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Recorder records the events of one instance. A nil Recorder records nothing.
type Recorder struct {
	instance core.InstanceID
	queue    *logqueue.Queue[store.Event]
}

// NewRecorder makes a recorder. Events are queued until Run writes them.
func NewRecorder(instance core.InstanceID, dropped prometheus.Counter, log *slog.Logger) *Recorder {
	return &Recorder{instance: instance, queue: logqueue.New[store.Event]("events", dropped, log)}
}

// Record records an event that has just happened. It never waits.
func (r *Recorder) Record(e store.Event) {
	if r == nil {
		return
	}
	e.At, e.Instance = time.Now(), r.instance
	r.queue.Add(e)
}

// Run writes events to a store until the context ends, and then once more what is queued. While the store does not answer, events
// wait.
func (r *Recorder) Run(ctx context.Context, st store.Events) { r.queue.Run(ctx, st.AppendEvents) }
