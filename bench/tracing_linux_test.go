package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	tracingTurns      = 41
	tracingJobs       = 800 // of one turn; their spans fit into the queue
	tracingSubmitters = 16
)

// BenchmarkTracing measures whole jobs without HTTP, as BenchmarkLifecycle does, without traces and with different fractions of traced jobs,
// which take turns. The spans are exported to a collector in this process, which reads and drops them. What counts is the CPU time of this
// process, with the collector's, which a busy machine hardly changes.
func BenchmarkTracing(b *testing.B) {
	b.Run("memory", func(b *testing.B) { benchmarkTracing(b, "memory") })
	b.Run("redis", func(b *testing.B) { benchmarkTracing(b, redistest.Start(b).URL()) })
}

func benchmarkTracing(b *testing.B, store string) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	off := startTraced(b, store, "off", "", 0)
	ratios := []float64{0, 0.01, 0.1, 1}
	traced := make([]*scheduler.Scheduler, len(ratios))
	for i, ratio := range ratios {
		traced[i] = startTraced(b, store, fmt.Sprint("on-", i), collector.URL, ratio)
	}
	for b.Loop() {
		var alone []float64
		costs := make([][]float64, len(ratios))
		for range tracingTurns {
			without := cpuPerJob(b, off)
			alone = append(alone, without)
			for i, s := range traced {
				costs[i] = append(costs[i], cpuPerJob(b, s)/without)
			}
		}
		b.ReportMetric(stats.Median(alone), "cpu-µs/job-off")
		for i, ratio := range ratios {
			b.ReportMetric(stats.Median(costs[i]), fmt.Sprintf("of-off-at-%v", ratio))
		}
	}
	b.ReportMetric(0, "ns/op")
}

// startTraced starts a scheduler that exports a fraction of its traces. Schedulers on one Redis share nothing.
func startTraced(b *testing.B, store, prefix, endpoint string, ratio float64) *scheduler.Scheduler {
	b.Helper()
	s, _ := inprocess.Start(b, 50, 4, true, func(c *config.Config) {
		c.Store, c.Scheduler.Phase2.Redis.KeyPrefix = store, prefix
		c.Scheduler.Tracing.Endpoint, c.Scheduler.Tracing.SampleRatio = endpoint, ratio
	})
	return s
}

// cpuPerJob runs the jobs of one turn, exports their spans, and returns the CPU time of each job in microseconds.
func cpuPerJob(b *testing.B, s *scheduler.Scheduler) float64 {
	var left atomic.Int64
	left.Store(tracingJobs)
	var submitters sync.WaitGroup
	began := cpuTime(b)
	ctx, stop := context.WithCancel(b.Context())
	var exporting sync.WaitGroup
	exporting.Go(func() { s.ExportTraces(ctx) })
	for range tracingSubmitters {
		submitters.Go(func() {
			for left.Add(-1) >= 0 {
				r := dispatch.Request{Unique: true, Spec: core.Spec{
					Request: core.RequestID(uuid.NewString()), Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"},
				}}
				_, err := s.Jobs.Dispatch(b.Context(), r)
				for e := new(wire.Error); errors.As(err, &e) && e.Code.Retryable(); { // the machine was too busy to decide in time
					_, err = s.Jobs.Dispatch(b.Context(), r)
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	submitters.Wait()
	stop()
	exporting.Wait()
	return float64((cpuTime(b) - began).Microseconds()) / tracingJobs
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
