package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Instances knows which schedulers share the store. An instance is one life of one process: whoever starts again is
// another.
type Instances interface {
	// Announce says that an instance is present for as long as the TTL, and what it says of itself.
	Announce(ctx context.Context, p AnnounceParams) error
	// Withdraw takes that back before its time.
	Withdraw(ctx context.Context, id core.InstanceID) error
	// Instances lists those that are present, and those that were and have left something behind.
	Instances(ctx context.Context) ([]Instance, error)
}

// AnnounceParams describes an instance.
type AnnounceParams struct {
	ID   core.InstanceID
	Body []byte
	TTL  time.Duration
}

// Instance is one of those that share the store.
type Instance struct {
	ID          core.InstanceID
	Present     bool
	Body        []byte // what it says of itself; nil when it is not present
	HasInbox    bool   // it has an inbox: one that is not present and has one was not buried yet
	Inbox       int    // letters in it
	Pending     int    // of these, how many it has fetched and not settled
	DeadLetters int    // its dead letters
}

// Mail is how instances reach each other. Every present one has an inbox. A letter may come twice; it is in the inbox
// until it is settled.
type Inboxes interface {
	// Post puts a letter into an inbox.
	Post(ctx context.Context, p PostParams) (Posted, error)
	// Fetch waits for letters that were not fetched yet and returns them in their order; none when the time was over.
	Fetch(ctx context.Context, p FetchParams) ([]InboxMessage, error)
	// Unsettled returns letters that were fetched at least so long ago, which counts as another delivery.
	Pending(ctx context.Context, p FetchParams) ([]InboxMessage, error)
	// Settle takes letters out of an inbox.
	Acknowledge(ctx context.Context, inbox core.InstanceID, ids ...string) error
	// Condemn takes a letter out and puts it among the dead ones, in one step. It returns the dead letter's id; none when
	// there is no such letter, or not any more.
	DeadLetter(ctx context.Context, p DeadLetterParams) (string, error)
}

// Estates is what instances that are gone have left.
type AbandonedInboxes interface {
	// Estate takes in hand letters of an inbox whose instance is not present, the oldest first; none when it is. What the
	// instance never fetched it does not get by Fetch any more: one that wakes up finds among the Unsettled, after a while, what
	// nobody has settled meanwhile.
	FetchAbandoned(ctx context.Context, id core.InstanceID, limit int) ([]InboxMessage, error)
	// Bury removes the inbox of an instance that is not present, and its name if it has no dead letters. It reports false
	// when the instance is back.
	RemoveInbox(ctx context.Context, id core.InstanceID) (bool, error)
	// DeadLetters returns dead letters of an inbox, the oldest first, from after one of them on.
	DeadLetters(ctx context.Context, inbox core.InstanceID, after string, limit int) ([]DeadLetter, error)
	// Replay puts a dead letter into the inbox of an instance and takes it from the dead. It keeps its age. While it does,
	// nobody else can replay or discard the letter; a repeat by the same instance has no second effect.
	Replay(ctx context.Context, p ReplayParams) (Posted, error)
	// Discard drops dead letters and returns how many there were; without ids, all of them. What cannot be an id names none,
	// and one that is being replayed stays.
	Discard(ctx context.Context, inbox core.InstanceID, ids ...string) (int, error)
}

// PostParams describes a letter.
type PostParams struct {
	To          core.InstanceID
	Body        []byte
	MaxMessages int // letters an inbox may hold
}

// Posted says what became of a letter.
type Posted uint8

// What can become of one.
const (
	Accepted       Posted = iota + 1
	InstanceAbsent        // there is no such instance present
	InboxFull             // its inbox holds as much as it may
	NoDeadLetter          // Replay: there is no such dead letter, or another instance is replaying it
)

// ReplayParams names a dead letter and the instance that shall have it.
type ReplayParams struct {
	Inbox       core.InstanceID // among whose dead letters it is
	ID          string
	To          core.InstanceID
	MaxMessages int // letters its inbox may hold
}

// FetchParams says whose letters are wanted.
type FetchParams struct {
	Inbox core.InstanceID
	Wait  time.Duration // Fetch: how long to wait for one; Unsettled: how long ago it was fetched
	Limit int
}

// Letter is one letter as it lies in an inbox.
type InboxMessage struct {
	ID         string
	Body       []byte
	Age        time.Duration // by the store's clock
	Deliveries int           // how often it was fetched, this time included; 0: never
}

// CondemnParams says which letter is dead, and why.
type DeadLetterParams struct {
	Inbox   core.InstanceID
	Message InboxMessage
	Reason  string
	Keep    time.Duration // how long the inbox's dead letters outlive the last of them
}

// DeadLetter is a letter that could not be dealt with.
type DeadLetter struct {
	InboxMessage
	Inbox  core.InstanceID
	Reason string
}
