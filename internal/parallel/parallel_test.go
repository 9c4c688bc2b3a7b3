package parallel_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/parallel"
)

func TestEachIsCalledAFewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most, calls atomic.Int64
		began := time.Now()
		parallel.ForEach(3, make([]int, 10), func(int) {
			calls.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
		})
		if calls.Load() != 10 || most.Load() != 3 || time.Since(began) != 4*time.Second {
			t.Errorf("%d calls, %d at once, in %v", calls.Load(), most.Load(), time.Since(began))
		}
		parallel.ForEach(3, nil, func(int) { t.Error("called for nobody") })
	})
}
