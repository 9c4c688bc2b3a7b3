package store

import (
	"context"
	"time"
)

// Values holds what instances share as a whole: statistics, settings, and the like. A value has parts, which are written together.
type Values interface {
	// ReadValues reads values, in the order of the queries.
	ReadValues(ctx context.Context, queries ...ValueQuery) ([]Value, error)
	// WriteValue writes parts of a value in one step, if its conditions hold, and reports whether the value has them. The other parts
	// stay. A call that finds its parts in place has been repeated, and only renews the TTL. Without parts and fence it writes nothing.
	WriteValue(ctx context.Context, p WriteValueParams) (bool, error)
}

// ValueKind is what a value is about.
type ValueKind uint8

// The kinds of values. Those without a version have one part, BodyPart.
const (
	CountsValue   ValueKind = iota + 1 // what an instance has counted, by its id; it has no version
	SnapshotValue                      // the statistics of the fleet
	HistoryValue                       // what the leader of the statistics remembers
	SettingValue                       // a setting on which all instances agree, by its name
	LastNodeValue                      // the node of the last job of a session that HTTP requests use, by its key; it has no version
)

// BodyPart is the name of the part of a value that has no other.
const BodyPart = "body"

// ValueKey names a value.
type ValueKey struct {
	Kind ValueKind
	Name string // among those of its kind
}

// ValueQuery asks for a value.
type ValueQuery struct {
	Key   ValueKey
	Known string // the version that the caller has: its parts are not read; empty: none
}

// Value is a value as it was read. Its parts must not be changed.
type Value struct {
	// Version differs after every write, also in a store that was emptied, unless the same author has written twice within a millisecond.
	// It is empty if there is no value, or it has expired.
	Version string
	Parts   map[string][]byte // nil if there are none, or the version is the known one
	Age     time.Duration     // since the last write; 0 without a version
}

// WriteValueParams describes a write of a value.
type WriteValueParams struct {
	Key   ValueKey
	Parts map[string][]byte // by names other than fence and published
	TTL   time.Duration     // of the whole value, from now; 0: it does not expire
	// Fence is that of the lock that the caller holds: the value is not written if it was with a higher one; 0: none.
	Fence int64
	// Replaces is the version without which the value is not written, empty if there must be none; nil: any.
	Replaces *string
	// Announce makes all instances that watch the fleet read a setting: they get a Change with its name, unless it was not written. An
	// announcement that is lost is not repeated.
	Announce bool
}

// ReadValue reads one value.
func ReadValue(ctx context.Context, values Values, q ValueQuery) (Value, error) {
	read, err := values.ReadValues(ctx, q)
	if err != nil {
		return Value{}, err
	}
	return read[0], nil
}
