package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Instances knows which scheduler instances share the store. An InstanceID is one incarnation of a process; a restart is another.
type Instances interface {
	// Announce makes an instance present for TTL, publishes its body, and creates its inbox if it has none. With a TTL of 0 it withdraws
	// the instance: its presence ends at once, and its inbox stays.
	Announce(ctx context.Context, p AnnounceParams) error
	// Instances lists the instances that are present, and the absent ones whose names RemoveInbox has not removed yet.
	Instances(ctx context.Context, p InstancesParams) ([]Instance, error)
}

// AnnounceParams describes the presence of an instance.
type AnnounceParams struct {
	ID   core.InstanceID
	Body []byte // what the instance publishes about itself
	TTL  time.Duration
}

// InstancesParams says which instances are listed, and what of them.
type InstancesParams struct {
	// Inboxes says that the inboxes and dead letters are read, too. That costs a call for each instance.
	Inboxes bool
	// SilentFor selects the instances that have withdrawn, or that announced themselves at least this long ago: the absent ones if they
	// announce themselves with that TTL, and perhaps others. If there are none it costs the same however many are present. 0: all.
	SilentFor time.Duration
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
