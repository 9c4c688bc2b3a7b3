package run_test

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
)

func TestFullJitterBounds(t *testing.T) {
	t.Parallel()
	for retry, bound := range map[int]time.Duration{
		-1: 100 * time.Millisecond, 0: 100 * time.Millisecond, 1: 200 * time.Millisecond, 3: 800 * time.Millisecond, 6: 5 * time.Second, 1 << 20: 5 * time.Second,
	} {
		shortest, longest := bound, time.Duration(0)
		for range 1000 {
			d := run.FullJitter(retry, 100*time.Millisecond, 5*time.Second)
			shortest, longest = min(shortest, d), max(longest, d)
		}
		if longest > bound || shortest < 0 || shortest > bound/5 || longest < bound*4/5 {
			t.Errorf("retry %d: from %v to %v, want the whole of 0 to %v", retry, shortest, longest, bound)
		}
	}
}
