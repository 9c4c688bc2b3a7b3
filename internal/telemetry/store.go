package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Store counts failures of the shared store.
type Store struct {
	StoreUp     prometheus.Gauge
	StoreErrors *prometheus.CounterVec // operation
	StoreLost   *prometheus.CounterVec // kind
}

func newStore(f factory) Store {
	s := Store{
		StoreUp:     f.gauge("lingua_store_up", "1 while the shared store is available. While it is 0 every dispatch is refused."),
		StoreErrors: f.counterVec("lingua_store_errors_total", "Operations of the store that failed.", "operation"),
		StoreLost:   f.counterVec("lingua_store_lost_total", "Records and leases that the store had and lost.", "kind"),
	}
	s.StoreUp.Set(1)
	return s
}
