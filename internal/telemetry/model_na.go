package telemetry

import (
	"github.com/lingua-scheduler/lingua/internal/core"
)

// ModelNA counts the reports of nodes that a service is not available.
type ModelNA struct {
	NAReceived    *Count
	NAByService   *Counts // service_id
	NAByReason    *Counts // reason
	NARateLimited *Counts // node_id
	NAMarked      *Counts // node_id
	NADropped     *Counts // cause
}

// The causes for which a report marks nothing, apart from the rate of its node.
const (
	NADroppedQueue    = "queue_full" // the queue of marks was full
	NADroppedStore    = "store"      // the store did not answer in time
	NADroppedGone     = "gone"       // the node has registered again or was removed meanwhile
	NADroppedLate     = "late"       // the report waited longer than a mark lasts
	NADroppedStopping = "stopping"   // the instance stopped first
	NADroppedReaction = "reaction"   // it was marked, but the catalog was not refreshed and no event written: there were too many
)

func newModelNA(f factory) ModelNA {
	m := ModelNA{
		NAReceived: f.count("scheduler_model_na_received_total", "Reports of a service that is not available."),
		NAByService: f.cappedCounts("scheduler_model_na_by_service_total", "Accepted reports by service: the first hundred, and other.",
			"service_id"),
		NAByReason: f.counts("scheduler_model_na_by_reason_total", "Accepted reports by normalised reason.", "reason"),
		NARateLimited: f.cappedCounts("scheduler_model_na_rate_limited_by_node_total",
			"Reports that marked nothing because their node sent too many: the first hundred nodes, and other.", "node_id"),
		NAMarked: f.cappedCounts("scheduler_model_na_marked_by_node_total",
			"Services that were marked as unavailable: the first hundred nodes, and other.", "node_id"),
		NADropped: f.counts("scheduler_model_na_dropped_total", "Reports that had less effect than they should, by cause.",
			"cause"),
	}
	for _, reason := range core.UnavailableReasons() {
		m.NAByReason.WithLabelValues(string(reason))
	}
	for _, cause := range []string{NADroppedQueue, NADroppedStore, NADroppedGone, NADroppedLate, NADroppedStopping, NADroppedReaction} {
		m.NADropped.WithLabelValues(cause)
	}
	return m
}
