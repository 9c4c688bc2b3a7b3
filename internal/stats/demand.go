package stats

import (
	"maps"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// The waits for a free slot are counted in a window of the last minutes, which moves in steps.
const (
	waitStep  = time.Minute
	waitSteps = recentMinutes
)

// waits counts how long requests waited for a free slot in the window, by direction. It is used by one goroutine.
type waits struct {
	began time.Time // when the first step began
	step  int64     // the current one
	steps [waitSteps]map[string]*telemetry.Durations
}

// advance moves the window to a time. Steps that it leaves are forgotten.
func (w *waits) advance(now time.Time) {
	if w.began.IsZero() {
		w.began = now
	}
	step := int64(now.Sub(w.began) / waitStep)
	for first := max(w.step+1, step-waitSteps+1); first <= step; first++ {
		w.steps[first%waitSteps] = nil
	}
	w.step = max(w.step, step)
}

// add counts a request. Directions beyond the limit are counted as other.
func (w *waits) add(direction string, waited time.Duration) {
	slot := &w.steps[w.step%waitSteps]
	if *slot == nil {
		*slot = make(map[string]*telemetry.Durations)
	}
	boundedDurations(*slot, direction).Observe(waited)
}

// boundedDurations returns the histogram of a direction, or the one of all other directions if there are too many.
func boundedDurations(all map[string]*telemetry.Durations, direction string) *telemetry.Durations {
	if all[direction] == nil {
		if len(all) >= health.MaxNames {
			direction = health.Other
		}
		if all[direction] == nil {
			all[direction] = new(telemetry.Durations)
		}
	}
	return all[direction]
}

// addDurations adds histograms by direction to others.
func addDurations(sum, all map[string]*telemetry.Durations) {
	for direction, d := range all {
		if d != nil {
			boundedDurations(sum, direction).Add(d)
		}
	}
}

// sum returns what was counted in the window.
func (w *waits) sum() map[string]*telemetry.Durations {
	sum := make(map[string]*telemetry.Durations)
	for _, step := range w.steps {
		addDurations(sum, step)
	}
	return sum
}

// Demand is how much a direction was requested in the last 5 minutes, by all instances.
type Demand struct {
	Jobs    int64  `json:"jobs,omitempty"`     // that ended
	Refused int64  `json:"refused,omitempty"`  // requests
	Waiting int64  `json:"waiting,omitempty"`  // requests that wait for a free slot now
	WaitP95 *int64 `json:"wait_p95,omitempty"` // milliseconds that 95 % of the requests did not wait longer; nil: there were none
}

// demandOf returns the demand for each direction, by name, from the counts of the last 5 minutes and from what the instances have
// published.
func demandOf(recent tally, c *stepCounts) map[string]Demand {
	all := make(map[string]Demand)
	change := func(direction string, fn func(*Demand)) {
		if direction == health.Other {
			return
		}
		d := all[direction]
		fn(&d)
		all[direction] = d
	}
	for direction, n := range recent.Directions {
		change(direction, func(d *Demand) { d.Jobs = n })
	}
	for direction, n := range recent.Refused {
		change(direction, func(d *Demand) { d.Refused = n })
	}
	for direction, n := range c.waitingBy {
		change(direction, func(d *Demand) { d.Waiting = n })
	}
	for direction, waited := range c.waits {
		if !waited.IsZero() {
			p95 := waited.QuantileMS(0.95)
			change(direction, func(d *Demand) { d.WaitP95 = &p95 })
		}
	}
	return all
}

// Demand returns the demand for a direction in the current snapshot, and false if there is none that has it.
func (r *Reader) Demand(d core.Direction) (Demand, bool) {
	a := r.current.Load()
	if a == nil || a.demand == nil {
		return Demand{}, false
	}
	return a.demand[d.String()], true
}

// Demanded returns the directions for which there is a demand in the current snapshot, in order.
func (r *Reader) Demanded() (list []core.Direction) {
	a := r.current.Load()
	if a == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(a.demand)) {
		if d, ok := parseDirection(name); ok {
			list = append(list, d)
		}
	}
	return list
}
