package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// decisions counts dispatches that were accepted or refused, beside their durations.
type decisions struct {
	// Exclusions has examples of the nodes in CandidatesRejected.
	Exclusions *Exclusions
	// DispatchRate is how many dispatches are decided per second.
	DispatchRate *Rate

	decided    *atomic.Int64
	dispatched *dispatchBuckets // those that were accepted
	hubDown    *atomic.Bool
	// The series below are resolved once: looking up a label for every job would cost.
	acceptedHubDown, refusedHubDown prometheus.Counter

	probes
}

func newDecisions(f factory) decisions {
	d := decisions{probes: newProbes(f), Exclusions: new(Exclusions), decided: new(atomic.Int64), dispatched: new(dispatchBuckets),
		hubDown: new(atomic.Bool)}
	d.DispatchRate = NewRate(d.decided.Load)
	whileDown := f.counterVec("lingua_dispatches_model_hub_down_total",
		"Dispatches while the last refresh of the catalog from the ModelHub had failed, by outcome: they do not depend on it.", "outcome")
	d.acceptedHubDown, d.refusedHubDown = whileDown.WithLabelValues("accepted"), whileDown.WithLabelValues("refused")
	return d
}

// count counts a dispatch that was decided.
func (d *decisions) count(refused bool) {
	d.decided.Add(1)
	switch {
	case !d.hubDown.Load():
	case refused:
		d.refusedHubDown.Inc()
	default:
		d.acceptedHubDown.Inc()
	}
}

// SetModelHubDown records whether the last refresh of the catalog from the ModelHub failed.
func (d *decisions) SetModelHubDown(down bool) { d.hubDown.Store(down) }

// ModelHubDown reports what was last recorded.
func (d *decisions) ModelHubDown() bool { return d.hubDown.Load() }
