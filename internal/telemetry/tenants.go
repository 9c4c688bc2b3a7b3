package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// Tenants counts what the limits of tenants refuse.
type Tenants struct {
	TenantRefusals *prometheus.CounterVec // limit
}

func newTenants(f factory) Tenants {
	t := Tenants{f.counterVec("lingua_tenant_refusals_total",
		"Jobs and sessions that a limit of their tenant refused, by limit. A request that waits is counted each time that it tries.",
		"limit")}
	for _, limit := range store.TenantLimits() {
		t.TenantRefusals.WithLabelValues(limit.String())
	}
	return t
}
