package telemetry

import (
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Timings is a histogram of durations with at most one label that the program reads too: it counts in the classic buckets itself, beside
// the histogram of Prometheus.
type Timings struct {
	vec    *prometheus.HistogramVec
	bounds []float64

	mu      sync.RWMutex
	byValue map[string]*Timing // without a label: one, of the empty value
}

// Timing is the series of one value of the label.
type Timing struct {
	observer prometheus.Observer
	bounds   []float64       // of the buckets, in seconds
	counts   []atomic.Uint64 // by bucket; the last one has what is beyond all bounds
	sum      atomic.Int64    // nanoseconds
}

func (f factory) timings(name, help string, bounds []float64, label ...string) *Timings {
	return &Timings{vec: f.histogramVec(name, help, bounds, label...), bounds: bounds, byValue: make(map[string]*Timing)}
}

// WithLabelValues returns the series of a value of the label. It is there from now on.
func (t *Timings) WithLabelValues(value ...string) *Timing {
	key := strings.Join(value, "")
	t.mu.RLock()
	one := t.byValue[key]
	t.mu.RUnlock()
	if one != nil {
		return one
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if one = t.byValue[key]; one == nil {
		one = &Timing{observer: t.vec.WithLabelValues(value...), bounds: t.bounds, counts: make([]atomic.Uint64, len(t.bounds)+1)}
		t.byValue[key] = one
	}
	return one
}

// All returns what was counted, by value of the label.
func (t *Timings) All() map[string]Timed {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make(map[string]Timed)
	for value, one := range t.byValue {
		all[value] = one.Read()
	}
	return all
}

// Observe counts a duration.
func (t *Timing) Observe(took time.Duration) {
	t.observer.Observe(took.Seconds())
	t.counts[sort.SearchFloat64s(t.bounds, took.Seconds())].Add(1)
	t.sum.Add(int64(took))
}

// Read returns what was counted.
func (t *Timing) Read() Timed {
	out := Timed{bounds: t.bounds, counts: make([]uint64, len(t.counts)), Sum: time.Duration(t.sum.Load())}
	for i := range t.counts {
		out.counts[i] = t.counts[i].Load()
	}
	return out
}

// Timed is a histogram of durations at one moment.
type Timed struct {
	Sum time.Duration

	bounds []float64 // of the buckets, in seconds
	counts []uint64  // by bucket; the last one has what is beyond all bounds
}

// Count is how many durations were counted.
func (t *Timed) Count() int64 {
	all := uint64(0)
	for _, n := range t.counts {
		all += n
	}
	return int64(all)
}

// QuantileMS estimates a quantile in milliseconds, as histogram_quantile of Prometheus does: within a bucket the durations count as evenly
// distributed, and one beyond the last bound as that bound. Without durations it is 0.
func (t *Timed) QuantileMS(q float64) float64 {
	rank := q * float64(t.Count())
	if rank == 0 {
		return 0
	}
	lower, below := 0.0, 0.0
	for i, upper := range t.bounds {
		n := float64(t.counts[i])
		if below+n >= rank {
			return 1000 * (lower + (upper-lower)*(rank-below)/n)
		}
		lower, below = upper, below+n
	}
	return 1000 * lower
}
