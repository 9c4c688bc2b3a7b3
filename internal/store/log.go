package store

import "context"

// MaxLogEntries is how many entries a log keeps, about: the oldest are dropped first.
const MaxLogEntries = 10_000

// Log names a log. Its name is a part of its key.
type Log string

// The logs.
const (
	EventLog Log = "events" // what happened to the fleet, as Event
	AuditLog Log = "audit"  // who changed what, and denials, as AuditEntry
)

// Logs are logs of entries that all instances read. Old entries are dropped. Package journal encodes and decodes them.
type Logs interface {
	// AppendLog appends entries in their order. After a lost reply the caller repeats the call, and the log may have them twice.
	AppendLog(ctx context.Context, log Log, entries [][]byte) error
	// ReadLog reads entries in the order of the log.
	ReadLog(ctx context.Context, log Log, p ReadLogParams) (LogPage, error)
}

// ReadLogParams describes a part of a log.
type ReadLogParams struct {
	After string // the entries after this position; empty: the newest ones
	// Before limits the newest entries to those before this position; empty: it does not. It is not used together with After.
	Before string
	Limit  int
}

// LogEntry is an entry of a log.
type LogEntry struct {
	ID   string // its position in the log, which the store decides; opaque
	Body []byte
}

// LogPage is a part of a log.
type LogPage struct {
	Entries []LogEntry
	// Gap says that entries after the given position may have been dropped before they could be read.
	Gap bool
}
