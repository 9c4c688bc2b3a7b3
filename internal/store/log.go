package store

// MaxLogEntries is how many entries a log keeps, about: the oldest are dropped first.
const MaxLogEntries = 10_000

// ReadLogParams describes a part of a log.
type ReadLogParams struct {
	After string // the entries after this position; empty: the newest ones
	// Before limits the newest entries to those before this position; empty: it does not. It is not used together with After.
	Before string
	Limit  int
}

// LogPage is a part of a log.
type LogPage[T any] struct {
	Entries []T
	// Gap says that entries after the given position may have been dropped before they could be read.
	Gap bool
}
