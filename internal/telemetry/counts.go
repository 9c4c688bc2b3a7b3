package telemetry

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxLabelValues bounds a label whose values come from outside: the first ones have a series each, the rest is otherValue.
	maxLabelValues = 100
	// maxLabelValue is the maximum length of such a value. Longer ones are cut.
	maxLabelValue = 128
	otherValue    = "other"
)

// Count is a number that only grows.
type Count struct {
	n    atomic.Int64
	made time.Time
}

// Inc counts once.
func (c *Count) Inc() { c.n.Add(1) }

// Add counts several times.
func (c *Count) Add(n int64) { c.n.Add(n) }

// Load returns the number.
func (c *Count) Load() int64 { return c.n.Load() }

// Counts is a counter with at most one label that the program reads too: the numbers are its own, and Prometheus collects them. A counter
// that nothing but a scrape reads is one of Prometheus instead.
type Counts struct {
	desc  *prometheus.Desc
	label string          // empty: there is none, and the only value is empty
	max   int             // how many values have a number of their own, the rest is otherValue; 0: all, because they are known and few
	known func() []string // values that have a number, whether they were counted or not; nil: none

	mu      sync.RWMutex
	byValue map[string]*Count
}

func (f factory) counts(name, help, label string) *Counts {
	var labels []string
	if label != "" {
		labels = []string{label}
	}
	c := &Counts{desc: prometheus.NewDesc(name, help, labels, nil), label: label, byValue: make(map[string]*Count)}
	f.reg.MustRegister(c)
	return c
}

// cappedCounts makes a counter by values that come from outside, such as the ids of services.
func (f factory) cappedCounts(name, help, label string) *Counts {
	c := f.counts(name, help, label)
	c.max = maxLabelValues
	return c
}

// count makes a counter without a label.
func (f factory) count(name, help string) *Count { return f.counts(name, help, "").WithLabelValues("") }

// WithLabelValues returns the number of a value of the label. It is there from now on.
func (c *Counts) WithLabelValues(value string) *Count {
	if c.max > 0 {
		value = strings.ToValidUTF8(value[:min(len(value), maxLabelValue)], "")
	}
	c.mu.RLock()
	n := c.byValue[value]
	c.mu.RUnlock()
	if n == nil {
		n = c.add(value)
	}
	return n
}

// add returns the number of a value that had none: its own, or that of all others.
func (c *Counts) add(value string) *Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byValue[value] == nil && c.max > 0 && len(c.byValue) >= c.max {
		value = otherValue
	}
	n := c.byValue[value]
	if n == nil {
		n = &Count{made: time.Now()}
		c.byValue[strings.Clone(value)] = n
	}
	return n
}

// all returns the numbers by value.
func (c *Counts) all() map[string]*Count {
	if c.known != nil {
		for _, value := range c.known() {
			c.WithLabelValues(value)
		}
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.byValue)
}

// All returns the numbers by value.
func (c *Counts) All() map[string]int64 {
	all := make(map[string]int64)
	for value, n := range c.all() {
		all[value] = n.Load()
	}
	return all
}

// Sum returns the sum of the numbers.
func (c *Counts) Sum() int64 {
	sum := int64(0)
	for _, n := range c.all() {
		sum += n.Load()
	}
	return sum
}

// Describe implements prometheus.Collector.
func (c *Counts) Describe(descs chan<- *prometheus.Desc) { descs <- c.desc }

// Collect implements prometheus.Collector.
func (c *Counts) Collect(metrics chan<- prometheus.Metric) {
	for value, n := range c.all() {
		labels := []string{value}
		if c.label == "" {
			labels = nil
		}
		metrics <- prometheus.MustNewConstMetricWithCreatedTimestamp(c.desc, prometheus.CounterValue, float64(n.Load()), n.made, labels...)
	}
}
