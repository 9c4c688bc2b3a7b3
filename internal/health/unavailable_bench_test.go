package health_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/health"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// BenchmarkEnqueue measures what a report of an unavailable service costs on the path of messages: of a hundred nodes at once, while the
// worker runs, and while its queue is full because it does not.
func BenchmarkEnqueue(b *testing.B) {
	for _, running := range []bool{true, false} {
		b.Run(map[bool]string{true: "worker=running", false: "worker=stuck"}[running], func(b *testing.B) {
			mem := memstore.New(store.Timing{Presence: time.Hour, ReservedTTL: time.Second, Attempt: time.Second, Job: time.Second, Retention: time.Second})
			worker := health.NewUnavailableWorker(health.UnavailableOptions{
				MarkFor: time.Minute, Debounce: 5 * time.Second, Limit: 60, Window: time.Minute, Store: mem, Fleet: fleet.New(time.Hour), Catalog: new(refreshes),
				Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler),
			})
			if running {
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan struct{})
				go func() {
					worker.Run(ctx)
					close(done)
				}()
				defer func() {
					cancel()
					<-done
				}()
			}
			reports := make([]core.UnavailableService, 100)
			for i := range reports {
				reports[i] = core.UnavailableService{Node: core.NodeID(fmt.Sprint("n", i)), Service: fmt.Sprint("s", i%10), Version: "1", Reason: core.UnavailableOther}
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					worker.Enqueue(reports[i%len(reports)])
				}
			})
		})
	}
}
