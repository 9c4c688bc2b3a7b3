package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Stats holds what each instance has counted, and what the leader among the instances has computed from it for all of them.
type Stats interface {
	// SaveCounts publishes what an instance has counted since it started, and replaces what it published before.
	SaveCounts(ctx context.Context, p CountsParams) error
	// Counts returns what instances have published, in the order of the ids; nil for one that has published nothing, or whose counts
	// have expired.
	Counts(ctx context.Context, ids ...core.InstanceID) ([][]byte, error)
	// SaveSnapshot publishes a snapshot, and reports whether it did: not if the current one has a higher fence.
	SaveSnapshot(ctx context.Context, p SnapshotParams) (bool, error)
	// LoadSnapshot returns the current snapshot, without its body if it is the known one. The zero Snapshot means that there is none, or
	// that it has expired; as the known one, that none is known.
	LoadSnapshot(ctx context.Context, known SnapshotID) (Snapshot, error)
	// SaveHistory replaces parts of the history, and reports whether it did: not if a part was written with a higher fence before. All
	// parts expire at the same time: TTL after the last call.
	SaveHistory(ctx context.Context, p HistoryParams) (bool, error)
	// LoadHistory returns the parts of the history by their names.
	LoadHistory(ctx context.Context) (map[string][]byte, error)
}

// CountsParams holds the counts of an instance.
type CountsParams struct {
	ID   core.InstanceID
	Body []byte
	TTL  time.Duration
}

// SnapshotParams describes a snapshot that is published.
type SnapshotParams struct {
	Fence int64 // of the lock that its author holds
	Body  []byte
	TTL   time.Duration
}

// SnapshotID identifies a published snapshot.
type SnapshotID struct {
	Fence     int64
	Published int64 // when it was published, in milliseconds on the clock of the store
}

// Snapshot is a published snapshot.
type Snapshot struct {
	SnapshotID
	Body []byte
	Age  time.Duration // since it was published
}

// HistoryParams describes a change of the history.
type HistoryParams struct {
	Fence int64 // of the lock that its author holds
	Parts map[string][]byte
	TTL   time.Duration
}
