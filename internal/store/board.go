package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Marks remembers which services a node was found not to have although it declares them.
type Marks interface {
	Mark(ctx context.Context, m Mark) error
	// Marked lists the marks of a node that have not expired.
	Marked(ctx context.Context, node core.NodeID) ([]Mark, error)
}

// Mark says that a service of a node is not to be relied on for a while.
type Mark struct {
	Node    core.NodeID
	Service string
	For     time.Duration
}

// Outbox keeps the messages of a session in utterance order until they are old.
type Outbox interface {
	// Append adds the message of an utterance. Messages enter the stream when all before them have; an index
	// that was appended before is left as it is. It returns the position of the last message in the stream.
	Append(ctx context.Context, p AppendParams) (seq int64, err error)
	// Read returns the stream's messages after a position.
	Read(ctx context.Context, p ReadParams) ([]Message, error)
}

// AppendParams describes one message. Indexes count from 0.
type AppendParams struct {
	Session core.SessionID
	Index   int64
	Body    []byte
	Keep    time.Duration // how long the session's outbox outlives its last message
}

// ReadParams describes a read of at most Limit messages.
type ReadParams struct {
	Session core.SessionID
	After   int64
	Limit   int
}

// Message is one message of a stream; Seq counts from 1.
type Message struct {
	Seq   int64
	Index int64
	Body  []byte
}

// Sessions keeps what a conversation needs to go on after its instance is gone.
type Sessions interface {
	// SaveSession puts a session's state in the place of what there is.
	SaveSession(ctx context.Context, p SaveParams) error
	// LoadSession returns it, nil when there is none, or none any more.
	LoadSession(ctx context.Context, id core.SessionID) ([]byte, error)
}

// SaveParams describes a session's state.
type SaveParams struct {
	Session core.SessionID
	Body    []byte
	Keep    time.Duration
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
