package journal

import (
	"context"
	"encoding/json"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// Log is a log in a store, with entries of one type. The store has them as JSON.
type Log[T any] struct {
	store store.Logs
	name  store.Log
	setID func(*T, string) // sets the position of an entry
}

// EventLog is the log of what happens to the fleet.
func EventLog(s store.Logs) Log[store.Event] {
	return Log[store.Event]{s, store.EventLog, func(e *store.Event, id string) { e.ID = id }}
}

// AuditLog is the log of who changed what, and of denials.
func AuditLog(s store.Logs) Log[store.AuditEntry] {
	return Log[store.AuditEntry]{s, store.AuditLog, func(e *store.AuditEntry, id string) { e.ID = id }}
}

// Page is a part of a log.
type Page[T any] struct {
	Entries []T
	// Gap says that entries after the given position may have been dropped before they could be read.
	Gap bool
}

// Append appends entries in their order. After an error the log may have them nevertheless.
func (l Log[T]) Append(ctx context.Context, entries []T) error {
	bodies := make([][]byte, len(entries))
	for i := range entries {
		var err error
		if bodies[i], err = json.Marshal(&entries[i]); err != nil {
			return err
		}
	}
	return l.store.AppendLog(ctx, l.name, bodies)
}

// Read reads a part of the log. Entries that another version has written, and that this one cannot read, are left out.
func (l Log[T]) Read(ctx context.Context, p store.ReadLogParams) (Page[T], error) {
	stored, err := l.store.ReadLog(ctx, l.name, p)
	page := Page[T]{Entries: make([]T, 0, len(stored.Entries)), Gap: stored.Gap}
	for _, s := range stored.Entries {
		var e T
		if json.Unmarshal(s.Body, &e) == nil {
			l.setID(&e, s.ID)
			page.Entries = append(page.Entries, e)
		}
	}
	return page, err
}
