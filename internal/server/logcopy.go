package server

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// logCopy is this instance's copy of a log, for reads of the whole: those that look for entries. A read gets what was added since the last
// one, so that it costs about the same however many entries there are; the first one reads the log. Other reads go to the store.
type logCopy[T any] struct {
	read func(context.Context, store.ReadLogParams) (journal.Page[T], error)
	id   func(*T) string

	turn    chan struct{} // holds an element while the copy is brought up to date; guards entries
	entries []T           // the oldest first; never changed, only replaced and appended to
}

func newAuditCopy(log journal.Log[store.AuditEntry]) *logCopy[store.AuditEntry] {
	return newLogCopy(log.Read, func(e *store.AuditEntry) string { return e.ID })
}

func newEventCopy(log journal.Log[store.Event]) *logCopy[store.Event] {
	return newLogCopy(log.Read, func(e *store.Event) string { return e.ID })
}

func newLogCopy[T any](read func(context.Context, store.ReadLogParams) (journal.Page[T], error), id func(*T) string) *logCopy[T] {
	return &logCopy[T]{read: read, id: id, turn: make(chan struct{}, 1)}
}

// page reads a part of the log as the store does.
func (l *logCopy[T]) page(ctx context.Context, p store.ReadLogParams) (journal.Page[T], error) {
	if p.Limit < store.MaxLogEntries {
		return l.read(ctx, p)
	}
	entries, err := l.update(ctx)
	switch {
	case err != nil:
		return journal.Page[T]{}, err
	case p.After != "":
		from, gap, err := l.find(ctx, entries, p.After, store.ReadLogParams{After: p.After, Limit: 1})
		if err != nil || from < 0 {
			return journal.Page[T]{Gap: gap}, err
		}
		return journal.Page[T]{Entries: entries[from:], Gap: gap}, nil
	case p.Before != "":
		last, _, err := l.find(ctx, entries, p.Before, store.ReadLogParams{Before: p.Before, Limit: 1})
		return journal.Page[T]{Entries: entries[:last+1]}, err
	}
	return journal.Page[T]{Entries: entries}, nil
}

// A search pauses after so many entries: with every processor busy, the answers that dispatches wait for are noticed only when one is not.
const (
	searchStep  = 1000
	searchPause = 50 * time.Microsecond
)

// search iterates over entries of a log.
func search[T any](ctx context.Context, entries []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range entries {
			if i%searchStep == searchStep-1 {
				if !run.Sleep(ctx, searchPause) {
					return
				}
			}
			if !yield(&entries[i]) {
				return
			}
		}
	}
}

// find returns the index of the entry that is next to a position, which p asks the store for if the copy does not have it; -1: there is
// none.
func (l *logCopy[T]) find(ctx context.Context, entries []T, position string, p store.ReadLogParams) (at int, gap bool, err error) {
	if at = l.index(entries, position); at >= 0 && p.Before != "" {
		return at - 1, false, nil
	}
	if at >= 0 && at+1 < len(entries) {
		return at + 1, false, nil
	}
	page, err := l.read(ctx, p)
	if err != nil || len(page.Entries) == 0 {
		return -1, page.Gap, err
	}
	return l.index(entries, l.id(&page.Entries[0])), page.Gap, nil
}

func (l *logCopy[T]) index(entries []T, id string) int {
	for i := range slices.Backward(entries) {
		if l.id(&entries[i]) == id {
			return i
		}
	}
	return -1
}

// update reads what was added to the log since the last time, and returns all entries.
func (l *logCopy[T]) update(ctx context.Context) ([]T, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	for len(l.entries) > 0 {
		page, err := l.read(ctx, store.ReadLogParams{After: l.id(&l.entries[len(l.entries)-1]), Limit: maxEvents})
		if err != nil {
			return nil, err
		}
		if page.Gap { // the store was emptied, or more was added than it keeps
			break
		}
		l.entries = append(l.entries, page.Entries...)
		if over := len(l.entries) - store.MaxLogEntries; over > 0 {
			l.entries = l.entries[over:]
		}
		if len(page.Entries) < maxEvents {
			return l.entries, nil
		}
	}
	all, err := l.readAll(ctx)
	if err == nil {
		l.entries = all
	}
	return all, err
}

// readAll reads the log from its end, in parts: other calls of the store wait for each.
func (l *logCopy[T]) readAll(ctx context.Context) (all []T, err error) {
	for p := (store.ReadLogParams{Limit: maxEvents}); len(all) < store.MaxLogEntries; {
		page, err := l.read(ctx, p)
		if err != nil || len(page.Entries) == 0 {
			return all, err
		}
		all = append(page.Entries[:len(page.Entries):len(page.Entries)], all...)
		p.Before = l.id(&all[0])
	}
	return all, nil
}
