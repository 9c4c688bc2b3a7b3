package scheduler

import (
	"fmt"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/tenants"
)

// newTenants puts the weights and limits of tenants of the configuration in force, and makes a reload replace them.
func newTenants(c *config.Scheduler, r *config.Reloader, st store.Tenants, m *telemetry.Metrics) *tenants.Gate {
	current := tenants.NewCurrent(c.TenantTable())
	r.Register(config.Section{Keys: []string{config.TenantsKey},
		Prepare: func(next *config.Config, _ config.ReloadRequest) (config.SectionChange, error) {
			table := next.Scheduler.TenantTable()
			if table.Equal(current.Table()) {
				return config.SectionChange{}, nil
			}
			return config.SectionChange{
				Changed: []string{fmt.Sprintf("%s: %d entries", config.TenantsKey, len(next.Scheduler.Tenants))},
				Apply:   func() { current.Replace(table) },
			}, nil
		}})
	return tenants.NewGate(current, st, func(limit store.TenantLimit) { m.TenantRefusals.WithLabelValues(limit.String()).Inc() })
}
