package scheduler

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
)

// absences notices when this process was not let run: it was stopped, or got no processor. It renews its presence as soon
// as it runs again, so that nothing else would tell of it here, while the others took it for gone.
type absences struct {
	ttl time.Duration // of its presence
	now func() time.Time
}

// watch tells of each absence in which the presence may have lapsed, until the context ends.
func (a *absences) watch(ctx context.Context, tell func(away time.Duration)) {
	// The last renewal before it may be a third of the TTL old.
	long := a.ttl * 2 / 3
	for last := a.now(); backoff.SleepJitter(ctx, a.ttl/10, 0.2); {
		now := a.now()
		if away := now.Sub(last); away > long {
			tell(away)
		}
		last = now
	}
}

// wasAway says that this instance was.
func (s *Scheduler) wasAway(away time.Duration) {
	s.log.Warn("this instance was away: it was stopped, or got no processor; others may have taken over what it had",
		"instance", s.Bus.Instance(), "away", away.Round(100*time.Millisecond).String())
}
