package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
)

// BenchmarkTracing is BenchmarkLifecycle without traces and with different fractions of traced jobs, whose spans are exported to a collector
// that reads and drops them.
func BenchmarkTracing(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	for _, c := range []struct {
		name     string
		endpoint string
		ratio    float64
	}{{"off", "", 0}, {"none", collector.URL, 0}, {"1percent", collector.URL, 0.01}, {"10percent", collector.URL, 0.1}, {"all", collector.URL, 1}} {
		b.Run(c.name, func(b *testing.B) {
			s, _ := inprocess.Start(b, 50, 4, true, func(cfg *config.Config) {
				cfg.Scheduler.Tracing.Endpoint, cfg.Scheduler.Tracing.SampleRatio = c.endpoint, c.ratio
			})
			ctx, stop := context.WithCancel(b.Context())
			var exporting sync.WaitGroup
			exporting.Go(func() { s.ExportTraces(ctx) })
			defer exporting.Wait()
			defer stop()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, err := s.Jobs.Dispatch(b.Context(), dispatch.Request{Unique: true, Spec: core.Spec{
						Request: core.RequestID(uuid.NewString()), Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"},
					}})
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
