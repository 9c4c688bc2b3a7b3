package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// unavailableRetry is the Retry-After of a request that was refused because the store does not answer.
const unavailableRetry = time.Second

// Unavailable is the answer to a request that cannot be decided because the store does not answer. The caller logs the error of the
// store: it may name addresses, which a client must not see.
func Unavailable() *wire.Error {
	return wire.Errorf(wire.SchedulerDependencyDown, "the shared store does not answer: try again").RetryIn(unavailableRetry)
}

// CallError is the answer to a request whose call of the store failed: its context has ended, or the store did not answer.
func CallError(ctx context.Context) *wire.Error {
	if ctx.Err() != nil {
		return wire.Errorf(wire.DeadlineExceeded, "the request ended before it was decided")
	}
	return Unavailable()
}
