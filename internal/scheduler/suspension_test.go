package scheduler

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLongSuspensionIsReported: one in which the presence may have expired is reported once, a shorter one is not.
func TestLongSuspensionIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var suspended atomic.Int64 // by how much the clock is ahead of the process
		d := suspensionDetector{ttl: 3 * time.Second, now: func() time.Time { return time.Now().Add(time.Duration(suspended.Load())) }}
		ctx, stop := context.WithCancel(t.Context())
		var reported []time.Duration
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.watch(ctx, time.Now(), func(d time.Duration) { reported = append(reported, d) })
		}()
		for _, pause := range []time.Duration{0, 1500 * time.Millisecond, 9 * time.Second, 0} {
			time.Sleep(10 * time.Second)
			suspended.Add(int64(pause))
		}
		time.Sleep(10 * time.Second)
		stop()
		<-ended
		if len(reported) != 1 || reported[0].Round(time.Second) != 9*time.Second {
			t.Errorf("reported %v, want one suspension of 9 s", reported)
		}
	})
}
