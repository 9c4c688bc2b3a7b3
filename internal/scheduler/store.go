package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// openStore opens the configured store. It also makes log attributes that say where the store is, without secrets: all instances of one
// fleet must have the same.
func (s *Scheduler) openStore(ctx context.Context) error {
	c := &s.cfg.Scheduler
	timing := store.Timing{
		Presence:    c.Nodes.PresenceTTLMS.Duration(),
		ReservedTTL: c.TaskBinding.ReservedTTLSeconds.Duration(),
		Attempt:     c.Dispatch.AttemptTimeoutMS.Duration(),
		Job:         c.Dispatch.JobTimeoutMS.Duration(),
		Retention:   c.TaskBinding.LeaseSeconds.Duration(),
	}
	address, shared, err := s.cfg.RedisAddress()
	if err != nil {
		return err
	}
	if !shared {
		st := memstore.New(timing)
		s.Store = st
		s.storeHealth.ping = st.Ping
		s.storeLog = []any{"store", "memory"}
		return nil
	}
	st, err := redisstore.Open(ctx, redisstore.Options{
		Address: address, Prefix: c.Phase2.Redis.KeyPrefix, Timing: timing, Timeout: c.Dispatch.DecideWithinMS.Duration(), Log: s.log,
		OnEmptied: s.restoreRecords, OnError: s.Metrics.CountRedisError, OnCall: s.Metrics.StoreCalls.Observe, OnHealth: s.storeChanged,
	})
	if err != nil {
		return fmt.Errorf("%w\nThe address and the credentials of Redis are configured by %s", err, s.cfg.RedisKeys())
	}
	s.Store = st
	s.storeHealth.ping = st.Ping
	s.storeLog = []any{"store", address.String(), "database", address.DB, "key_prefix", c.Phase2.Redis.KeyPrefix}
	return nil
}

// storeChanged records that the shared store is available again, or is not any more.
func (s *Scheduler) storeChanged(up bool) {
	s.storeHealth.down.Store(!up)
	if up {
		s.Metrics.StoreUp.Set(1)
		s.events.Record(store.Event{Kind: store.EventStoreUp})
		s.log.Info("the shared store is available again")
		return
	}
	s.Metrics.StoreUp.Set(0)
	s.events.Record(store.Event{Kind: store.EventStoreDown})
	s.log.Error("the shared store does not answer, or takes no writes: dispatches are refused until it does; /readyz says what is wrong")
}

// restoreRecords writes records again after the store was emptied.
func (s *Scheduler) restoreRecords() {
	if jobs := s.restorer.Load(); jobs != nil {
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
