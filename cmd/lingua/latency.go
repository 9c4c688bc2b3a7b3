package main

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// recentSeconds is the window of the figures of a running demo. They show the present: a cumulative p99 would show the
// first seconds for the rest of the run.
const recentSeconds = 10

// latencyRecorder records durations, of the last seconds and since the start. Its caller holds a lock.
type latencyRecorder struct {
	recent  *hdrhistogram.WindowedHistogram // microseconds, one window a second
	overall *hdrhistogram.Histogram
}

func newLatencyRecorder() *latencyRecorder {
	const digits = 3
	limit := time.Minute.Microseconds()
	return &latencyRecorder{recent: hdrhistogram.NewWindowed(recentSeconds, 1, limit, digits), overall: hdrhistogram.New(1, limit, digits)}
}

// record records a duration; one of more than a minute counts as a minute.
func (l *latencyRecorder) record(d time.Duration) {
	v := min(d, time.Minute).Microseconds()
	_ = l.recent.Current.RecordValue(v)
	_ = l.overall.RecordValue(v)
}

// rotate starts the next second and drops the oldest.
func (l *latencyRecorder) rotate() { l.recent.Rotate() }

func (l *latencyRecorder) formatRecent() string {
	return fmt.Sprintf("%s (last %d s)", formatQuantiles(l.recent.Merge()), recentSeconds)
}

func (l *latencyRecorder) formatOverall() string { return formatQuantiles(l.overall) + " (whole run)" }

func formatQuantiles(h *hdrhistogram.Histogram) string {
	return fmt.Sprintf("p50 %s · p99 %s", formatQuantile(h, 50), formatQuantile(h, 99))
}

func formatQuantile(h *hdrhistogram.Histogram, q float64) string {
	if h.TotalCount() == 0 {
		return "–"
	}
	d := time.Duration(h.ValueAtQuantile(q)) * time.Microsecond
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
