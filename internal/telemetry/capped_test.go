package telemetry

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func newCapped() (*CappedCounter, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	return factory{reg}.cappedCounter("x_total", "A counter.", "value"), reg
}

func TestCappedCounterCountsEachValue(t *testing.T) {
	t.Parallel()
	c, reg := newCapped()
	for _, value := range []string{"a", "b", "a", "other", "", "\xff\xfe", strings.Repeat("x", 1000), strings.Repeat("x", maxLabelValue)} {
		c.Inc(value)
	}
	want := map[string]float64{
		"x_total{value=a}": 2, "x_total{value=b}": 1, "x_total{value=other}": 1, "x_total{value=}": 2, "x_total{value=" + strings.Repeat("x", maxLabelValue) + "}": 2,
	}
	_, series := gather(t, reg)
	if diff := cmp.Diff(want, series); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// TestCappedCounterIsBounded: a million values from many callers at once are at most maxLabelValues series and one for the rest, and
// nothing is lost.
func TestCappedCounterIsBounded(t *testing.T) {
	t.Parallel()
	c, reg := newCapped()
	const callers, each = 8, 125_000
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				c.Inc(fmt.Sprintf("odd-%d-%d", i, j))
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
	if len(c.own) != maxLabelValues {
		t.Errorf("%d values are remembered", len(c.own))
	}
}
