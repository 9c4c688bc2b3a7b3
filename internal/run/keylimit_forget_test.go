package run

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestKeysAreForgotten: however many keys there were, only those of the last two windows are kept.
func TestKeysAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewKeyLimit[int](1, time.Minute)
		for i := range 100_000 {
			if !l.Allow(i) || l.Allow(i) {
				t.Fatalf("%d: want the first use to be allowed, and no other", i)
			}
			time.Sleep(10 * time.Millisecond)
		}
		const perWindow = 6000
		if got := len(l.keys) + len(l.earlier); got > 2*perWindow {
			t.Errorf("%d keys are kept, want at most %d", got, 2*perWindow)
		}
	})
}
