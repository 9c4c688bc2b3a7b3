package telemetry

import (
	"sync/atomic"
	"time"
)

// Outcomes of dispatches, a label.
const (
	OutcomeAccepted = "accepted"
	OutcomeRefused  = "refused"
)

// decisions counts dispatches that were accepted or refused, beside their durations.
type decisions struct {
	// Exclusions has examples of the nodes in CandidatesRejected.
	Exclusions *Exclusions
	// DispatchRate is how many dispatches are decided per second.
	DispatchRate *Rate

	// HubDownDispatches counts those while the ModelHub is down.
	HubDownDispatches *Counts // outcome

	refusals   *atomic.Int64
	dispatched *dispatchBuckets // those that were accepted
	hubDown    *atomic.Bool
	// The series below are resolved once: looking up a label for every job would cost.
	acceptedHubDown, refusedHubDown *Count

	probes
}

func newDecisions(f factory) decisions {
	d := decisions{probes: newProbes(f), Exclusions: new(Exclusions), refusals: new(atomic.Int64), dispatched: new(dispatchBuckets),
		hubDown: new(atomic.Bool)}
	d.DispatchRate = NewRate(d.decided)
	d.HubDownDispatches = f.counts("lingua_dispatches_model_hub_down_total",
		"Dispatches while the last refresh of the catalog from the ModelHub had failed, by outcome: they do not depend on it.", "outcome")
	d.acceptedHubDown = d.HubDownDispatches.WithLabelValues(OutcomeAccepted)
	d.refusedHubDown = d.HubDownDispatches.WithLabelValues(OutcomeRefused)
	return d
}

// count counts a dispatch that was decided.
func (d *decisions) count(took time.Duration, refused bool) {
	if refused {
		d.refusals.Add(1)
	} else {
		d.dispatched.observe(took)
	}
	switch {
	case !d.hubDown.Load():
	case refused:
		d.refusedHubDown.Inc()
	default:
		d.acceptedHubDown.Inc()
	}
}

// Refused returns how many dispatches were refused.
func (d *decisions) Refused() int64 { return d.refusals.Load() }

// Accepted returns how many dispatches were accepted, by their duration.
func (d *decisions) Accepted() Timed {
	counts := d.Dispatched()
	return Timed{bounds: dispatchBounds, counts: counts[:]}
}

// decided returns how many dispatches were decided.
func (d *decisions) decided() int64 {
	accepted := d.Accepted()
	return accepted.Count() + d.Refused()
}

// SetModelHubDown records whether the last refresh of the catalog from the ModelHub failed.
func (d *decisions) SetModelHubDown(down bool) { d.hubDown.Store(down) }

// ModelHubDown reports what was last recorded.
func (d *decisions) ModelHubDown() bool { return d.hubDown.Load() }
