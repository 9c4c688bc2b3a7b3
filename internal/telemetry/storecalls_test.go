package telemetry

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestStoreCalls checks the durations of the calls of the last minute, and that older ones do not count.
func TestStoreCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewStoreCalls()
		if got := c.LastMinute(); got != (CallSummary{}) {
			t.Errorf("without calls: %+v", got)
		}
		c.Observe(2 * time.Second)
		for range 40 {
			time.Sleep(time.Second)
			for range 98 {
				c.Observe(300 * time.Microsecond)
			}
			c.Observe(20 * time.Millisecond)
			c.Observe(20 * time.Millisecond)
		}
		got := c.LastMinute()
		if got.Calls != 4001 || got.Max != 2*time.Second || got.P50 < 250*time.Microsecond || got.P50 > 350*time.Microsecond || got.P99 < 15*time.Millisecond || got.P99 > 25*time.Millisecond {
			t.Errorf("after 40 s: %+v", got)
		}
		time.Sleep(35 * time.Second)
		if got := c.LastMinute(); got.Max != 20*time.Millisecond || got.Calls < 3000 || got.Calls > 3600 {
			t.Errorf("35 s later: %+v", got)
		}
		time.Sleep(time.Minute)
		if got := c.LastMinute(); got.Calls != 0 || got.Max != 0 {
			t.Errorf("a minute later: %+v", got)
		}
		for range 100 {
			c.Observe(400 * time.Millisecond)
		}
		if got := c.LastMinute(); got.P50 < 320*time.Millisecond || got.P50 > 400*time.Millisecond || got.P99 < 350*time.Millisecond {
			t.Errorf("after slow calls: %+v", got)
		}
		time.Sleep(75 * time.Second) // the calls of the first seconds were counted in the same place
		c.Observe(time.Hour)
		if got := c.LastMinute(); got.Calls != 1 || got.Max != time.Hour || got.P99 > time.Hour {
			t.Errorf("after one long call: %+v", got)
		}
	})
}

// TestStoreCallsConcurrently counts calls of many goroutines without an allocation.
func TestStoreCallsConcurrently(t *testing.T) {
	c := NewStoreCalls()
	c.Observe(time.Millisecond) // the first one of a step clears it
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for range 1000 {
				c.Observe(time.Duration(i) * time.Millisecond)
			}
		})
	}
	callers.Wait()
	if got := c.LastMinute(); got.Calls < 7000 || got.Calls > 8001 || got.Max != 7*time.Millisecond { // a step may have begun meanwhile
		t.Errorf("%+v", got)
	}
	if n := testing.AllocsPerRun(100, func() { c.Observe(time.Millisecond) }); n != 0 {
		t.Errorf("a call costs %v allocations", n)
	}
}
