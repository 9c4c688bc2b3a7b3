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
	// that was appended before is left as it is.
	Append(ctx context.Context, p AppendParams) (Appended, error)
	// Read returns the stream's messages after a position.
	Read(ctx context.Context, p ReadParams) ([]Message, error)
	// Early lists the indexes of messages that wait for others before them.
	Early(ctx context.Context, id core.SessionID) ([]int64, error)
}

// AppendParams describes one message. Indexes count from 0.
type AppendParams struct {
	Session core.SessionID
	Index   int64
	Body    []byte
	Keep    time.Duration // how long the session's outbox outlives its last message
	// By says that only the session's owner may add it: a message that is the owner's own decision. Its zero value is
	// for what was decided elsewhere, by a job's record.
	By Claim
}

// Appended is the answer to an append.
type Appended struct {
	Seq     int64 // the position of the last message in the stream
	Refused bool  // the session is somebody else's by now: nothing was added
	There   bool  // the utterance had a message before, which may be another: that one stands
	// Owner is whose the session is, for whoever is not: empty when nobody's. It is as old as the append, no older.
	Owner core.InstanceID
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

// Sessions keeps what a conversation needs to go on after its instance is gone, and whose it is.
type Sessions interface {
	// SaveSession puts a session's state in the place of what there is, if the claim holds, and reports whether it does.
	SaveSession(ctx context.Context, p SaveParams) (held bool, err error)
	// LoadSession returns a session's state. Its claim is empty when there is none, or none any more.
	LoadSession(ctx context.Context, id core.SessionID) (SessionState, error)
}

// Claim says whose a session is. The epoch grows by one whenever it changes hands, so that the writes of an earlier
// owner are told from those of the present one.
type Claim struct {
	Owner core.InstanceID
	Epoch int64 // counts from 1
}

// SessionState is a session as the store has it.
type SessionState struct {
	Claim
	Body []byte
}

// SaveParams describes a session's state and who writes it.
type SaveParams struct {
	Session core.SessionID
	Claim
	// Take says that the session becomes the caller's: the epoch before the claim's must stand with the body that was
	// Seen, or no session at all for the first. Without it the claim itself must stand, or an older one: a store that has
	// forgotten its last moments takes the word of whoever has the session since.
	Take bool
	Seen []byte
	Body []byte
	// Known is how many messages of the session's outbox the owner knows of. The outbox lives as long as the state; what
	// the store has forgotten of it is counted on from there.
	Known int64
	Keep  time.Duration
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
