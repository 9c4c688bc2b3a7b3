package scheduler

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// openStore opens the store that the configuration names and says where it is, for the log and without anything secret:
// what the instances of one fleet must have in common.
func openStore(ctx context.Context, cfg *config.Config, m *telemetry.Metrics, log *slog.Logger) (store.Store, []any, error) {
	c := &cfg.Scheduler
	timing := store.Timing{
		Presence:    c.Nodes.PresenceTTLMS.Duration(),
		ReservedTTL: c.TaskBinding.ReservedTTLSeconds.Duration(),
		Attempt:     c.Dispatch.AttemptTimeoutMS.Duration(),
		Job:         c.Dispatch.JobTimeoutMS.Duration(),
		Retention:   c.TaskBinding.LeaseSeconds.Duration(),
	}
	address, shared, err := cfg.RedisAddress()
	switch {
	case err != nil:
		return nil, nil, err
	case !shared:
		return memstore.New(timing), []any{"store", "memory"}, nil
	}
	s, err := redisstore.Open(ctx, redisstore.Options{
		Address: address, Prefix: c.Phase2.Redis.KeyPrefix, Timing: timing, Timeout: c.Dispatch.DecideWithinMS.Duration(), Log: log,
		OnHealth: func(up bool) {
			if up {
				m.StoreUp.Set(1)
				log.Info("the shared store serves again")
			} else {
				m.StoreUp.Set(0)
				log.Error("the shared store does not answer, or takes no writes: dispatches are refused until it does; /readyz says what is wrong")
			}
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w\nWhere Redis is, and how it is entered, is said by %s", err, cfg.RedisKeys())
	}
	return s, []any{"store", address.String(), "database", address.DB, "key_prefix", c.Phase2.Redis.KeyPrefix}, nil
}
