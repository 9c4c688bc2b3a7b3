package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Outbox keeps the durable messages of a session, in utterance order, until its client has acknowledged them. It belongs to one
// incarnation of a session: a session name that is used again has another outbox.
type Outbox interface {
	// Append adds the message of an utterance. Messages enter the stream in the order of their indexes: one whose predecessor is
	// missing waits, and enters with it. An index that has a message keeps it, and Exists says so. The outbox expires p.Keep after the
	// last append or save of its session, and its oldest messages are dropped when there are more than about a thousand.
	Append(ctx context.Context, p AppendParams) (Appended, error)
	// Read returns the messages of the stream after a position, in order.
	Read(ctx context.Context, p ReadParams) ([]OutboxMessage, error)
	// Waiting lists, in order, the indexes of the messages that wait for a predecessor.
	Waiting(ctx context.Context, session core.SessionRef) ([]int64, error)
}

// AppendParams describes one message. Indexes count from 0.
type AppendParams struct {
	Session core.SessionRef
	Index   int64
	Body    []byte
	Keep    time.Duration // how long the outbox is kept after this message
	// MaxBytes bounds the total size of the bodies in the stream; 0: unbounded. The oldest are dropped for new ones. The new message
	// and those that enter the stream with it stay, whatever their size: no client can have read them yet.
	MaxBytes int64
	// By restricts the append to the owner of the session, for a message that only the owner decides. The zero value is for an
	// outcome that a job's record has decided.
	By Ownership
}

// Appended is the answer to an append.
type Appended struct {
	Seq int64 // the position of the last message in the stream
	// Refused says that nothing was added: the session belongs to another instance, or its name to another incarnation.
	Refused bool
	Exists  bool // the index had a message before, which may differ: that one stays
	// Owner is the instance that owns this incarnation of the session at the time of the append; empty when there is none.
	Owner core.InstanceID
}

// ReadParams describes a read of at most Limit messages; 0: all.
type ReadParams struct {
	Session core.SessionRef
	After   int64 // the position after which messages are read
	Limit   int
}

// OutboxMessage is one message of a stream. Seq, its position, counts from 1.
type OutboxMessage struct {
	Seq   int64
	Index int64
	Body  []byte
}
