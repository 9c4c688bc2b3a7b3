package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadlinesAreSharedAndNeverLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := deadlines{root: t.Context(), within: 1600 * time.Millisecond}
		made := make(map[context.Context]bool)
		for range 100 {
			ctx := d.get()
			made[ctx] = true
			end, ok := ctx.Deadline()
			if left := time.Until(end); !ok || left > d.within || left < d.within*15/16 || ctx.Err() != nil {
				t.Fatalf("a context with %v left, want between %v and %v", left, d.within*15/16, d.within)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if len(made) > 12 {
			t.Errorf("%d contexts were made in a second", len(made))
		}
		time.Sleep(2 * d.within)
		for ctx := range made {
			if ctx.Err() == nil {
				t.Error("a context outlived its deadline")
			}
		}
	})
}
