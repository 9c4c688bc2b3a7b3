package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// openStore opens the configured store. It also returns log attributes that say where the store is, without secrets: all
// instances of one fleet must have the same.
func openStore(
	ctx context.Context, cfg *config.Config, m *telemetry.Metrics, recorder *journal.Events, onEmptied func(), health *storeHealth,
	log *slog.Logger,
) (store.Store, []any, error) {
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
		s := memstore.New(timing)
		health.ping = s.Ping
		return s, []any{"store", "memory"}, nil
	}
	s, err := redisstore.Open(ctx, redisstore.Options{
		Address: address, Prefix: c.Phase2.Redis.KeyPrefix, Timing: timing, Timeout: c.Dispatch.DecideWithinMS.Duration(), Log: log,
		OnEmptied: onEmptied, OnError: m.CountRedisError, OnCall: m.StoreCalls.Observe,
		OnHealth: func(up bool) {
			health.down.Store(!up)
			if up {
				m.StoreUp.Set(1)
				recorder.Record(store.Event{Kind: store.EventStoreUp})
				log.Info("the shared store is available again")
			} else {
				m.StoreUp.Set(0)
				recorder.Record(store.Event{Kind: store.EventStoreDown})
				log.Error("the shared store does not answer, or takes no writes: dispatches are refused until it does; /readyz says " +
					"what is wrong")
			}
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w\nThe address and the credentials of Redis are configured by %s", err, cfg.RedisKeys())
	}
	health.ping = s.Ping
	return s, []any{"store", address.String(), "database", address.DB, "key_prefix", c.Phase2.Redis.KeyPrefix}, nil
}

// restorer writes records again after the store was emptied. The store is made before the dispatcher.
type restorer struct {
	jobs atomic.Pointer[dispatch.Dispatcher]
}

func (r *restorer) restore() {
	if jobs := r.jobs.Load(); jobs != nil {
		jobs.Reconciler.RestoreRecords()
	}
}

// storeHealth says whether this instance can use the store, and why it cannot. Whatever shows that reads it here.
type storeHealth struct {
	ping func(context.Context) error
	down atomic.Bool // the store's last calls failed, or it takes no writes

	mu         sync.Mutex
	lastReason store.UnavailableError // as the store itself reported it; empty: it reported none
}

// Reachable reports whether the last calls to the store succeeded, without asking it.
func (h *storeHealth) Reachable() bool { return !h.down.Load() }

// Check pings the store. An error that is a store.UnavailableError may be shown to any client.
func (h *storeHealth) Check(ctx context.Context) error {
	err := h.ping(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	// Between two tries of the circuit breaker the store is not asked: the last reason still holds.
	if !errors.Is(err, store.ErrBreakerOpen) {
		h.lastReason = ""
		errors.As(err, &h.lastReason)
	}
	if err != nil && h.lastReason != "" {
		return h.lastReason
	}
	return err
}
