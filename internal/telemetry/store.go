package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// Store counts failures of the shared store.
type Store struct {
	StoreUp       prometheus.Gauge
	EventsDropped prometheus.Counter
	StoreErrors   *prometheus.CounterVec // operation
	StoreLost     *prometheus.CounterVec // kind
	// StoreCalls has the durations of calls. It is shown by GET /v1/store, and is no metric.
	StoreCalls *StoreCalls

	redisErrors map[store.ErrorClass]prometheus.Counter
}

func newStore(f factory) Store {
	s := Store{
		StoreCalls: NewStoreCalls(),
		EventsDropped: f.counter("lingua_events_dropped_total",
			"Events that are not in the event log, because they could not be written for too long."),
		StoreUp:     f.gauge("lingua_store_up", "1 while the shared store is available. While it is 0 every dispatch is refused."),
		StoreErrors: f.counterVec("lingua_store_errors_total", "Operations of the store that failed.", "operation"),
		StoreLost:   f.counterVec("lingua_store_lost_total", "Records and leases that the store had and lost.", "kind"),
	}
	s.StoreUp.Set(1)
	errors := f.counterVec("lingua_redis_errors_total", "Calls to Redis that failed, by the class of the error.", "class")
	s.redisErrors = make(map[store.ErrorClass]prometheus.Counter)
	for _, class := range store.ErrorClasses() {
		s.redisErrors[class] = errors.WithLabelValues(string(class))
	}
	return s
}

// CountRedisError counts a call to Redis that failed.
func (s *Store) CountRedisError(class store.ErrorClass) { s.redisErrors[class].Inc() }
