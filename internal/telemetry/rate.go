package telemetry

import (
	"context"
	"sync"
	"time"
)

// rateSamples is how many samples a Rate keeps, one a second.
const rateSamples = 61

// Rate measures how often something happened per second over the last seconds, from samples of a counter.
type Rate struct {
	read func() int64

	mu      sync.Mutex
	samples [rateSamples]rateSample
	count   int // of all samples so far
}

type rateSample struct {
	at    time.Time
	value int64
}

// NewRate makes the rate of a counter, which counts from now on.
func NewRate(read func() int64) *Rate {
	r := &Rate{read: read}
	r.sample(time.Now())
	return r
}

// Run samples the counter until the context ends.
func (r *Rate) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.sample(now)
		}
	}
}

func (r *Rate) sample(now time.Time) {
	value := r.read()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples[r.count%rateSamples] = rateSample{now, value}
	r.count++
}

// PerSecond returns the rate over the last seconds, or since the start if that was less long ago. It is of the last sample, at most a
// second old.
func (r *Rate) PerSecond(seconds int) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	back := min(seconds, r.count-1, rateSamples-1)
	if back <= 0 {
		return 0
	}
	last, first := r.samples[(r.count-1)%rateSamples], r.samples[(r.count-1-back)%rateSamples]
	elapsed := last.at.Sub(first.at).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return float64(last.value-first.value) / elapsed
}
