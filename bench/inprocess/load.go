package inprocess

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
)

// Window is what was measured in a while of load.
type Window struct {
	Latencies *hdrhistogram.Histogram // in microseconds, from each call to its answer
	Failed    int
	Err       error // of one that failed
}

// DispatchAtRate dispatches at a rate a second for a while.
func DispatchAtRate(tb testing.TB, s *scheduler.Scheduler, rate int, d time.Duration) Window {
	tb.Helper()
	w := Window{Latencies: hdrhistogram.New(1, time.Minute.Microseconds(), 3)}
	var mu sync.Mutex
	var calls sync.WaitGroup
	CallAtRate(tb.Context(), d, rate, func(int) {
		began := time.Now()
		calls.Go(func() {
			_, err := s.Jobs.Dispatch(tb.Context(), dispatch.Request{Unique: true, Spec: core.Spec{
				Request: core.RequestID(uuid.NewString()), Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"},
			}})
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				w.Failed++
				w.Err = err
			}
			_ = w.Latencies.RecordValue(max(took.Microseconds(), 1))
		})
	})
	calls.Wait()
	return w
}

// CallAtRate calls fn at a rate a second, in batches every millisecond, for a while or until the context ends.
func CallAtRate(ctx context.Context, d time.Duration, rate int, fn func(i int)) {
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
