package telemetry

import (
	"testing"
	"time"
)

// TestDispatchBuckets checks that each dispatch is in the first bucket whose bound it does not exceed, and that refusals are in none.
func TestDispatchBuckets(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]int{
		0: 0, -time.Second: 0, 50 * time.Microsecond: 0, 50*time.Microsecond + 1: 1, 100 * time.Microsecond: 1, 101 * time.Microsecond: 2,
		200 * time.Microsecond: 2, time.Millisecond: 5, time.Second: 15, 24 * time.Hour: 19,
	} {
		m := New()
		m.ObserveDispatch(took, false, "")
		m.ObserveDispatch(took, true, "")
		var expected DispatchBuckets
		expected[want] = 1
		if got := m.Dispatched(); got != expected {
			t.Errorf("%s is in %v, want bucket %d", took, got, want)
		}
		if took > 0 && want < 19 && (took > DispatchBound(want) || took <= DispatchBound(want-1)) {
			t.Errorf("%s is not between the bounds of bucket %d", took, want)
		}
	}
}
