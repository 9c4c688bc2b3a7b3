package waiting

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Waiting returns how many requests wait on this instance for a free slot.
func (q *Queue) Waiting() int { return int(q.waiters.count.Load()) }

// WaitingByDirection returns how many requests wait on this instance for a free slot, by direction.
func (q *Queue) WaitingByDirection() map[core.Direction]int { return q.waiters.directions() }

// Counts returns who waits on this instance for a free slot, and what the tenants have got in the last minute.
func (q *Queue) Counts() telemetry.WaitingCounts {
	c := telemetry.WaitingCounts{Pools: make(map[string]int), Tenants: make(map[string]int), Shares: make(map[string]telemetry.TenantShare)}
	for pool, n := range q.waiters.pools() {
		c.Pools[string(pool)] = n
	}
	for tenant, n := range q.waiters.tenants() {
		c.Tenants[string(tenant)] = n
	}
	for tenant, s := range q.shares.recent(time.Now()) {
		c.Shares[string(tenant)] = telemetry.TenantShare{Granted: float64(s.Granted), Entitled: s.Entitled}
	}
	return c
}
