package store

import (
	"context"
	"time"
)

// Board holds short-lived facts that instances share: debounces, rate limits and locks.
type Board interface {
	// Debounce reports true for the first call of a key, and false for every other until the window of the first has passed. Each
	// call counts: it is not idempotent.
	Debounce(ctx context.Context, key string, window time.Duration) (bool, error)
	// Allow counts one use of a key and reports whether it is within the limit. The first use opens a window, and the first one
	// after its end opens the next. Each call counts: it is not idempotent.
	Allow(ctx context.Context, p AllowParams) (bool, error)
	Locks
}

// AllowParams describes a rate: Limit uses in each Window.
type AllowParams struct {
	Key    string
	Limit  int
	Window time.Duration
}
