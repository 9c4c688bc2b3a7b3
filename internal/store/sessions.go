package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Outbox keeps the durable messages of a conversation in utterance order until its client has them. It belongs to one
// incarnation of a session: a name that is used again has another outbox.
type Outbox interface {
	// Append adds the message of an utterance. Messages enter the stream when all before them have; an index
	// that was appended before is left as it is.
	Append(ctx context.Context, p AppendParams) (Appended, error)
	// Read returns the stream's messages after a position.
	Read(ctx context.Context, p ReadParams) ([]OutboxMessage, error)
	// Early lists the indexes of messages that wait for others before them.
	Waiting(ctx context.Context, session core.SessionRef) ([]int64, error)
}

// AppendParams describes one message. Indexes count from 0.
type AppendParams struct {
	Session core.SessionRef
	Index   int64
	Body    []byte
	Keep    time.Duration // how long the outbox outlives its last message
	// MaxBytes bounds the bodies in the stream, unless it is 0: the oldest are dropped for a new one. That one stays, with
	// those that have waited for it: nobody can have read them.
	MaxBytes int64
	// By says that only the session's owner may add it: a message that is the owner's own decision. Its zero value is
	// for what was decided elsewhere, by a job's record.
	By Ownership
}

// Appended is the answer to an append.
type Appended struct {
	Seq int64 // the position of the last message in the stream
	// Refused says that nothing was added: the session belongs to another instance, or its name to another incarnation.
	Refused bool
	Exists  bool // the utterance had a message before, which may be another: that one stands
	// Owner is the instance that has this incarnation of the session; empty when none has. It is as old as the append,
	// no older.
	Owner core.InstanceID
}

// ReadParams describes a read of at most Limit messages.
type ReadParams struct {
	Session core.SessionRef
	After   int64
	Limit   int
}

// Message is one message of a stream; Seq counts from 1.
type OutboxMessage struct {
	Seq   int64
	Index int64
	Body  []byte
}

// Sessions keeps what a conversation needs to go on after its instance is gone, and whose it is.
type Sessions interface {
	// SaveSession puts a session's state in the place of what there is, if the claim holds, and reports whether it does.
	SaveSession(ctx context.Context, p SaveParams) (held bool, err error)
	// LoadSession returns the state of the session that has a name now. Its claim is empty when there is none.
	LoadSession(ctx context.Context, key core.SessionKey) (SessionState, error)
}

// Claim says which instance has a session. The epoch grows by one whenever it changes hands, so that the writes of an
// earlier owner are told from those of the present one.
type Ownership struct {
	Owner core.InstanceID
	Epoch int64 // counts from 1 within an incarnation
}

// SessionState is a session as the store has it.
type SessionState struct {
	Ownership
	Incarnation core.SessionIncarnation
	Body        []byte
}

// SaveParams describes a session's state and who writes it.
type SaveParams struct {
	// Session is refused when its name belongs to another incarnation by now.
	Session core.SessionRef
	Ownership
	// Take says that the session becomes the caller's: the epoch before the claim's must stand with the body that was
	// Seen, or no session at all for the first. Without it the claim itself must stand, or an older one: a store that has
	// forgotten its last moments takes the word of whoever has the session since.
	TakeOver bool
	Expected []byte
	Body     []byte
	// Known is how many messages of the session's outbox the owner knows of. The outbox lives as long as the state; what
	// the store has forgotten of it is counted on from there.
	Known int64
	// Acked is the last message of the outbox that the client has: nothing up to it is needed any more.
	Acked int64
	Keep  time.Duration
}
