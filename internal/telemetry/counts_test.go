package telemetry

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func newCapped() (*Counts, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	return factory{reg}.cappedCounts("x_total", "A counter.", "value"), reg
}

func TestCountsByValue(t *testing.T) {
	t.Parallel()
	c, reg := newCapped()
	for _, value := range []string{"a", "b", "a", "other", "", "\xff\xfe", strings.Repeat("x", 1000), strings.Repeat("x", maxLabelValue)} {
		c.WithLabelValues(value).Inc()
	}
	want := map[string]float64{
		"x_total{value=a}": 2, "x_total{value=b}": 1, "x_total{value=other}": 1, "x_total{value=}": 2, "x_total{value=" + strings.Repeat("x", maxLabelValue) + "}": 2,
	}
	_, series := gather(t, reg)
	if diff := cmp.Diff(want, series); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// TestCappedCountsAreBounded: a million values from many callers at once are at most maxLabelValues series and one for the rest, and
// nothing is lost.
func TestCappedCountsAreBounded(t *testing.T) {
	t.Parallel()
	c, reg := newCapped()
	const callers, each = 8, 125_000
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				c.WithLabelValues(fmt.Sprintf("odd-%d-%d", i, j)).Inc()
			}
		})
	}
	wg.Wait()
	_, series := gather(t, reg)
	sum := 0.0
	for _, v := range series {
		sum += v
	}
	if len(series) != maxLabelValues+1 || sum != callers*each || series["x_total{value=other}"] != callers*each-maxLabelValues {
		t.Errorf("%d series with %v in all, %v of them other", len(series), sum, series["x_total{value=other}"])
	}
	if all := c.All(); len(all) != maxLabelValues+1 || c.Sum() != callers*each {
		t.Errorf("%d values are remembered, with %d in all", len(all), c.Sum())
	}
}

// TestCountsWithoutALabel checks the name, the help and the value of a counter that has no label, and that its series is there at once.
func TestCountsWithoutALabel(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	c := factory{reg}.count("x_total", "A counter.")
	for _, want := range []float64{0, 3} {
		if _, series := gather(t, reg); series["x_total{}"] != want || len(series) != 1 {
			t.Errorf("series %v, want one of %v", series, want)
		}
		c.Inc()
		c.Add(2)
	}
	if c.Load() != 6 {
		t.Errorf("counted %d, want 6", c.Load())
	}
}
