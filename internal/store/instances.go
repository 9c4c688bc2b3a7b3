package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Instances knows which scheduler instances share the store. An InstanceID is one incarnation of a process; a restart is another.
type Instances interface {
	// Announce makes an instance present for TTL, publishes its body, and creates its inbox if it has none.
	Announce(ctx context.Context, p AnnounceParams) error
	// Withdraw ends the presence of an instance at once. Its inbox stays.
	Withdraw(ctx context.Context, id core.InstanceID) error
	// Instances lists the instances that are present, and the absent ones whose names RemoveInbox has not removed yet.
	Instances(ctx context.Context) ([]Instance, error)
	// Presences is Instances without what it says of inboxes and dead letters, and costs less.
	Presences(ctx context.Context) ([]Instance, error)
	// MaybeAbsent returns the listed instances that have withdrawn, or that announced themselves at least ttl ago: the absent ones if they
	// announce themselves with that TTL, and perhaps others. It costs the same however many there are.
	MaybeAbsent(ctx context.Context, ttl time.Duration) ([]core.InstanceID, error)
}

// AnnounceParams describes the presence of an instance.
type AnnounceParams struct {
	ID   core.InstanceID
	Body []byte // what the instance publishes about itself
	TTL  time.Duration
}

// Instance is the state of one instance.
type Instance struct {
	ID          core.InstanceID
	Present     bool
	Body        []byte // as announced; nil when it is absent
	HasInbox    bool   // an absent instance with an inbox has not been taken over yet
	Inbox       int    // messages in the inbox
	Pending     int    // messages of these that were fetched and not acknowledged
	DeadLetters int    // dead letters of the inbox
}
