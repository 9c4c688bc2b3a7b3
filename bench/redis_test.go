package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// BenchmarkRedisLifecycle is the whole life of a job over Redis, dispatch, ACK and result, in process and without
// HTTP: 64 submitters, 50 nodes of four slots that confirm and finish at once.
func BenchmarkRedisLifecycle(b *testing.B) {
	server := redistest.Start(b)
	s := start(b, 50, 4, true, func(c *config.Config) { c.Store = server.URL() })
	server.ResetStats()
	var made atomic.Int64
	began := time.Now()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for made.Add(1) <= int64(b.N) {
				id := core.RequestID(fmt.Sprintf("r-%d", made.Load()))
				_, err := s.Jobs.Dispatch(b.Context(), dispatch.Request{Unique: true, Spec: core.Spec{
					Request: id + core.RequestID(fmt.Sprint(time.Now().UnixNano())), Session: "room-1", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a",
				}})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "jobs/s")
	total := int64(0)
	for name, n := range server.CommandStats() {
		if b.N > 1000 {
			b.Logf("%-20s %.2f", name, float64(n)/float64(b.N))
		}
		total += n
	}
	b.ReportMetric(float64(total)/float64(b.N), "commands/job")
}
