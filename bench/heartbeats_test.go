package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	heartbeatNodes  = 1000
	heartbeatRate   = 10_000 // heartbeats a second
	dispatchRate    = 2_000  // dispatches a second
	heartbeatWindow = 2 * time.Second
	heartbeatRounds = 9
)

// BenchmarkDispatchBesideHeartbeats measures dispatch at a fixed rate, in process, in alternating windows without and with
// 10,000 heartbeats a second.
func BenchmarkDispatchBesideHeartbeats(b *testing.B) {
	s, _ := inprocess.Start(b, heartbeatNodes, 4, false)
	for b.Loop() {
		var quiet, busy []float64
		dispatchAtRate(b, s, heartbeatWindow/4)
		for range heartbeatRounds {
			quiet = append(quiet, dispatchAtRate(b, s, heartbeatWindow))
			stop := heartbeats(b, s)
			busy = append(busy, dispatchAtRate(b, s, heartbeatWindow))
			stop()
		}
		b.ReportMetric(stats.Median(quiet), "p99-µs-quiet")
		b.ReportMetric(stats.Median(busy), "p99-µs-beside")
		b.ReportMetric(stats.Median(busy)/stats.Median(quiet), "of-quiet")
	}
	b.ReportMetric(0, "ns/op")
}

// dispatchAtRate dispatches at the fixed rate for a while and returns the 99th percentile in microseconds, from when each
// dispatch was due to its answer.
func dispatchAtRate(b *testing.B, s *scheduler.Scheduler, d time.Duration) float64 {
	latencies := hdrhistogram.New(1, time.Minute.Microseconds(), 3)
	var mu sync.Mutex
	var calls sync.WaitGroup
	callAtRate(b.Context(), d, dispatchRate, func(int) {
		began := time.Now()
		calls.Go(func() {
			_, err := s.Jobs.Dispatch(b.Context(), dispatch.Request{Unique: true, Spec: core.Spec{
				Request: core.RequestID(uuid.NewString()), Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"},
			}})
			took := time.Since(began)
			if err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			_ = latencies.RecordValue(max(took.Microseconds(), 1))
		})
	})
	calls.Wait()
	return float64(latencies.ValueAtQuantile(99))
}

// heartbeats sends heartbeats until it is stopped. Each declares everything that a node can declare.
func heartbeats(b *testing.B, s *scheduler.Scheduler) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	slots, url, load := 4, "http://127.0.0.1:9/jobs", core.Load{CPU: 0.3, GPU: 0.5, Memory: 0.4}
	go func() {
		defer close(done)
		callAtRate(ctx, time.Hour, heartbeatRate, func(i int) {
			beat := nodes.Heartbeat{
				Node: core.NodeID(fmt.Sprintf("node-%05d", i%heartbeatNodes)),
				Patch: nodes.Patch{
					Health: core.HealthReady, Semantic: core.LangSet{"en", "zh"}, MaxJobs: &slots, Callback: &url, Load: &load,
				},
				Activity: store.Activity{},
			}
			if _, err := s.Nodes.Heartbeat(ctx, beat); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		})
	}()
	return func() {
		cancel()
		<-done
	}
}

// callAtRate calls fn at a rate, in batches every millisecond, for a while or until the context ends.
func callAtRate(ctx context.Context, d time.Duration, rate int, fn func(i int)) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for i := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		passed := time.Since(began)
		for ; i < int(passed.Seconds()*float64(rate)); i++ {
			fn(i)
		}
		if passed > d {
			return
		}
	}
}
