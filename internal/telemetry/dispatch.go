package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Dispatch counts the selection of nodes, deliveries and the outcomes of jobs.
type Dispatch struct {
	PoolQuery          *prometheus.CounterVec // success
	NodeSelection      *prometheus.CounterVec // result
	NoAvailableNode    *prometheus.CounterVec // selector, reason
	SlowPath           *Counts                // path
	Refusals           *prometheus.CounterVec // reason
	CandidatesRejected *Counts                // reason
	Deliveries         *prometheus.CounterVec // result
	ACKTimeouts        prometheus.Counter
	NodeBusy           prometheus.Counter
	Retries            *Counts // reason
	MoveDelay          prometheus.Histogram
	Jobs               *prometheus.CounterVec   // state
	JobDuration        *prometheus.HistogramVec // state
	Fenced             *prometheus.CounterVec   // message, cause
	Successions        *prometheus.CounterVec   // same_node

	// The series below are resolved once: looking up a label for every job would cost.
	reserve                      [16]prometheus.Counter // by store.Verdict
	accepted, refused            prometheus.Observer
	poolWithNodes, poolWithout   prometheus.Counter
	selectedCount, deliveryCount prometheus.Counter
	sameNode, otherNode          prometheus.Counter
	outcomes                     [core.StateCancelled + 1]jobOutcome

	decisions
}

// jobOutcome has the series of the jobs that ended in one state.
type jobOutcome struct {
	count    prometheus.Counter
	duration prometheus.Observer
}

func newDispatch(f factory) Dispatch {
	d := Dispatch{
		decisions: newDecisions(f),
		PoolQuery: f.counterVec("pool_query_total", "Queries for the nodes of a direction; success is false if there is none.",
			"success"),
		NodeSelection: f.counterVec("node_selection_total", "Selections of a node, by result.", "result"),
		NoAvailableNode: f.counterVec("scheduler_no_available_node_total",
			"Refusals, by the requirement that was not met and the reason of the candidates.", "selector", "reason"),
		SlowPath: f.counts("scheduler_slow_path_total",
			"Requests, and steps of utterances through the scheduler, slower than path_warn_ms.", "path"),
		Refusals: f.counterVec("lingua_refusals_total", "Dispatches refused, by code.", "reason"),
		CandidatesRejected: f.counts("lingua_candidates_rejected_total", "Candidates rejected in refused dispatches, by reason.",
			"reason"),
		Deliveries:  f.counterVec("lingua_deliveries_total", "Deliveries of jobs to nodes, by result.", "result"),
		ACKTimeouts: f.counter("lingua_ack_timeouts_total", "Attempts that their node did not acknowledge in time."),
		NodeBusy: f.counter("lingua_node_busy_total",
			"Jobs that a node refused because it was overloaded, at the delivery or after it."),
		Retries: f.counts("lingua_retries_total", "Attempts that were followed by another, by reason.", "reason"),
		MoveDelay: f.histogram("lingua_move_delay_seconds",
			"From the last sign of a node that is disconnected or silent to the delivery of its job to another.",
			prometheus.ExponentialBuckets(0.025, 2, 12)),
		Jobs: f.counterVec("lingua_jobs_total", "Jobs that ended, by state.", "state"),
		JobDuration: f.histogramVec("lingua_job_duration_seconds", "From the record of a job to its end.",
			prometheus.ExponentialBuckets(1e-3, 2, 16), "state"),
		Fenced: f.counterVec("lingua_fenced_total",
			"Messages that changed nothing because their sender does not hold the job.", "message", "cause"),
		Successions: f.counterVec("lingua_session_successions_total",
			"Jobs whose session had a job before, by whether they were given to the same node.", "same_node"),
	}
	duration := f.histogramVec("lingua_dispatch_duration_seconds", "From the request to the delivery or the refusal.",
		prometheus.ExponentialBuckets(50e-6, 2, 18), "outcome")
	d.accepted, d.refused = duration.WithLabelValues(OutcomeAccepted), duration.WithLabelValues(OutcomeRefused)
	reserve := f.counterVec("lingua_reserve_total", "Reservations, by verdict of the ledger.", "verdict")
	for _, v := range store.Verdicts() {
		d.reserve[v] = reserve.WithLabelValues(v.String())
	}
	d.poolWithNodes, d.poolWithout = d.PoolQuery.WithLabelValues("true"), d.PoolQuery.WithLabelValues("false")
	d.selectedCount = d.NodeSelection.WithLabelValues("OK")
	d.deliveryCount = d.Deliveries.WithLabelValues("delivered")
	d.sameNode, d.otherNode = d.Successions.WithLabelValues("true"), d.Successions.WithLabelValues("false")
	for s := range core.States() {
		if s.Terminal() {
			d.outcomes[s] = jobOutcome{d.Jobs.WithLabelValues(s.String()), d.JobDuration.WithLabelValues(s.String())}
		}
	}
	return d
}

// CountReserve counts a reservation by its verdict.
func (d *Dispatch) CountReserve(v store.Verdict) { d.reserve[v].Inc() }

// ObserveDispatch records the duration of a dispatch. The trace id may be empty.
func (d *Dispatch) ObserveDispatch(took time.Duration, refused bool, traceID string) {
	d.count(took, refused)
	if refused {
		observe(d.refused, took.Seconds(), traceID)
	} else {
		observe(d.accepted, took.Seconds(), traceID)
	}
}

// ObserveJobEnd counts a job that ended and records its duration. The trace id may be empty.
func (d *Dispatch) ObserveJobEnd(state core.State, took time.Duration, traceID string) {
	d.outcomes[state].count.Inc()
	observe(d.outcomes[state].duration, took.Seconds(), traceID)
}

// CountSelection counts a selection that found a node.
func (d *Dispatch) CountSelection() { d.selectedCount.Inc() }

// CountSuccession counts a job whose session had a job before, by whether it is on the same node.
func (d *Dispatch) CountSuccession(same bool) {
	if same {
		d.sameNode.Inc()
	} else {
		d.otherNode.Inc()
	}
}

// CountDelivery counts a job that was delivered.
func (d *Dispatch) CountDelivery() { d.deliveryCount.Inc() }

// CountPoolQuery counts a query for the nodes of a direction, by whether there are none.
func (d *Dispatch) CountPoolQuery(empty bool) {
	if empty {
		d.poolWithout.Inc()
	} else {
		d.poolWithNodes.Inc()
	}
}
