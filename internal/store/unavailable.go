package store

import (
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
