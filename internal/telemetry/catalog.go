package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Catalog counts refreshes of the catalog of services.
type Catalog struct {
	CatalogRefreshes *prometheus.CounterVec // kind, result
}

func newCatalog(f factory) Catalog {
	return Catalog{
		CatalogRefreshes: f.counterVec("lingua_catalog_refreshes_total",
			"Refreshes of the catalog of services, of the list or of one service: ok, not_modified, not_listed, error, or skipped while "+
				"the breaker is open.", "kind", "result"),
	}
}
