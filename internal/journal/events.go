package journal

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Events records the events of one instance. A nil Events records nothing.
type Events struct {
	instance core.InstanceID
	queue    *queue[store.Event]
}

// NewEvents makes a recorder. Events are queued until Run writes them.
func NewEvents(instance core.InstanceID, dropped prometheus.Counter, log *slog.Logger) *Events {
	return &Events{instance: instance, queue: newQueue[store.Event]("events", dropped, log)}
}

// Record records an event that has just happened. It never waits.
func (r *Events) Record(e store.Event) {
	if r == nil {
		return
	}
	e.At, e.Instance = time.Now(), r.instance
	r.queue.Add(e)
}

// Run writes events to a store until the context ends, and then once more what is queued. While the store does not answer, events
// wait.
func (r *Events) Run(ctx context.Context, st store.Logs) { r.queue.Run(ctx, EventLog(st).Append) }
