package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Sessions keeps the state with which another instance can continue a session, and records which instance owns the session.
type Sessions interface {
	// SaveSession replaces the state of a session, if the caller owns the session or may take it over, and reports whether it did.
	// It also keeps the session's outbox for p.Keep and drops the messages that the client has acknowledged.
	SaveSession(ctx context.Context, p SaveParams) (held bool, err error)
	// LoadSession returns the state of the session that uses a name now, and the zero SessionState when there is none.
	LoadSession(ctx context.Context, key core.SessionKey) (SessionState, error)
}

// Ownership says which instance owns a session. The epoch grows by one with every change of owner, which distinguishes the writes
// of an earlier owner from those of the current one.
type Ownership struct {
	Owner core.InstanceID
	Epoch int64 // counts from 1 within an incarnation
}

// SessionState is the stored state of a session.
type SessionState struct {
	Ownership
	Incarnation core.SessionIncarnation
	Body        []byte
}

// SaveParams describes a session's new state and its writer.
type SaveParams struct {
	// Session names the session. The save is refused when another incarnation uses the name.
	Session core.SessionRef
	Ownership
	// TakeOver makes the caller the owner. The stored state must be Expected, with the epoch before the caller's; for epoch 1 there
	// must be no session. Repeating the same takeover succeeds. Without TakeOver the stored ownership must be the caller's, or have an
	// earlier epoch: a store that has lost its last writes accepts the word of the current owner.
	TakeOver bool
	Expected []byte
	Body     []byte
	// Known is how many messages of the session's outbox the owner knows. If the store has lost some of them, positions continue
	// after it.
	Known int64
	// Acked is the position of the last message that the client has acknowledged. Messages up to it are dropped.
	Acked int64
	Keep  time.Duration // how long the state is kept
}
