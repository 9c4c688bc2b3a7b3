package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Traces counts the spans of traces.
type Traces struct {
	SpansExported prometheus.Counter
	SpansDropped  *prometheus.CounterVec // reason
}

func newTraces(f factory) Traces {
	t := Traces{
		SpansExported: f.counter("lingua_spans_exported_total", "Spans of traces that the collector accepted."),
		SpansDropped: f.counterVec("lingua_spans_dropped_total",
			"Spans that are lost: too many waited (queue_full), the collector could not be reached or refused them (failed), or it "+
				"rejected some of a request (rejected).", "reason"),
	}
	for _, reason := range []string{"queue_full", "failed", "rejected"} {
		t.SpansDropped.WithLabelValues(reason)
	}
	return t
}

// observe records a value in a histogram, with the id of the trace in which it was measured as its exemplar; empty: without one.
func observe(o prometheus.Observer, value float64, traceID string) {
	if traceID != "" {
		if with, ok := o.(prometheus.ExemplarObserver); ok {
			with.ObserveWithExemplar(value, prometheus.Labels{"trace_id": traceID})
			return
		}
	}
	o.Observe(value)
}
