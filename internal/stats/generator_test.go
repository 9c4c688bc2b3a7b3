package stats

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestEachStepCountsOnePublication: while jobs end at an even rate, every point of the series of the cluster has as many, whatever the rate and
// the time at which instances begin.
func TestEachStepCountsOnePublication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		ids := []core.InstanceID{"i-1", "i-2", "i-3"}
		var stops []func()
		for i, id := range ids {
			in := newInstance(id, st, ids...)
			stops = append(stops, in.run())
			ctx, cancel := context.WithCancel(t.Context())
			var jobs sync.WaitGroup
			jobs.Go(func() {
				for run.Sleep(ctx, 100*time.Millisecond) {
					in.counter.JobEnded(endJob(enZH, core.StateDone, ""))
				}
			})
			stops = append(stops, func() {
				cancel()
				jobs.Wait()
			})
			if i == len(ids)-1 {
				stops = append(stops, func() { checkSteadyPoints(t, in.reader.Series(time.Time{}).Points) })
			}
			time.Sleep(time.Duration(i+1) * 1300 * time.Millisecond)
		}
		time.Sleep(time.Hour / 2)
		for _, stop := range slices.Backward(stops) {
			stop()
		}
	})
}

// checkSteadyPoints checks that points after the first ones have 150 jobs in 5 s, or a few more or less at the edges of the interval.
func checkSteadyPoints(t *testing.T, points []wire.ClusterPoint) {
	t.Helper()
	if len(points) < 300 {
		t.Errorf("%d points", len(points))
	}
	for i, p := range points[min(len(points), 4):] {
		if p.SpanMS != 5000 || p.Done < 130 || p.Done > 170 {
			t.Errorf("point %d has %d jobs in %d ms, want 150 in 5 s", i+4, p.Done, p.SpanMS)
		}
	}
}
