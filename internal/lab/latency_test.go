package lab_test

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
)

// TestRecorderWindow checks that the recent figures drop old durations and the overall ones do not.
func TestRecorderWindow(t *testing.T) {
	t.Parallel()
	r := lab.NewLatencyRecorder(time.Minute)
	if got, want := r.FormatRecent(), "p50 – · p99 – (last 10 s)"; got != want {
		t.Errorf("empty: %q, want %q", got, want)
	}
	r.Record(2 * time.Hour) // recorded as the maximum
	for range lab.RecentSeconds - 1 {
		r.Rotate()
		r.Record(2 * time.Millisecond)
	}
	if got, want := r.FormatRecent(), "p50 2.00 ms · p99 60.03 s (last 10 s)"; got != want {
		t.Errorf("within the window: %q, want %q", got, want)
	}
	r.Rotate()
	if got, want := r.FormatRecent(), "p50 2.00 ms · p99 2.00 ms (last 10 s)"; got != want {
		t.Errorf("after the window: %q, want %q", got, want)
	}
	if got, want := r.FormatOverall(), "p50 2.00 ms · p99 60.03 s (whole run)"; got != want {
		t.Errorf("overall: %q, want %q", got, want)
	}
}

// TestMeanIsExact checks that the mean is that of the durations and not of the histogram's buckets, also with a negative
// duration, which counts as 0.
func TestMeanIsExact(t *testing.T) {
	t.Parallel()
	r := lab.NewLatencyRecorder(time.Minute)
	if got := r.Mean(); got != 0 {
		t.Errorf("the mean of nothing is %v, want 0", got)
	}
	for _, d := range []time.Duration{12_345_678 * time.Microsecond, -time.Second, 3 * time.Nanosecond} {
		r.Record(d)
	}
	if got, want := r.Mean(), (12_345_678*time.Microsecond+3)/3; got != want || r.Overall().TotalCount() != 3 {
		t.Errorf("mean %v of %d durations, want %v of 3", got, r.Overall().TotalCount(), want)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0.00 ms", 1234 * time.Microsecond: "1.23 ms", 345_678 * time.Microsecond: "345 ms", 12_345 * time.Millisecond: "12.35 s",
	} {
		if got := lab.FormatLatency(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
