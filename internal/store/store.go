package store

import (
	"context"
	"errors"
	"time"
)

// ErrDown is returned when the store cannot be reached or will not answer in time. Nothing may be granted
// on a guess: the caller refuses.
var ErrDown = errors.New("the shared store cannot be reached")

// ErrNotAsked is the ErrDown of a store that has not served lately, and was not asked this time.
var ErrNotAsked = errors.New("it did not serve lately, and is asked again in a moment")

// Trouble is what is wrong with a store that answers and cannot serve, in words that anybody may read. It comes with ErrDown.
type UnavailableError string

// Error implements error.
func (t UnavailableError) Error() string { return string(t) }

// Store is everything an implementation offers. Code asks for the one small interface it needs.
type Store interface {
	Nodes
	NodeReader
	Ledger
	LeaseReader
	Jobs
	Marks
	Outbox
	Sessions
	Instances
	Inboxes
	AbandonedInboxes
	Board

	// Ping reports whether the store would answer right now.
	Ping(ctx context.Context) error
	// Close gives back what the store holds. No other method may be called after it.
	Close() error
}

// Timing holds the durations by which a store judges. They are the same for every instance of one fleet.
type Timing struct {
	Presence    time.Duration // a node that was silent this long is gone; also the TTL of every lease
	ReservedTTL time.Duration // the age at which a lease the node never confirmed is judged
	Attempt     time.Duration // how long one attempt may take
	Job         time.Duration // how long a whole job may take
	Retention   time.Duration // how long the record of an ended job is kept
}

// Verdict is the store's answer to a request that may be refused.
type Verdict uint8

// The verdicts.
const (
	OK            Verdict = iota + 1
	Full                  // no slot is free
	NotReady              // the node's health, its last heartbeat or its hold forbids it
	NoCapacity            // the node declares no slots at all
	StaleEpoch            // the node has registered again since
	StaleRevision         // the node has changed since the choice was made
	TooLate               // the caller's deadline, or a newer heartbeat, was first
	UnknownNode           // no such node is registered
)

var verdictNames = [...]string{
	OK: "OK", Full: "FULL", NotReady: "NOT_READY", NoCapacity: "NO_CAPACITY", StaleEpoch: "STALE_EPOCH",
	StaleRevision: "STALE_REVISION", TooLate: "TOO_LATE", UnknownNode: "UNKNOWN_NODE",
}

func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return ""
}

// Verdicts lists every verdict, for whoever counts them.
func Verdicts() []Verdict {
	return []Verdict{OK, Full, NotReady, NoCapacity, StaleEpoch, StaleRevision, TooLate, UnknownNode}
}

// ErrNoNode is returned when a node is not registered.
var ErrNoNode = errors.New("no such node is registered")

// ErrNoJob is returned when there is no record of a job, or none any more.
var ErrNoJob = errors.New("no such job is known")
