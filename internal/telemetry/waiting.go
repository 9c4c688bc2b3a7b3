package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// What became of an offer of a slot, a label.
const (
	OfferReceived = "received" // it was passed to the request
	OfferUsed     = "used"     // the request got the slot
	OfferReturned = "returned" // the slot was not free
	OfferUnwanted = "unwanted" // the request did not wait any more
	OfferLapsed   = "lapsed"   // it was not used in time, or could not be sent
)

// How a wait has ended, a label.
const (
	WaitServed   = "served"
	WaitUnserved = "unserved" // its time was over, or its caller has left
)

// Why nodes were probed for free slots, a label.
const (
	SweepPeriodic = "periodic"
	SweepOffered  = "offered" // slots of the nodes were offered, and may not have been used
	SweepFirst    = "first"   // the first request of a class began to wait
)

// Waiting counts requests that wait for a slot.
type Waiting struct {
	Offers *prometheus.CounterVec   // result
	Sweeps *prometheus.CounterVec   // kind
	Waits  *prometheus.HistogramVec // outcome

	requests *prometheus.CounterVec // verdict
}

var waitVerdicts = map[fairqueue.Verdict]string{
	fairqueue.Queued: "queued", fairqueue.Expired: "expired", fairqueue.CannotBeMet: "cannot_be_met", fairqueue.QueueFull: "queue_full",
}

func newWaiting(f factory) Waiting {
	w := Waiting{
		Offers: f.counterVec("lingua_wait_offers_total",
			"Offers of free slots to requests that wait on this instance, by what became of them.", "result"),
		Sweeps: f.counterVec("lingua_wait_sweeps_total",
			"Probes of nodes that found free slots for which requests wait, by why they were made.", "kind"),
		Waits: f.histogramVec("lingua_wait_duration_seconds",
			"How long requests have waited in a queue for a slot, by whether they got one.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60}, "outcome"),
		requests: f.counterVec("lingua_wait_requests_total", "Requests that were to wait for a slot, by whether they may.", "verdict"),
	}
	zero(w.Offers, OfferReceived, OfferUsed, OfferReturned, OfferUnwanted, OfferLapsed)
	zero(w.Sweeps, SweepPeriodic, SweepOffered, SweepFirst)
	for _, outcome := range []string{WaitServed, WaitUnserved} {
		w.Waits.WithLabelValues(outcome)
	}
	for _, verdict := range waitVerdicts {
		zero(w.requests, verdict)
	}
	return w
}

// CountRequest counts a request that was to wait.
func (w *Waiting) CountRequest(v fairqueue.Verdict) {
	w.requests.WithLabelValues(waitVerdicts[v]).Inc()
}
