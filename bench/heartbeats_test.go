package bench

import (
	"context"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/core"
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
		inprocess.DispatchAtRate(b, s, dispatchRate, heartbeatWindow/4)
		for range heartbeatRounds {
			quiet = append(quiet, dispatchP99(b, s))
			stop := heartbeats(b, s)
			busy = append(busy, dispatchP99(b, s))
			stop()
		}
		b.ReportMetric(stats.Median(quiet), "p99-µs-quiet")
		b.ReportMetric(stats.Median(busy), "p99-µs-beside")
		b.ReportMetric(stats.Median(busy)/stats.Median(quiet), "of-quiet")
	}
	b.ReportMetric(0, "ns/op")
}

// dispatchP99 dispatches for a window and returns the 99th percentile in microseconds.
func dispatchP99(b *testing.B, s *scheduler.Scheduler) float64 {
	w := inprocess.DispatchAtRate(b, s, dispatchRate, heartbeatWindow)
	if w.Err != nil {
		b.Error(w.Err)
	}
	return float64(w.Latencies.ValueAtQuantile(99))
}

// heartbeats sends heartbeats until it is stopped. Each declares everything that a node can declare.
func heartbeats(b *testing.B, s *scheduler.Scheduler) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	slots, url, load := 4, "http://127.0.0.1:9/jobs", core.Load{CPU: 0.3, GPU: 0.5, Memory: 0.4}
	go func() {
		defer close(done)
		inprocess.CallAtRate(ctx, time.Hour, heartbeatRate, func(i int) {
			beat := nodes.Heartbeat{
				Node: inprocess.NodeID(i % heartbeatNodes),
				Change: core.Change{
					Declaration: core.Declaration{Health: core.HealthReady, Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}}, MaxJobs: slots, Callback: url}, Load: &load,
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
