package agreement

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/lab"
)

// histogram is a histogram of the scheduler's metrics: of the observations between two scrapes.
type histogram struct {
	bounds     []float64 // upper bounds of the buckets in seconds, without +Inf
	cumulative []float64 // observations up to each bound
	count, sum float64
}

// parseHistogram reads the series of a histogram from the text of /metrics. labels selects the series, as in outcome="result".
func parseHistogram(metrics, name, labels string) (histogram, error) {
	var h histogram
	line := regexp.MustCompile(`(?m)^` + name + `_(bucket|sum|count)\{` + regexp.QuoteMeta(labels) + `(?:,le="([^"]*)")?\} (\S+)$`)
	for _, m := range line.FindAllStringSubmatch(metrics, -1) {
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return h, err
		}
		switch {
		case m[1] == "sum":
			h.sum = v
		case m[1] == "count":
			h.count = v
		case m[2] != "+Inf":
			bound, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return h, err
			}
			h.bounds, h.cumulative = append(h.bounds, bound), append(h.cumulative, v)
		}
	}
	if len(h.bounds) == 0 || !slices.IsSorted(h.bounds) {
		return h, fmt.Errorf("%s{%s} has the bounds %v", name, labels, h.bounds)
	}
	return h, nil
}

// since returns the observations after an earlier scrape.
func (h histogram) since(earlier histogram) histogram {
	h.cumulative = slices.Clone(h.cumulative)
	for i := range h.cumulative {
		h.cumulative[i] -= earlier.cumulative[i]
	}
	h.count -= earlier.count
	h.sum -= earlier.sum
	return h
}

// quantile returns the bucket in which a quantile is, and the quantile by linear interpolation in it, as Prometheus's
// histogram_quantile does, in seconds.
func (h histogram) quantile(q float64) (low, high, interpolated float64) {
	rank := q * h.count
	i := slices.IndexFunc(h.cumulative, func(n float64) bool { return n >= rank })
	if i < 0 {
		return h.bounds[len(h.bounds)-1], math.Inf(1), h.bounds[len(h.bounds)-1]
	}
	below := 0.0
	if i > 0 {
		low, below = h.bounds[i-1], h.cumulative[i-1]
	}
	high = h.bounds[i]
	return low, high, low + (high-low)*(rank-below)/(h.cumulative[i]-below)
}

// quantileOf returns a quantile of a latency of a report in seconds, by linear interpolation in its buckets, none of which is
// wider than 1 %.
func quantileOf(l *lab.Latency, q float64) float64 {
	rank, below := q*float64(l.Count), 0.0
	for _, b := range l.Histogram {
		n := float64(b.Count)
		if below+n >= rank {
			return (b.FromMS + (b.ToMS-b.FromMS)*(rank-below)/n) / 1000
		}
		below += n
	}
	return l.MaxMS / 1000
}

func TestParseHistogram(t *testing.T) {
	t.Parallel()
	const text = `# HELP d_seconds From here to there.
d_seconds_bucket{outcome="error",le="1"} 9
d_seconds_bucket{outcome="result",le="0.5"} 2
d_seconds_bucket{outcome="result",le="1"} 6
d_seconds_bucket{outcome="result",le="+Inf"} 8
d_seconds_sum{outcome="result"} 9.5
d_seconds_count{outcome="result"} 8
`
	after, err := parseHistogram(text, "d_seconds", `outcome="result"`)
	if err != nil {
		t.Fatal(err)
	}
	before, err := parseHistogram(strings.NewReplacer(" 2\n", " 0\n", " 6\n", " 2\n", " 8\n", " 4\n", "9.5", "1.5").Replace(text), "d_seconds", `outcome="result"`)
	if err != nil {
		t.Fatal(err)
	}
	h := after.since(before)
	if h.count != 4 || h.sum != 8 || !slices.Equal(h.bounds, []float64{0.5, 1}) || !slices.Equal(h.cumulative, []float64{2, 4}) {
		t.Errorf("%+v", h)
	}
	for q, want := range map[float64][3]float64{0.25: {0, 0.5, 0.25}, 0.75: {0.5, 1, 0.75}} {
		if low, high, at := h.quantile(q); [3]float64{low, high, at} != want {
			t.Errorf("quantile %v is %v in (%v, %v], want %v", q, at, low, high, want)
		}
	}
	if low, high, _ := after.quantile(0.9); low != 1 || !math.IsInf(high, 1) {
		t.Errorf("a quantile beyond the last bound is in (%v, %v]", low, high)
	}
	if _, err := parseHistogram(text, "other_seconds", `outcome="result"`); err == nil {
		t.Error("a histogram that does not exist was read")
	}
}

func TestQuantileOfReport(t *testing.T) {
	t.Parallel()
	l := &lab.Latency{Count: 4, MaxMS: 300, Histogram: []lab.Bucket{{FromMS: 100, ToMS: 101, Count: 2}, {FromMS: 200, ToMS: 202, Count: 2}}}
	for q, want := range map[float64]float64{0.25: 0.1005, 0.5: 0.101, 0.75: 0.201, 1: 0.202} {
		if got := quantileOf(l, q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}
