package dispatch

import (
	"math"
	"time"
)

// Durations estimates how long jobs take.
type Durations struct{ durations }

// NewDurations makes an estimate.
func NewDurations() *Durations { return new(Durations) }

// Observe records the duration of a job.
func (d *Durations) Observe(took time.Duration) { d.observe(took) }

// P95 is the estimate.
func (d *Durations) P95() time.Duration {
	return time.Duration(math.Float64frombits(d.p95.Load()) * float64(time.Second))
}
