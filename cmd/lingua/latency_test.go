package main

import (
	"testing"
	"time"
)

// TestLatencyRecorderWindow checks that the recent figures drop old durations and the overall ones do not.
func TestLatencyRecorderWindow(t *testing.T) {
	t.Parallel()
	l := newLatencyRecorder()
	if got, want := l.formatRecent(), "p50 – · p99 – (last 10 s)"; got != want {
		t.Errorf("empty: %q, want %q", got, want)
	}
	l.record(2 * time.Hour) // recorded as the maximum
	for range recentSeconds - 1 {
		l.rotate()
		l.record(2 * time.Millisecond)
	}
	if got, want := l.formatRecent(), "p50 2.00 ms · p99 60.03 s (last 10 s)"; got != want {
		t.Errorf("within the window: %q, want %q", got, want)
	}
	l.rotate()
	if got, want := l.formatRecent(), "p50 2.00 ms · p99 2.00 ms (last 10 s)"; got != want {
		t.Errorf("after the window: %q, want %q", got, want)
	}
	if got, want := l.formatOverall(), "p50 2.00 ms · p99 60.03 s (whole run)"; got != want {
		t.Errorf("overall: %q, want %q", got, want)
	}
}
