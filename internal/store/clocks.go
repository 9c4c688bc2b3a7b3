package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Clocks tells the times by which the store judges. In a cluster each key has a clock of its own.
type Clocks interface {
	// Clock estimates the current time of a clock. It calls the store only for that of a queue, and only if it does not know the time; for
	// that of a job there is no error.
	Clock(ctx context.Context, key ClockKey) (time.Time, error)
}

// ClockKey names the clock by which the times in the record of a job are set, or else, if there is no job, that of the queue of a pool.
type ClockKey struct {
	Job  core.JobID
	Pool core.PoolID
}
