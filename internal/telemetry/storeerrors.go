package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
)

// StoreBackoff is the backoff between two tries of a store operation.
var StoreBackoff = run.Backoff{Min: 20 * time.Millisecond, Max: 500 * time.Millisecond}

// StoreErrors counts and logs operations of the store that failed, and repeats those that must succeed.
type StoreErrors struct {
	metrics *Metrics
	log     *slog.Logger

	last atomic.Int64 // Unix nanoseconds
}

// NewStoreErrors counts the errors of one part of an instance.
func NewStoreErrors(m *Metrics, log *slog.Logger) *StoreErrors {
	return &StoreErrors{metrics: m, log: log}
}

// RecordError counts and logs a store operation that failed.
func (s *StoreErrors) RecordError(operation string, err error) {
	s.last.Store(time.Now().UnixNano())
	s.metrics.StoreErrors.WithLabelValues(operation).Inc()
	s.log.Warn("the store did not answer", "operation", operation, "error", err)
}

// SinceError returns the time since an operation last failed.
func (s *StoreErrors) SinceError() time.Duration { return time.Since(time.Unix(0, s.last.Load())) }

// Retry repeats an idempotent operation until it succeeds. It returns false if the context ended first.
func (s *StoreErrors) Retry(ctx context.Context, operation func() error) bool {
	return StoreBackoff.Retry(ctx, func() error {
		err := operation()
		if err != nil {
			s.RecordError("persist", err)
		}
		return err
	})
}
