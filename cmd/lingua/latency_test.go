package main

import (
	"testing"
	"time"
)

// TestLatency forgets, in what it shows while it runs, what is longer ago than it says, and never in the end.
func TestLatency(t *testing.T) {
	t.Parallel()
	l := newLatency()
	if got, want := l.recently(), "p50 – · p99 – (last 10 s)"; got != want {
		t.Errorf("at first: %q, want %q", got, want)
	}
	l.record(2 * time.Hour) // shown as the most there is
	for range recentSeconds - 1 {
		l.pass()
		l.record(2 * time.Millisecond)
	}
	if got, want := l.recently(), "p50 2.00 ms · p99 60.03 s (last 10 s)"; got != want {
		t.Errorf("within the time: %q, want %q", got, want)
	}
	l.pass()
	if got, want := l.recently(), "p50 2.00 ms · p99 2.00 ms (last 10 s)"; got != want {
		t.Errorf("after it: %q, want %q", got, want)
	}
	if got, want := l.overall(), "p50 2.00 ms · p99 60.03 s (whole run)"; got != want {
		t.Errorf("in the end: %q, want %q", got, want)
	}
}
