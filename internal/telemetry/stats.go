package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats counts requests for the statistics.
type Stats struct {
	StatsRequests *Count
	StatsStale    *Count
	StatsDuration *Timing
	StatsLeader   prometheus.Gauge
}

func newStats(f factory) Stats {
	return Stats{
		StatsRequests: f.count("scheduler_stats_requests_total", "Requests for the statistics."),
		StatsStale: f.count("scheduler_stats_stale_total",
			"Requests for the statistics that were answered with a snapshot that is older than it should be."),
		StatsDuration: f.timings("scheduler_stats_request_duration_seconds", "Time to answer a request for the statistics.",
			prometheus.ExponentialBuckets(10e-6, 2, 18)).WithLabelValues(),
		StatsLeader: f.gauge("lingua_stats_leader", "1 on the instance that computes the statistics for all."),
	}
}

// ObserveStats counts a request for the statistics.
func (s *Stats) ObserveStats(took time.Duration, stale bool) {
	s.StatsRequests.Inc()
	if stale {
		s.StatsStale.Inc()
	}
	s.StatsDuration.Observe(took)
}
