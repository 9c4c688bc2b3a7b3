package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Marks remembers which services a node was found not to have although it declares them.
type Marks interface {
	Mark(ctx context.Context, m Mark) error
	// Marked lists the marks of nodes that have not expired.
	Marked(ctx context.Context, nodes ...core.NodeID) ([]Mark, error)
}

// Mark says that a service of a node is not to be relied on for a while.
type Mark struct {
	Node    core.NodeID
	Service string
	For     time.Duration
}

// Board holds short-lived facts that instances share.
type Board interface {
	// Debounce reports true once per window and key.
	Debounce(ctx context.Context, key string, window time.Duration) (bool, error)
	// Allow counts one use of key and reports whether it is within the limit of the window it began.
	Allow(ctx context.Context, p AllowParams) (bool, error)
	// Lock takes or renews a lock and reports whether the holder has it. The fence grows with every change
	// of holder.
	Lock(ctx context.Context, p LockParams) (Lock, error)
	// Unlock gives a lock back if the holder has it.
	Unlock(ctx context.Context, p LockParams) error
	// SaveSnapshot publishes a value under a name for a while; LoadSnapshot returns nil when there is none.
	SaveSnapshot(ctx context.Context, p SnapshotParams) error
	LoadSnapshot(ctx context.Context, name string) ([]byte, error)
}

// AllowParams describes a rate: Limit uses in each Window.
type AllowParams struct {
	Key    string
	Limit  int
	Window time.Duration
}

// LockParams names a lock and who wants it.
type LockParams struct {
	Name   string
	Holder string
	TTL    time.Duration
}

// Lock is the answer to a wish for a lock.
type Lock struct {
	Held  bool
	Fence int64
}

// SnapshotParams describes a published value.
type SnapshotParams struct {
	Name string
	Body []byte
	TTL  time.Duration
}
