package telemetry

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxLabelValues bounds a label whose values come from outside: the first ones have a series each, the rest is otherValue.
	maxLabelValues = 100
	// maxLabelValue is the maximum length of such a value. Longer ones are cut.
	maxLabelValue = 128
	otherValue    = "other"
)

// CappedCounter is a counter with one label whose values come from outside, such as the ids of services. However many there are, it has
// at most maxLabelValues series of their own and one for all others.
type CappedCounter struct {
	vec *prometheus.CounterVec

	mu     sync.RWMutex
	own    map[string]prometheus.Counter
	others prometheus.Counter // of all values without a series of their own; nil: there is no such value yet
}

func (f factory) cappedCounter(name, help, label string) *CappedCounter {
	return &CappedCounter{vec: f.counterVec(name, help, label), own: make(map[string]prometheus.Counter)}
}

// Inc counts once for a value.
func (c *CappedCounter) Inc(value string) {
	value = strings.ToValidUTF8(value[:min(len(value), maxLabelValue)], "")
	c.mu.RLock()
	counter, known := c.own[value]
	if !known {
		counter = c.others
	}
	c.mu.RUnlock()
	if counter == nil {
		counter = c.add(value)
	}
	counter.Inc()
}

// add returns the counter of a value that had none: its own, or that of all others.
func (c *CappedCounter) add(value string) prometheus.Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if counter, known := c.own[value]; known {
		return counter
	}
	if len(c.own) >= maxLabelValues {
		c.others = c.vec.WithLabelValues(otherValue)
		return c.others
	}
	counter := c.vec.WithLabelValues(value)
	c.own[strings.Clone(value)] = counter
	return counter
}
