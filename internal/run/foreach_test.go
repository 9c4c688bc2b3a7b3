package run_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
)

func TestForEachLimitsConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running, peak, calls atomic.Int64
		began := time.Now()
		run.ForEach(3, make([]int, 10), func(int) {
			calls.Add(1)
			peak.Store(max(peak.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
		})
		if calls.Load() != 10 || peak.Load() != 3 || time.Since(began) != 4*time.Second {
			t.Errorf("%d calls, at most %d at once, in %v; want 10, 3 and 4s", calls.Load(), peak.Load(), time.Since(began))
		}
		run.ForEach(3, nil, func(int) { t.Error("called for an empty list") })
	})
}
