package telemetry

import (
	"math"
	"regexp"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// index is the registerer of this package's own metrics. It knows them by name, so that one can be read without collecting all others:
// some of those are computed at a scrape.
type index struct {
	*prometheus.Registry

	mu     sync.Mutex
	byName map[string]prometheus.Collector
}

// Register implements prometheus.Registerer.
func (x *index) Register(c prometheus.Collector) error {
	if err := x.Registry.Register(c); err != nil {
		return err
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descs)
		close(descs)
	}()
	x.mu.Lock()
	defer x.mu.Unlock()
	for d := range descs {
		if m := describedName.FindStringSubmatch(d.String()); m != nil {
			x.byName[m[1]] = c
		}
	}
	return nil
}

// describedName finds the name in the text of a description, which has no accessor for it.
var describedName = regexp.MustCompile(`fqName: "([^"]+)"`)

// MustRegister implements prometheus.Registerer.
func (x *index) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := x.Register(c); err != nil {
			panic(err)
		}
	}
}

// series returns the series of a metric of this package; none if there is no such metric.
func (x *index) series(name string) []*dto.Metric {
	x.mu.Lock()
	c := x.byName[name]
	x.mu.Unlock()
	if c == nil {
		return nil
	}
	collected := make(chan prometheus.Metric, 2*maxLabelValues) // most metrics fit, so that the collector does not wait
	go func() {
		c.Collect(collected)
		close(collected)
	}()
	var all []*dto.Metric
	for m := range collected {
		out := new(dto.Metric)
		if m.Write(out) == nil {
			all = append(all, out)
		}
	}
	return all
}

// Value returns the value of a counter or gauge of this package, over all its labels; 0 if there is none of this name.
func (m *Metrics) Value(name string) float64 {
	sum := 0.0
	for _, s := range m.index.series(name) {
		sum += s.GetCounter().GetValue() + s.GetGauge().GetValue()
	}
	return sum
}

// Values returns the values of a counter or gauge of this package by one of its labels; empty if there is none of this name.
func (m *Metrics) Values(name, label string) map[string]float64 {
	all := make(map[string]float64)
	for _, s := range m.index.series(name) {
		all[labelOf(s, label)] += s.GetCounter().GetValue() + s.GetGauge().GetValue()
	}
	return all
}

// Histograms returns the series of a histogram of this package by one of its labels; without one it has the name "".
func (m *Metrics) Histograms(name, label string) map[string]Histogram {
	all := make(map[string]Histogram)
	for _, s := range m.index.series(name) {
		all[labelOf(s, label)] = Histogram{s.GetHistogram()}
	}
	return all
}

func labelOf(s *dto.Metric, label string) string {
	for _, l := range s.GetLabel() {
		if l.GetName() == label {
			return l.GetValue()
		}
	}
	return ""
}

// Histogram is a histogram at one moment.
type Histogram struct{ *dto.Histogram }

// Quantile estimates a quantile from the classic buckets, as histogram_quantile of Prometheus does: within a bucket the observations count
// as evenly distributed, and one beyond the last bucket as its bound. Without observations it is 0.
func (h Histogram) Quantile(q float64) float64 {
	rank := q * float64(h.GetSampleCount())
	if rank == 0 {
		return 0
	}
	lower, below := 0.0, 0.0
	for _, b := range h.GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			break
		}
		if count := float64(b.GetCumulativeCount()); count >= rank {
			return lower + (b.GetUpperBound()-lower)*(rank-below)/(count-below)
		}
		lower, below = b.GetUpperBound(), float64(b.GetCumulativeCount())
	}
	return lower
}
