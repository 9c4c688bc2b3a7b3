package run_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
)

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !run.Sleep(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("waited %v, want a minute", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if run.Sleep(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("waited %v although the context ended after a second", time.Since(began))
		}
	})
}

func TestJitterStaysWithinBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		low, high := time.Hour, time.Duration(0)
		for range 500 {
			began := time.Now()
			if !run.SleepJitter(t.Context(), time.Second, 0.2) {
				t.Fatal("the sleep ended early")
			}
			took := time.Since(began)
			low, high = min(low, took), max(high, took)
		}
		if low < 800*time.Millisecond || high > 1200*time.Millisecond {
			t.Errorf("waits between %v and %v, want 0.8 s to 1.2 s", low, high)
		}
		if low > 850*time.Millisecond || high < 1150*time.Millisecond {
			t.Errorf("waits between %v and %v: there is no jitter", low, high)
		}
	})
}

func TestRetryUntilSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		try := func() error {
			if calls++; calls < 6 {
				return context.DeadlineExceeded
			}
			return nil
		}
		began := time.Now()
		if !(run.Backoff{Min: 100 * time.Millisecond, Max: 400 * time.Millisecond}).Retry(t.Context(), try) || calls != 6 {
			t.Fatalf("%d calls, want 6", calls)
		}
		// 100, 200, 400, 400 and 400 ms, each with a jitter of one half.
		if took := time.Since(began); took < 750*time.Millisecond || took > 2250*time.Millisecond {
			t.Errorf("the retries took %v, want 0.75 s to 2.25 s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if (run.Backoff{Min: time.Millisecond, Max: time.Millisecond}).Retry(ctx, func() error { return context.Canceled }) || ctx.Err() == nil {
			t.Error("Retry succeeded, or gave up before the context ended")
		}
	})
}
