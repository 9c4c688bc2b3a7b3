package telemetry

import (
	"math"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// TestTimings checks the quantiles of what the program reads, and that Prometheus has the same in its buckets.
func TestTimings(t *testing.T) {
	t.Parallel()
	m := New()
	timings := factory{m.Registry}.timings("x_seconds", "A histogram.", []float64{1, 2, 4}, "case")
	for range 90 {
		timings.WithLabelValues("two buckets").Observe(500 * time.Millisecond)
	}
	for range 10 {
		timings.WithLabelValues("two buckets").Observe(3 * time.Second)
	}
	timings.WithLabelValues("a bound").Observe(2 * time.Second)
	timings.WithLabelValues("beyond").Observe(100 * time.Second)
	timings.WithLabelValues("none")
	all := timings.All()
	for name, want := range map[string][3]float64{ // p50, p95, p99
		"two buckets": {500 / 0.9, 3000, 3800}, "a bound": {1500, 1950, 1990}, "beyond": {4000, 4000, 4000}, "none": {},
	} {
		timed := all[name]
		for i, q := range []float64{0.5, 0.95, 0.99} {
			if got := timed.QuantileMS(q); math.Abs(got-want[i]) > 1e-6 {
				t.Errorf("%s: the quantile %v is %v ms, want %v", name, q, got, want[i])
			}
		}
	}
	if two := all["two buckets"]; two.Sum != 75*time.Second || two.Count() != 100 {
		t.Errorf("two buckets: %d durations of %v in all", two.Count(), two.Sum)
	}
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "x_seconds" })
	for _, series := range families[i].GetMetric() {
		timed, below := all[series.GetLabel()[0].GetValue()], uint64(0)
		for i, b := range series.GetHistogram().GetBucket()[:len(timed.bounds)] {
			if below += timed.counts[i]; b.GetCumulativeCount() != below {
				t.Errorf("%v: %d durations of up to %v s, and %d in Prometheus", series.GetLabel(), below, b.GetUpperBound(), b.GetCumulativeCount())
			}
		}
		if h := series.GetHistogram(); h.GetSampleCount() != uint64(timed.Count()) || h.GetSampleSum() != timed.Sum.Seconds() {
			t.Errorf("%v: %v in Prometheus, want %+v", series.GetLabel(), h, timed)
		}
	}
}
