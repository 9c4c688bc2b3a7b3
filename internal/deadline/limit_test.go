package deadline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/deadline"
)

func TestLimitsAreSharedAndNeverLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const within = 1600 * time.Millisecond
		d := deadline.New(t.Context(), within, nil)
		made := make(map[context.Context]bool)
		for range 100 {
			ctx := d.Context()
			made[ctx] = true
			end, ok := ctx.Deadline()
			if left := time.Until(end); !ok || left > within || left < within*15/16 || ctx.Err() != nil {
				t.Fatalf("a context with %v left, want between %v and %v", left, within*15/16, within)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if len(made) > 12 {
			t.Errorf("%d contexts were made in a second", len(made))
		}
		time.Sleep(2 * within)
		for ctx := range made {
			if ctx.Err() == nil {
				t.Error("a context outlived its deadline")
			}
		}
	})
}
