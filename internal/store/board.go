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
	// Lock acquires a lock for TTL, or renews it for its holder, and reports whether the holder has it. The fence grows with every
	// change of holder and stays the same at a renewal.
	Lock(ctx context.Context, p LockParams) (Lock, error)
	// Unlock releases a lock if the holder has it, and does nothing otherwise.
	Unlock(ctx context.Context, p LockParams) error
}

// AllowParams describes a rate: Limit uses in each Window.
type AllowParams struct {
	Key    string
	Limit  int
	Window time.Duration
}

// LockParams names a lock and its holder.
type LockParams struct {
	Name   string
	Holder string
	TTL    time.Duration
}

// Lock is the answer to an attempt to acquire a lock.
type Lock struct {
	Held  bool  // by the caller
	Fence int64 // of the current holder
}
