package store

import (
	"context"
	"time"
)

// Board holds short-lived facts that instances share: rate limits and locks.
type Board interface {
	// Allow counts one use of a key and reports whether it is within the limit. The first use opens a window, and the first one
	// after its end opens the next; with a limit of 1 it is true once in each window. Each call counts: it is not idempotent.
	Allow(ctx context.Context, p AllowParams) (bool, error)
	Locks
}

// AllowParams describes a rate: Limit uses in each Window.
type AllowParams struct {
	Key    string
	Limit  int
	Window time.Duration
}
