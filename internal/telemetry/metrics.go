// Package telemetry is the metrics and the log of the scheduler. Labels are bounded: no session, job or tenant id is ever one, and
// values that nodes choose are capped. No text of speech, no token and no secret is logged.
package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics holds every metric of one instance, in groups by what they count.
type Metrics struct {
	Registry *prometheus.Registry
	Closes   *prometheus.CounterVec // code, side
	// Denied counts denials by status and reason; AuditDropped counts audit entries that were never written, by the log that lacks them.
	Denied       *prometheus.CounterVec
	AuditDropped *prometheus.CounterVec

	Locks
	Nodes
	ModelNA
	Catalog
	Dispatch
	Store
	Sessions
	Bus
	Stats
	Traces
	Tenants
	Pools   *Pools
	Waiting Waiting
}

// New makes the metrics and their registry.
func New() *Metrics {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := factory{reg}
	dispatch := newDispatch(f)
	m := &Metrics{
		Registry: reg,
		Closes: f.counterVec("lingua_socket_closes_total",
			"Connections that ended, by close code (1006: cut) and by the side that closed them.", "code", "side"),
		Denied: f.counterVec("lingua_denied_total",
			"Requests and WebSockets that were denied, by status (401, 403, 429) and by reason.", "status", "reason"),
		AuditDropped: f.counterVec("lingua_audit_dropped_total",
			"Audit entries that were never written, by the log that lacks them: store or file.", "log"),
		Locks:    newLocks(f),
		Pools:    newPools(f),
		Waiting:  newWaiting(f),
		Nodes:    newNodes(f),
		ModelNA:  newModelNA(f),
		Catalog:  newCatalog(f),
		Dispatch: dispatch,
		Store:    newStore(f),
		Sessions: newSessions(f, dispatch.SlowPath),
		Bus:      newBus(f),
		Stats:    newStats(f),
		Traces:   newTraces(f),
		Tenants:  newTenants(f),
	}
	m.startAtZero()
	return m
}

// RegisterGauge registers a gauge that is read at each scrape.
func (m *Metrics) RegisterGauge(name, help string, read func() float64) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// RegisterCounter registers a counter that is read at each scrape.
func (m *Metrics) RegisterCounter(name, help string, read func() float64) {
	m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
}

// CountClose counts a connection that ended. A peer may send any close code: only the standard ones are a label.
func (m *Metrics) CountClose(code int, byPeer bool) {
	label, side := strconv.Itoa(code), "scheduler"
	if byPeer {
		side = "peer"
		if code < 1000 || code > 1015 {
			label = "other"
		}
	}
	m.Closes.WithLabelValues(label, side).Inc()
}

// factory makes metrics and registers them.
type factory struct{ reg prometheus.Registerer }

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	f.reg.MustRegister(c)
	return c
}

func (f factory) counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	f.reg.MustRegister(c)
	return c
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	f.reg.MustRegister(g)
	return g
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(histogramOpts(name, help, buckets))
	f.reg.MustRegister(h)
	return h
}

func (f factory) histogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(histogramOpts(name, help, buckets), labels)
	f.reg.MustRegister(h)
	return h
}
