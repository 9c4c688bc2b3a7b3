package scheduler

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
)

// suspensionDetector detects that this process did not run for a while: it was stopped, or got no CPU time. The process
// renews its presence as soon as it runs again, so nothing else would show here that other instances took it for dead.
type suspensionDetector struct {
	ttl time.Duration // of the presence
	now func() time.Time
}

// watch calls report for each suspension after began in which the presence may have expired, until the context ends.
func (d *suspensionDetector) watch(ctx context.Context, began time.Time, report func(suspended time.Duration)) {
	// The last renewal before it may be a third of the TTL old.
	threshold := d.ttl * 2 / 3
	for last := began; run.SleepJitter(ctx, d.ttl/10, 0.2); {
		now := d.now()
		if suspended := now.Sub(last); suspended > threshold {
			report(suspended)
		}
		last = now
	}
}

// logSuspension logs that this instance was suspended.
func (s *Scheduler) logSuspension(suspended time.Duration) {
	s.log.Warn("this instance was away: it was stopped, or got no processor; others may have taken over what it had",
		"instance", s.instance, "away", suspended.Round(100*time.Millisecond).String())
}
