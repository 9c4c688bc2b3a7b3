package main

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// recentSeconds is how far the figures of a running demo look back: whoever watches wants to see what happens
// now, and a cumulative p99 hides it behind the first seconds.
const recentSeconds = 10

// latency is how long something took, lately and since the beginning. Whoever uses it holds a lock.
type latency struct {
	recent *hdrhistogram.WindowedHistogram // microseconds, a window a second
	whole  *hdrhistogram.Histogram
}

func newLatency() *latency {
	const digits = 3
	most := time.Minute.Microseconds()
	return &latency{recent: hdrhistogram.NewWindowed(recentSeconds, 1, most, digits), whole: hdrhistogram.New(1, most, digits)}
}

func (l *latency) record(d time.Duration) {
	v := min(d, time.Minute).Microseconds()
	_ = l.recent.Current.RecordValue(v)
	_ = l.whole.RecordValue(v)
}

// pass lets a second pass.
func (l *latency) pass() { l.recent.Rotate() }

func (l *latency) recently() string {
	return fmt.Sprintf("%s (last %d s)", quantiles(l.recent.Merge()), recentSeconds)
}

func (l *latency) overall() string { return quantiles(l.whole) + " (whole run)" }

func quantiles(h *hdrhistogram.Histogram) string {
	return fmt.Sprintf("p50 %s · p99 %s", quantile(h, 50), quantile(h, 99))
}

func quantile(h *hdrhistogram.Histogram, q float64) string {
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
