package telemetry

import (
	"sync/atomic"
	"time"
)

// The durations of calls are kept for a minute, in steps.
const (
	callStep  = 10 * time.Second
	callSteps = 7 // those of the last minute, and the current one
)

// StoreCalls has the durations of the calls to a shared store in the last minute. Recording one allocates nothing and takes no lock; of two
// concurrent calls at the beginning of a step one may be lost.
type StoreCalls struct {
	began time.Time
	steps [callSteps]callsOfStep
}

// callUnit is the unit of durations in the buckets: with it, the last bucket begins at 1.8 s, which is longer than calls usually may take.
const callUnit = 16 * time.Microsecond

// callsOfStep counts the calls of one step, in the buckets of Durations for callUnit instead of milliseconds.
type callsOfStep struct {
	number  atomic.Int64 // of the step, from 1; 0: none
	longest atomic.Int64 // nanoseconds
	buckets [len(Durations{})]atomic.Uint64
}

// NewStoreCalls makes an empty one.
func NewStoreCalls() *StoreCalls { return &StoreCalls{began: time.Now()} }

// Observe records the duration of a call.
func (c *StoreCalls) Observe(took time.Duration) {
	number := int64(time.Since(c.began)/callStep) + 1
	s := &c.steps[number%callSteps]
	if before := s.number.Load(); before != number && s.number.CompareAndSwap(before, number) {
		s.longest.Store(0)
		for i := range s.buckets {
			s.buckets[i].Store(0)
		}
	}
	s.buckets[bucketOf(int64(took/callUnit))].Add(1)
	for {
		longest := s.longest.Load()
		if int64(took) <= longest || s.longest.CompareAndSwap(longest, int64(took)) {
			return
		}
	}
}

// CallSummary describes calls.
type CallSummary struct {
	Calls         uint64
	P50, P99, Max time.Duration
}

// LastMinute describes the calls of the last minute.
func (c *StoreCalls) LastMinute() (out CallSummary) {
	now := int64(time.Since(c.began)/callStep) + 1
	var sum Durations
	for i := range c.steps {
		s := &c.steps[i]
		if number := s.number.Load(); number == 0 || now-number >= callSteps {
			continue
		}
		for bucket := range sum {
			n := s.buckets[bucket].Load()
			sum[bucket] += n
			out.Calls += n
		}
		out.Max = max(out.Max, time.Duration(s.longest.Load()))
	}
	quantile := func(q float64) time.Duration { return min(time.Duration(sum.QuantileMS(q))*callUnit, out.Max) }
	out.P50, out.P99 = quantile(0.5), quantile(0.99)
	return out
}
