package scheduler

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// registerMetrics registers the gauges that are read from the parts of the scheduler.
func (s *Scheduler) registerMetrics() {
	s.Metrics.Registry.MustRegister(telemetry.NewDirections(s.directions))
	s.Metrics.RegisterGauge("lingua_sessions", "Sessions of this instance, also those whose connection was lost recently.",
		func() float64 { return float64(s.Sessions.Len()) })
	s.Metrics.RegisterGauge("lingua_connected_nodes", "Nodes that are connected to this instance by their socket.",
		func() float64 { return float64(s.nodeConns.Len()) })
	s.Metrics.RegisterGauge("lingua_socket_connections", "WebSocket connections of nodes and sessions.",
		func() float64 { return float64(s.hub.Len()) })
	s.Metrics.RegisterGauge("lingua_presence_age_seconds",
		"Since this instance last renewed its presence; it grants nothing after two thirds of heartbeat_ttl_seconds.",
		func() float64 { return s.Bus.PresenceAge().Seconds() })
	s.Metrics.RegisterGauge("lingua_audio_held_bytes", "Audio that is held until its jobs have ended.",
		func() float64 { return float64(s.Audio.Held()) })
	s.Metrics.RegisterGauge("scheduler_model_na_queue_length", "Reports of unavailable services that are queued on this instance.",
		func() float64 { return float64(s.unavailable.Queued()) })
	if s.catalog.State().Configured {
		s.registerCatalogMetrics()
	}
	s.Metrics.Registry.MustRegister(telemetry.NewCoverage(s.Stats.Reader.Coverage))
	s.Metrics.RegisterGauge("lingua_stats_age_seconds",
		"Since the statistics that this instance serves were computed, or since it started if it has none.",
		func() float64 { return s.Stats.Reader.Age().Seconds() })
	s.Metrics.RegisterCounter("lingua_observations_dropped_total", "Attempts and jobs that ended too fast to be counted in the statistics.",
		func() float64 { return float64(s.Stats.Counter.Dropped()) })
	s.Metrics.RegisterGauge("lingua_node_series_missing",
		"Nodes without a series of the last hour on this instance, because there are too many.",
		func() float64 { return float64(s.Stats.Series.Missing()) })
	s.Metrics.Registry.MustRegister(telemetry.NewWaitingGauges(s.Jobs.Waiting.Counts))
	s.Metrics.RegisterGauge("lingua_waiting_requests", "Requests that wait on this instance for a free slot.",
		func() float64 { return float64(s.Jobs.Waiting.Waiting()) })
}

// registerCatalogMetrics registers the gauges of the catalog of services, which are absent without a ModelHub.
func (s *Scheduler) registerCatalogMetrics() {
	s.Metrics.RegisterGauge("lingua_catalog_services", "Services in the catalog of this instance.",
		func() float64 { return float64(s.catalog.State().Services) })
	s.Metrics.RegisterGauge("lingua_catalog_failures", "Refreshes of the catalog that failed in a row.",
		func() float64 { return float64(s.catalog.State().FailCount) })
	s.Metrics.RegisterGauge("lingua_catalog_age_seconds",
		"Since the ModelHub last confirmed the catalog, or since this instance started if it never has.",
		func() float64 {
			confirmed := s.catalog.State().LastSuccessAt
			if confirmed.IsZero() {
				confirmed = s.started
			}
			return time.Since(confirmed).Seconds()
		})
}

// load returns the load of this instance, which the statistics publish.
func (s *Scheduler) load() stats.Load {
	return stats.Load{
		Waiting: s.Jobs.Waiting.Waiting(), WaitingBy: s.Jobs.Waiting.WaitingByDirection(), Dispatched: s.Metrics.Dispatched(),
		Retries: s.Metrics.Retries.Sum(), Lag: s.Metrics.Lags(),
	}
}

// countClose counts the close of a connection.
func (s *Scheduler) countClose(c socket.CloseError) { s.Metrics.CountClose(int(c.Code), c.ByPeer) }

// directions returns capacity and in-flight jobs of the directions that were requested recently.
func (s *Scheduler) directions() []telemetry.Direction {
	inFlight := s.Jobs.InFlightByDirection()
	now := s.Fleet.Now()
	byName := make(map[core.Direction]telemetry.Direction)
	for x := range s.Fleet.Indexes() {
		if x.Requirement.TTS || !x.Restriction.Empty() {
			continue // the index of the same direction without TTS and restrictions includes it
		}
		d := byName[x.Requirement.Direction] // of the pools before
		d.Name = x.Requirement.String()
		for m := range x.All() {
			if b := m.Summary(); b.Ready() && b.Reachable() {
				d.Capacity += b.Slots()
				inFlight, _ := s.Fleet.InFlight(m.Node, now)
				d.Used += min(inFlight, b.Slots())
			}
		}
		byName[x.Requirement.Direction] = d
	}
	for direction, n := range inFlight {
		d := byName[direction]
		d.Name, d.InFlight = direction.String(), n
		byName[direction] = d
	}
	all := make([]telemetry.Direction, 0, len(byName))
	for _, d := range byName {
		all = append(all, d)
	}
	return all
}
