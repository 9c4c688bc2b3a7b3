package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Inboxes carries messages between instances. Every present instance has an inbox. A message stays in it until it is acknowledged,
// is delivered at least once, and may be delivered again after a lost reply.
type Inboxes interface {
	// Post appends a message to the inbox of a present instance. A repeated call appends a second copy, which receivers recognise by
	// its content: it is not idempotent.
	Post(ctx context.Context, p PostParams) (PostResult, error)
	// Fetch returns messages that were never fetched before, in their order, and makes them pending. It waits at most p.Wait for the
	// first one and returns none after that; so it does when there is no inbox.
	Fetch(ctx context.Context, p FetchParams) ([]InboxMessage, error)
	// Pending returns pending messages that were fetched at least p.MinIdle ago, which counts as another delivery of them. It does
	// not wait.
	Pending(ctx context.Context, p FetchParams) ([]InboxMessage, error)
	// Acknowledge removes messages from an inbox. Messages that are not in it are ignored.
	Acknowledge(ctx context.Context, inbox core.InstanceID, ids ...string) error
	// DeadLetter moves a message from an inbox to its dead letters, atomically, and returns the id of the dead letter: empty when the
	// message is not in the inbox.
	DeadLetter(ctx context.Context, p DeadLetterParams) (string, error)
}

// AbandonedInboxes gives access to what absent instances have left, and to the dead letters of all instances.
type AbandonedInboxes interface {
	// FetchAbandoned returns the oldest messages of an inbox whose instance is absent, and none when it is present. Those that the
	// instance never fetched become pending: if it comes back, Fetch does not return them, and Pending returns the ones that were not
	// acknowledged meanwhile. A repeated call returns the same messages.
	FetchAbandoned(ctx context.Context, id core.InstanceID, limit int) ([]InboxMessage, error)
	// RemoveInbox removes the inbox of an absent instance, and its name if it has no dead letters. It reports false, and removes
	// nothing, when the instance is present.
	RemoveInbox(ctx context.Context, id core.InstanceID) (bool, error)
	// DeadLetters returns dead letters of an inbox, the oldest first: all, or those that come after the one with the id after.
	DeadLetters(ctx context.Context, inbox core.InstanceID, after string, limit int) ([]DeadLetter, error)
	// Replay moves a dead letter into the inbox of an instance, and the message keeps its age. If the message is not accepted, it
	// stays a dead letter. Of concurrent calls of Replay and Discard for one dead letter, one succeeds; a repeated call for the same
	// instance has no second effect.
	Replay(ctx context.Context, p ReplayParams) (PostResult, error)
	// Discard removes dead letters and returns how many it removed: those with the ids, or all when there are none. A text that
	// cannot be an id matches no dead letter, and a dead letter that is being replayed stays.
	Discard(ctx context.Context, inbox core.InstanceID, ids ...string) (int, error)
}

// PostParams describes a message.
type PostParams struct {
	To          core.InstanceID
	Body        []byte
	MaxMessages int // that the inbox may hold, pending ones included
}

// PostResult says whether a message was accepted.
type PostResult uint8

// The results of Post and Replay.
const (
	Accepted       PostResult = iota + 1
	InstanceAbsent            // the instance is not present
	InboxFull                 // the inbox holds MaxMessages
	NoDeadLetter              // Replay only: there is no such dead letter, or another instance is replaying it
)

// ReplayParams names a dead letter and the instance that it is replayed to.
type ReplayParams struct {
	Inbox       core.InstanceID // whose dead letter it is
	ID          string
	To          core.InstanceID
	MaxMessages int // that the inbox of To may hold
}

// FetchParams describes a read of an inbox.
type FetchParams struct {
	Inbox   core.InstanceID
	Wait    time.Duration // Fetch: the maximum wait for the first message
	MinIdle time.Duration // Pending: the minimum time since the last delivery
	Limit   int
}

// InboxMessage is a message in an inbox.
type InboxMessage struct {
	ID         string
	Body       []byte
	Age        time.Duration // since it was posted, by the store's clock
	Deliveries int           // how often the instance has fetched it, this time included; 0: never
}

// DeadLetterParams says which message becomes a dead letter, and why.
type DeadLetterParams struct {
	Inbox   core.InstanceID
	Message InboxMessage
	Reason  string
	Keep    time.Duration // how long the dead letters of the inbox are kept after the last one was added
}

// DeadLetter is a message that could not be handled.
type DeadLetter struct {
	InboxMessage
	Inbox  core.InstanceID
	Reason string
}
