package store

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrDown says that the store cannot be reached or did not answer in time. Nothing may be granted on a guess: the caller
	// refuses.
	ErrDown = errors.New("the shared store cannot be reached")
	// ErrBreakerOpen comes with ErrDown when the call was not sent to the store at all, because it failed several times just before.
	ErrBreakerOpen = errors.New("its last calls failed; it is tried again in a moment")
	// ErrNoNode says that a node is not registered.
	ErrNoNode = errors.New("no such node is registered")
	// ErrNameTaken says that another node is registered by this name and is present.
	ErrNameTaken = errors.New("a node of this name is registered and present")
	// ErrNoJob says that there is no record of a job, or that it has expired.
	ErrNoJob = errors.New("no such job is known")
	// ErrBadPosition says that a text is no position in a log.
	ErrBadPosition = errors.New("this is no position in the log")
)

// UnavailableError says why a store that answers cannot serve, in a sentence for operators that contains no secret. It comes with
// ErrDown.
type UnavailableError string

// Error implements error.
func (e UnavailableError) Error() string { return string(e) }

// Store is everything that an implementation offers. Callers depend on the one small interface that they need.
type Store interface {
	Nodes
	NodeReader
	Ledger
	LeaseReader
	Jobs
	Marks
	Outbox
	Sessions
	Logs
	Revocations
	Instances
	Inboxes
	AbandonedInboxes
	Board
	Values
	Waiting
	Clocks
	Tenants

	// Shared reports whether other instances may use the same store.
	Shared() bool
	// Ping returns nil if the store would accept a write now.
	Ping(ctx context.Context) error
	// Close releases the resources of the store. No other method may be called after it.
	Close() error
}

// Timing holds the durations by which a store judges. They are the same for every instance that shares the store.
type Timing struct {
	Presence    time.Duration // a node that was silent this long is absent; also the TTL of every lease
	ReservedTTL time.Duration // until a lease is this old, its job may still be on its way to the node
	Attempt     time.Duration // the maximum duration of one attempt
	Job         time.Duration // the maximum duration of a job
	Retention   time.Duration // how long the record of an ended job is kept
}

// Verdict is the answer to a reservation or a heartbeat.
type Verdict uint8

// The verdicts.
const (
	OK            Verdict = iota + 1
	Full                  // no slot is free
	NotReady              // the node's health, drain, connection, silence or hold forbids new work
	NoCapacity            // the node declares no slots at all
	StaleEpoch            // the node has registered again since
	StaleRevision         // the node's capabilities have changed since the choice was made
	TooLate               // the caller's deadline has passed, or a newer heartbeat came first
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

// Verdicts lists every verdict, for counters by verdict.
func Verdicts() []Verdict {
	return []Verdict{OK, Full, NotReady, NoCapacity, StaleEpoch, StaleRevision, TooLate, UnknownNode}
}
