package dispatch

import (
	"math"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// Durations estimates how long jobs take.
type Durations struct{ durations }

// NewDurations makes an estimate.
func NewDurations() *Durations { return new(Durations) }

// Observe records the duration of a job.
func (d *Durations) Observe(took time.Duration) { d.observe(took) }

// P95 is the estimate.
func (d *Durations) P95() time.Duration {
	return time.Duration(math.Float64frombits(d.p95.Load()) * float64(time.Second))
}

// ShareLog remembers what tenants were granted.
type ShareLog struct{ *shareLog }

// NewShareLog makes a log.
func NewShareLog() ShareLog { return ShareLog{newShareLog()} }

// Record records what was counted of one tenant.
func (l ShareLog) Record(now time.Time, tenant core.TenantID, granted int64, entitled float64) {
	l.record(now, map[sharer]shareCount{{tenant: tenant}: countOf(granted, entitled)})
}

// ShareOf returns the share of a tenant.
func (l ShareLog) ShareOf(now time.Time, tenant core.TenantID, granted int64, entitled float64) WaitShare {
	return l.shareOf(now, sharer{tenant: tenant}, countOf(granted, entitled))
}

// Len returns of how many tenants something is remembered.
func (l ShareLog) Len() int { return len(l.tenants) }

func countOf(granted int64, entitled float64) shareCount {
	return shareCount{granted, int64(entitled * fairqueue.ShareScale)}
}
