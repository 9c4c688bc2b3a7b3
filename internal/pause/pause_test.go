package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/pause"
)

func TestForWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !pause.For(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("waited %v, want a minute", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if pause.For(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("waited %v although the context ended after a second", time.Since(began))
		}
	})
}

func TestAboutStaysWithinItsPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		low, high := time.Hour, time.Duration(0)
		for range 500 {
			began := time.Now()
			if !pause.About(t.Context(), time.Second, 0.2) {
				t.Fatal("a pause nobody ended was ended")
			}
			took := time.Since(began)
			low, high = min(low, took), max(high, took)
		}
		if low < 800*time.Millisecond || high > 1200*time.Millisecond {
			t.Errorf("waits between %v and %v, want 0.8 s to 1.2 s", low, high)
		}
		if low > 850*time.Millisecond || high < 1150*time.Millisecond {
			t.Errorf("waits between %v and %v: they hardly differ", low, high)
		}
	})
}
