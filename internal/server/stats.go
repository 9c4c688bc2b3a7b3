package server

import (
	"bytes"
	"net/http"
	"reflect"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// StatsReader has a copy of the last snapshot of the statistics.
type StatsReader interface {
	// Answer returns the snapshot as JSON, and whether it is stale: the head, which is appended to buf, and a rest that must not be
	// changed. It does not wait.
	Answer(buf []byte) (head, rest []byte, stale bool, err *wire.Error)
	// Snapshot returns when the snapshot was computed, in Unix milliseconds, and its age; 0 if there is none.
	Snapshot() (generatedMS int64, age time.Duration)
	// Series returns the points of the cluster after a time. It does not wait.
	Series(from time.Time) wire.ClusterSeries
	// Demand returns the demand for a direction in the last minutes, and false if it is not known; Demanded the directions that have one.
	Demand(d core.Direction) (stats.Demand, bool)
	Demanded() []core.Direction
}

// statsHandlers answer requests for statistics, and for what this instance has counted, from copies in memory.
type statsHandlers struct {
	responder
	stats   StatsReader
	metrics *telemetry.Metrics
	bus     *bus.Bus
	started time.Time
	catalog *health.Catalog
	queued  func() int // reports of unavailable services that are queued
}

func (h *statsHandlers) routes() []route {
	return []route{h.metricsRoute(), {
		method: "GET", path: "/api/v1/stats", rule: fleetReaders, tag: "operations", summary: "Show statistics of the whole fleet",
		description: "One instance computes a snapshot every few seconds, and each instance answers with its last copy: stale and age_ms " +
			"say how old it is. A request never waits for a snapshot. Periods are made of whole minutes, and of whole quarters of an " +
			"hour for the last day, and end with the current one.",
		handler: handler{serve: h.show, out: reflect.TypeFor[wire.Stats]()}, codes: []wire.Code{wire.StatsNotReady},
	}, {
		method: "GET", path: "/api/v1/series", rule: fleetReaders, tag: "operations",
		summary: "Show figures of the whole fleet over the last hour",
		description: "A point for each snapshot of the statistics. A request is answered from memory, and gets no points if there was " +
			"no snapshot yet.",
		handler: handle(h.responder, h.series), params: []param{fromParam},
	}}
}

// series answers with the points of the cluster.
func (h *statsHandlers) series(r *http.Request) (*wire.ClusterSeries, error) {
	from, e := readSeriesQuery(r, "from")
	if e != nil {
		return nil, e
	}
	points := h.stats.Series(from)
	return &points, nil
}

// statsHead is the size of the buffer for the head of an answer: it has a few short fields.
const statsHead = 160

// show answers with the last snapshot.
func (h *statsHandlers) show(w http.ResponseWriter, _ *http.Request) {
	began := time.Now()
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	buf.Grow(statsHead)
	head, rest, stale, err := h.stats.Answer(buf.AvailableBuffer())
	if err != nil {
		writeWireError(w, err)
	} else {
		writeEncoded(w, http.StatusOK, head, rest)
	}
	h.metrics.ObserveStats(time.Since(began), stale)
}
