package scheduler

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAbsencesAreNoticed: one that may have cost the presence, once, and no shorter one.
func TestAbsencesAreNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asleep atomic.Int64 // by how much the clock has gone on without us
		a := suspensionDetector{ttl: 3 * time.Second, now: func() time.Time { return time.Now().Add(time.Duration(asleep.Load())) }}
		ctx, stop := context.WithCancel(t.Context())
		var told []time.Duration
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.watch(ctx, func(away time.Duration) { told = append(told, away) })
		}()
		for _, nap := range []time.Duration{0, 1500 * time.Millisecond, 9 * time.Second, 0} {
			time.Sleep(10 * time.Second)
			asleep.Add(int64(nap))
		}
		time.Sleep(10 * time.Second)
		stop()
		<-ended
		if len(told) != 1 || told[0].Round(time.Second) != 9*time.Second {
			t.Errorf("told of %v, want one absence of 9 s", told)
		}
	})
}
