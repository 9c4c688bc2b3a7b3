package scheduler

import (
	"context"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/health"

	"github.com/lingua-scheduler/lingua/internal/config"
)

// guards keep side work off the path of dispatch.
type guards struct {
	catalog     *health.Catalog
	unavailable *health.UnavailableWorker
}

func (s *Scheduler) newGuards(c *config.Scheduler) (*guards, error) {
	forCatalog := catalogOptions(c)
	forCatalog.Metrics, forCatalog.Log = s.Metrics, s.log
	catalog, err := health.NewCatalog(forCatalog)
	if err != nil {
		return nil, err
	}
	o := unavailableOptions(c)
	o.Store, o.Fleet, o.Catalog, o.Events, o.Metrics, o.Log = s.Store, s.Fleet, catalog, s.events, s.Metrics, s.log
	return &guards{catalog: catalog, unavailable: health.NewUnavailableWorker(o)}, nil
}

// run runs them until the context ends.
func (g *guards) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { g.catalog.Run(ctx) })
	wg.Go(func() { g.unavailable.Run(ctx) })
	wg.Wait()
}
