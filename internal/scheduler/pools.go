package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/pools"
)

// publishTimeout bounds how long a reload waits for the store.
const publishTimeout = 5 * time.Second

// followPools divides the fleet into capability pools as the store or the configuration says, and makes a reload of the configuration
// publish its pools.
func (s *Scheduler) followPools(ctx context.Context) error {
	s.pools = pools.New(pools.Options{Store: s.Store, Fleet: s.Fleet, Events: s.events, Log: s.log})
	s.credentials.reloader.Register(config.Section{Keys: config.Phase3Keys(), Prepare: s.preparePools})
	return s.pools.Start(ctx, s.cfg.Scheduler.Phase3.Division())
}

// publishing returns the context of a publication. A reload has none: a signal causes it, or a caller that may leave.
func publishing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), publishTimeout) //nolint:forbidigo // the root context of a reload
}

// preparePools is the section of a reload that publishes the pools, if they have changed in the file or the reload demands it.
func (s *Scheduler) preparePools(next *config.Config, r config.ReloadRequest) (config.SectionChange, error) {
	ctx, cancel := publishing()
	defer cancel()
	division := next.Scheduler.Phase3.Division()
	effect, err := s.pools.Compare(ctx, division, r.PublishPools)
	if err != nil {
		return config.SectionChange{},
			&config.UnavailableError{Err: fmt.Errorf("scheduler.phase3: the pools cannot be published, so nothing is reloaded: %w", err)}
	}
	switch effect {
	case pools.Published:
		return config.SectionChange{
			Changed: []string{fmt.Sprintf("scheduler.phase3: %d pools, published to all instances", len(division.IDs()))},
			Apply: func() {
				ctx, cancel := publishing()
				defer cancel()
				s.pools.Publish(ctx, division)
			},
		}, nil
	case pools.Withheld:
		return config.SectionChange{Warnings: []string{
			"scheduler.phase3: other pools are in force than those of this file, which have not changed since it was loaded and are not " +
				"published. Bring the file up to date, or publish its pools: lingua config reload --publish-pools",
		}}, nil
	default:
		return config.SectionChange{Apply: func() { s.pools.SetFile(division) }}, nil
	}
}
