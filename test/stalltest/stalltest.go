// Package stalltest measures when a test does not run, because its machine is busy with other processes or its hypervisor with other
// machines. From times that a test measures over a stall nothing can be concluded about the software.
package stalltest

import (
	"context"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
)

const (
	interval = 20 * time.Millisecond
	// shortest is the duration from which on a delay counts as a stall. On a machine with idle processors there is hardly any.
	shortest = 20 * time.Millisecond
)

// Stall is an interval in which this process did not run.
type Stall struct{ From, To time.Time }

// Duration returns how long it was.
func (s Stall) Duration() time.Duration { return s.To.Sub(s.From) }

// Detector records stalls.
type Detector struct {
	mu      sync.Mutex
	stalls  []Stall
	longest time.Duration // since it was asked for
	delayed time.Duration // since it was asked for: the sum of all delays, also of short ones
}

// Start starts a detector. Call stop when the test is over.
func Start() (d *Detector, stop func()) {
	d = &Detector{}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // a detector ends when it is stopped
	var watch sync.WaitGroup
	watch.Go(func() {
		for last := time.Now(); run.Sleep(ctx, interval); last = time.Now() {
			d.observe(last, time.Now())
		}
	})
	return d, func() {
		cancel()
		watch.Wait()
	}
}

// observe records that the process slept from one time to another, which should have taken the interval.
func (d *Detector) observe(from, to time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.longest = max(d.longest, to.Sub(from))
	d.delayed += max(0, to.Sub(from)-interval)
	if to.Sub(from) >= interval+shortest {
		d.stalls = append(d.stalls, Stall{from.Add(interval), to})
	}
}

// Stalls returns all stalls.
func (d *Detector) Stalls() []Stall {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Stall(nil), d.stalls...)
}

// Total returns the duration of all stalls.
func (d *Detector) Total() (sum time.Duration) {
	for _, s := range d.Stalls() {
		sum += s.Duration()
	}
	return sum
}

// TakeLongest returns the longest delay since the last call, however short it was.
func (d *Detector) TakeLongest() (longest time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	longest, d.longest = d.longest, 0
	return longest
}

// TakeDelayed returns the sum of all delays since the last call, however short they were.
func (d *Detector) TakeDelayed() (delayed time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delayed, d.delayed = d.delayed, 0
	return delayed
}
