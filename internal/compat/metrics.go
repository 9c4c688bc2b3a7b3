package compat

import "github.com/lingua-scheduler/lingua/wire"

// Metrics is the answer to GET /api/v1/metrics, in which some values also have the names of the documents.
type Metrics struct {
	wire.Metrics
	Catalog catalog `json:"service_catalog"`
}

// catalog is the state of the catalog of services. The times are in Unix milliseconds.
type catalog struct {
	wire.MetricsCatalog
	FetchedAt     int64 `json:"fetched_at"`
	LastSuccessAt int64 `json:"last_success_at"`
}

// MetricsOf adds the names of the documents.
func MetricsOf(m *wire.Metrics) *Metrics {
	return &Metrics{*m, catalog{m.Catalog, m.Catalog.FetchedMS, m.Catalog.LastSuccessMS}}
}
