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
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	beatNodes    = 1000
	beatRate     = 10_000 // heartbeats a second
	dispatchRate = 2_000  // dispatches a second
	beatWindow   = 2 * time.Second
	beatRounds   = 9
)

// BenchmarkDispatchBesideHeartbeats measures dispatch at a fixed rate, in process, in alternating windows
// without and with 10,000 heartbeats a second beside it.
func BenchmarkDispatchBesideHeartbeats(b *testing.B) {
	s, _ := inprocess.Start(b, beatNodes, 4, false)
	for b.Loop() {
		var quiet, busy []float64
		pace(b, s, beatWindow/4)
		for range beatRounds {
			quiet = append(quiet, pace(b, s, beatWindow))
			stop := heartbeats(b, s)
			busy = append(busy, pace(b, s, beatWindow))
			stop()
		}
		b.ReportMetric(median(quiet), "p99-µs-quiet")
		b.ReportMetric(median(busy), "p99-µs-beside")
		b.ReportMetric(median(busy)/median(quiet), "of-quiet")
	}
	b.ReportMetric(0, "ns/op")
}

// pace dispatches at the fixed rate for a while and returns the 99th percentile in microseconds, measured
// from when each dispatch was due to be given to a goroutine until it was answered.
func pace(b *testing.B, s *scheduler.Scheduler, d time.Duration) float64 {
	latencies := hdrhistogram.New(1, time.Minute.Microseconds(), 3)
	var mu sync.Mutex
	var calls sync.WaitGroup
	every(b.Context(), d, dispatchRate, func(int) {
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

// heartbeats sends them until it is stopped, each saying everything a node of the source documents says.
func heartbeats(b *testing.B, s *scheduler.Scheduler) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	slots, url, load := 4, "http://127.0.0.1:9/jobs", core.Load{CPU: 0.3, GPU: 0.5, Memory: 0.4}
	go func() {
		defer close(done)
		every(ctx, time.Hour, beatRate, func(i int) {
			beat := nodes.Heartbeat{
				Node: core.NodeID(fmt.Sprintf("node-%05d", i%beatNodes)),
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

// every calls fn at a rate, in small batches each millisecond, for a while or until the context ends.
func every(ctx context.Context, d time.Duration, rate int, fn func(i int)) {
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
