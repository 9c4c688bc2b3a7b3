package run_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
)

func TestContextsAreSharedAndEndInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 1600 * time.Millisecond
		l := run.NewLimit(t.Context(), timeout, nil)
		made := make(map[context.Context]bool)
		for range 100 {
			ctx := l.Context()
			made[ctx] = true
			end, ok := ctx.Deadline()
			if left := time.Until(end); !ok || left > timeout || left < timeout*15/16 || ctx.Err() != nil {
				t.Fatalf("a context with %v left, want between %v and %v", left, timeout*15/16, timeout)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if len(made) > 12 {
			t.Errorf("%d contexts were made in a second, want at most 12", len(made))
		}
		time.Sleep(2 * timeout)
		for ctx := range made {
			if ctx.Err() == nil {
				t.Error("a context outlived its deadline")
			}
		}
	})
}
