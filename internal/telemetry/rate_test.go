package telemetry

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// TestRate samples a counter that grows by one every 100 ms for 30 s, and then no more.
func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := NewRate(func() int64 { return int64(min(time.Since(began), 30*time.Second) / (100 * time.Millisecond)) })
		go r.Run(t.Context())
		for _, c := range []struct {
			after    time.Duration
			ten, min float64
		}{{0, 0, 0}, {5 * time.Second, 10, 10}, {30 * time.Second, 10, 10}, {35 * time.Second, 5, 300.0 / 35}, {60 * time.Second, 0, 5}, {3 * time.Minute, 0, 0}} {
			time.Sleep(time.Until(began.Add(c.after)))
			synctest.Wait()
			if ten, minute := r.PerSecond(10), r.PerSecond(60); math.Abs(ten-c.ten) > 1e-9 || math.Abs(minute-c.min) > 1e-9 {
				t.Errorf("after %v: %v and %v per second, want %v and %v", c.after, ten, minute, c.ten, c.min)
			}
		}
	})
}
