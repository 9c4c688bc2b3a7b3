package guard

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWindowLimitForgetsKeys: however many keys there were, only those of the last two windows are kept.
func TestWindowLimitForgetsKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newWindowLimit[int](1, time.Minute)
		for i := range 100_000 {
			if !l.allow(i) || l.allow(i) {
				t.Fatalf("%d: want the first use to be allowed, and no other", i)
			}
			time.Sleep(10 * time.Millisecond)
		}
		const perWindow = 6000
		if got := len(l.keys); got > 2*perWindow {
			t.Errorf("%d keys are kept, want at most %d", got, 2*perWindow)
		}
	})
}

// TestWindowBeginsWithItsFirstUse: the window of a key does not depend on those of others.
func TestWindowBeginsWithItsFirstUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newWindowLimit[string](1, time.Minute)
		l.allow("other")
		time.Sleep(30 * time.Second)
		l.allow("key")
		time.Sleep(time.Minute - 1)
		if l.allow("key") {
			t.Error("allowed before the end of the window")
		}
		time.Sleep(time.Nanosecond)
		if !l.allow("key") {
			t.Error("not allowed in the next window")
		}
	})
}
