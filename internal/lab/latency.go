package lab

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// RecentSeconds is the window of the figures of a running program. They show the present: a cumulative p99 would show the
// first seconds for the rest of the run.
const RecentSeconds = 10

const digits = 3

// LatencyRecorder records durations, of the last seconds and since the start. Its caller holds a lock.
type LatencyRecorder struct {
	limit   time.Duration
	recent  *hdrhistogram.WindowedHistogram // microseconds, one window a second
	overall *hdrhistogram.Histogram         // microseconds
	sum     time.Duration                   // of all durations, not rounded
}

// NewLatencyRecorder makes a recorder. A duration above limit counts as limit.
func NewLatencyRecorder(limit time.Duration) *LatencyRecorder {
	us := limit.Microseconds()
	return &LatencyRecorder{limit: limit, recent: hdrhistogram.NewWindowed(RecentSeconds, 1, us, digits),
		overall: hdrhistogram.New(1, us, digits)}
}

// Record records a duration. A negative one counts as 0.
func (r *LatencyRecorder) Record(d time.Duration) {
	d = min(max(d, 0), r.limit)
	_ = r.recent.Current.RecordValue(d.Microseconds()) // fails only above the limit
	_ = r.overall.RecordValue(d.Microseconds())
	r.sum += d
}

// Rotate starts the next second and drops the oldest.
func (r *LatencyRecorder) Rotate() { r.recent.Rotate() }

// Recent returns a copy of the histogram of the last seconds, in microseconds.
func (r *LatencyRecorder) Recent() *hdrhistogram.Histogram { return r.recent.Merge() }

// Overall returns the histogram since the start, in microseconds.
func (r *LatencyRecorder) Overall() *hdrhistogram.Histogram { return r.overall }

// Mean returns the mean of all durations, which is not rounded; 0 if there are none.
func (r *LatencyRecorder) Mean() time.Duration {
	return r.sum / time.Duration(max(r.overall.TotalCount(), 1))
}

// FormatRecent formats the median and the 99th percentile of the last seconds.
func (r *LatencyRecorder) FormatRecent() string {
	return fmt.Sprintf("%s (last %d s)", formatQuantiles(r.Recent()), RecentSeconds)
}

// FormatOverall formats the median and the 99th percentile since the start.
func (r *LatencyRecorder) FormatOverall() string { return formatQuantiles(r.overall) + " (whole run)" }

func formatQuantiles(h *hdrhistogram.Histogram) string {
	return fmt.Sprintf("p50 %s · p99 %s", FormatQuantile(h, 50), FormatQuantile(h, 99))
}

// FormatQuantile formats a percentile of a histogram in microseconds; a dash if the histogram is empty.
func FormatQuantile(h *hdrhistogram.Histogram, percentile float64) string {
	if h.TotalCount() == 0 {
		return "–"
	}
	return FormatLatency(time.Duration(h.ValueAtQuantile(percentile)) * time.Microsecond)
}

// FormatLatency formats a duration with two or three significant digits.
func FormatLatency(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
