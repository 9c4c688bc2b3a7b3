// Package telemetry is what the scheduler says about itself: metrics and logs. Labels are bounded: no node,
// session, job or tenant id is ever one. Nothing that people said, no token and no secret is logged.
package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Metrics holds every metric of one scheduler.
type Metrics struct {
	Registry *prometheus.Registry

	// From the seeds.
	NodeRegistration *prometheus.CounterVec // status
	HeartbeatLatency prometheus.Histogram
	StoreUp          prometheus.Gauge
	PoolQuery        *prometheus.CounterVec // success
	NodeSelection    *prometheus.CounterVec // result
	NoAvailableNode  *prometheus.CounterVec // selector, reason
	SlowPath         *prometheus.CounterVec // path

	// Ours.
	dispatch           *prometheus.HistogramVec // outcome
	reserve            [16]prometheus.Counter   // by store.Verdict
	Refusals           *prometheus.CounterVec   // reason
	ACKTimeouts        prometheus.Counter
	Retries            *prometheus.CounterVec   // reason
	Jobs               *prometheus.CounterVec   // state
	JobDuration        *prometheus.HistogramVec // state
	Fenced             *prometheus.CounterVec   // message, cause
	Deliveries         *prometheus.CounterVec   // result
	Orphans            *prometheus.CounterVec   // kind
	CandidatesRejected *prometheus.CounterVec   // reason
	ModelNA            prometheus.Counter
	StoreErrors        *prometheus.CounterVec // operation
	StoreLost          *prometheus.CounterVec // kind
	Closes             *prometheus.CounterVec // code, side
	Sessions
	Bus

	// Ready for use on the way of every job, where looking a label up would cost.
	accepted, refused   prometheus.Observer
	poolFull, poolEmpty prometheus.Counter
	selected, delivered prometheus.Counter
	ended               [core.StateCancelled + 1]endings
}

type endings struct {
	count prometheus.Counter
	took  prometheus.Observer
}

// New makes the metrics and their registry.
func New() *Metrics {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	histograms := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		reg.MustRegister(h)
		return h
	}

	m := &Metrics{
		Registry:         reg,
		NodeRegistration: counters("node_registration_total", "Registrations of nodes.", "status"),
		PoolQuery:        counters("pool_query_total", "Looks at a direction's pool; success is false when it is empty.", "success"),
		NodeSelection:    counters("node_selection_total", "Searches for a node, by how they ended.", "result"),
		NoAvailableNode: counters("scheduler_no_available_node_total",
			"Refusals, by which requirement could not be met and what spoke against the nodes.", "selector", "reason"),
		SlowPath: counters("scheduler_slow_path_total", "Requests slower than path_warn_ms.", "path"),

		dispatch: histograms("lingua_dispatch_duration_seconds", "From the request to the delivery or the refusal.",
			prometheus.ExponentialBuckets(50e-6, 2, 18), "outcome"),
		Refusals:    counters("lingua_refusals_total", "Dispatches refused, by code.", "reason"),
		ACKTimeouts: counter("lingua_ack_timeouts_total", "Attempts whose node did not confirm in time."),
		Retries:     counters("lingua_retries_total", "Attempts given up for another, by reason.", "reason"),
		Jobs:        counters("lingua_jobs_total", "Jobs that ended, by state.", "state"),
		JobDuration: histograms("lingua_job_duration_seconds", "From the record of a job to its end.",
			prometheus.ExponentialBuckets(1e-3, 2, 16), "state"),
		Fenced: counters("lingua_fenced_total",
			"Messages that changed nothing because their sender does not hold the job.", "message", "cause"),
		Deliveries:         counters("lingua_deliveries_total", "Attempts to hand a job to a node.", "result"),
		Orphans:            counters("lingua_reconciled_leases_total", "Leases that did not fit what their node said.", "kind"),
		CandidatesRejected: counters("lingua_candidates_rejected_total", "Nodes passed over in refused dispatches, by reason.", "reason"),
		ModelNA:            counter("scheduler_model_na_received_total", "Reports of a service that is not available."),
		StoreErrors:        counters("lingua_store_errors_total", "Operations the store could not answer.", "operation"),
		Closes: counters("lingua_socket_closes_total",
			"Connections that ended, by close code (1006: cut) and by which side closed them.", "code", "side"),
		Sessions:  newConversations(reg),
		Bus:       newBus(reg),
		StoreLost: counters("lingua_store_lost_total", "Records and leases that the store had and does not know any more.", "kind"),
	}
	m.StoreUp = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lingua_store_up", Help: "1 while the shared store answers. While it is 0 every dispatch is refused.",
	})
	m.StoreUp.Set(1)
	reg.MustRegister(m.StoreUp)
	m.HeartbeatLatency = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "node_heartbeat_latency_ms", Help: "Time to take in a heartbeat.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 18),
	})
	reg.MustRegister(m.HeartbeatLatency)

	reserve := counters("lingua_reserve_total", "Reservations asked of the ledger, by verdict.", "verdict")
	for _, v := range store.Verdicts() {
		m.reserve[v] = reserve.WithLabelValues(v.String())
	}
	m.poolFull, m.poolEmpty = m.PoolQuery.WithLabelValues("true"), m.PoolQuery.WithLabelValues("false")
	m.selected = m.NodeSelection.WithLabelValues("OK")
	m.delivered = m.Deliveries.WithLabelValues("delivered")
	for s := range core.States() {
		if s.Terminal() {
			m.ended[s] = endings{m.Jobs.WithLabelValues(s.String()), m.JobDuration.WithLabelValues(s.String())}
		}
	}
	m.accepted, m.refused = m.dispatch.WithLabelValues("accepted"), m.dispatch.WithLabelValues("refused")
	return m
}

// Reserved counts one answer of the ledger.
func (m *Metrics) CountReserve(v store.Verdict) { m.reserve[v].Inc() }

// Dispatched notes how long a dispatch took.
func (m *Metrics) ObserveDispatch(took time.Duration, refused bool) {
	if refused {
		m.refused.Observe(took.Seconds())
	} else {
		m.accepted.Observe(took.Seconds())
	}
}

// Ended counts a job that reached its end.
func (m *Metrics) ObserveJobEnd(state core.State, took time.Duration) {
	m.ended[state].count.Inc()
	m.ended[state].took.Observe(took.Seconds())
}

// Selected counts a search that found a node.
func (m *Metrics) CountSelection() { m.selected.Inc() }

// Delivered counts a job that was handed over.
func (m *Metrics) CountDelivery() { m.delivered.Inc() }

// Queried counts a look at a direction's pool.
func (m *Metrics) CountPoolQuery(members int) {
	if members > 0 {
		m.poolFull.Inc()
	} else {
		m.poolEmpty.Inc()
	}
}
