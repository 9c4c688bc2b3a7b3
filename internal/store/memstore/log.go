package memstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// logOf holds the newest entries of a log. The position of an entry is when the store was made and the entry's number, from 1: a
// position of an earlier process is recognised.
type logOf[T any] struct {
	mu      run.Mutex
	entries []T
	last    int // the number of the last entry
}

func newLog[T any]() logOf[T] { return logOf[T]{mu: run.NewMutex("memstore_logs")} }

// logPrefix begins the positions of this store.
func (s *Store) logPrefix() string { return strconv.FormatInt(s.base.UnixMilli(), 10) }

// appendLog appends entries to a log. setID sets the position of an entry.
func appendLog[T any](ctx context.Context, l *logOf[T], prefix string, entries []T, setID func(*T, string)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, e := range entries {
		l.last++
		setID(&e, prefix+"-"+strconv.Itoa(l.last))
		l.entries = append(l.entries, e)
	}
	if len(l.entries) > 2*store.MaxLogEntries { // drop many at a time: each drop copies the rest
		l.entries = slices.Clone(l.entries[len(l.entries)-store.MaxLogEntries:])
	}
	return nil
}

// parsePosition returns the number of the entry at a position; -1 for a position of an earlier process.
func parsePosition(position, prefix string) (int, error) {
	made, number, _ := strings.Cut(position, "-")
	_, errMade := strconv.ParseUint(made, 10, 64)
	n, err := strconv.Atoi(number)
	if errMade != nil || err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %q", store.ErrBadPosition, position)
	}
	if made != prefix {
		return -1, nil
	}
	return n, nil
}

// readLog reads a part of a log.
func readLog[T any](l *logOf[T], prefix string, p store.ReadLogParams) (store.LogPage[T], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.entries[max(0, len(l.entries)-store.MaxLogEntries):]
	first := l.last - len(kept) // the number before the first entry that is kept
	if p.After == "" {
		if p.Before != "" {
			before, err := parsePosition(p.Before, prefix)
			if err != nil {
				return store.LogPage[T]{}, err
			}
			kept = kept[:min(max(0, before-1-first), len(kept))]
		}
		return store.LogPage[T]{Entries: slices.Clone(kept[max(0, len(kept)-p.Limit):])}, nil
	}
	after, err := parsePosition(p.After, prefix)
	if err != nil {
		return store.LogPage[T]{}, err
	}
	from := min(max(0, after-first), len(kept))
	return store.LogPage[T]{Entries: slices.Clone(kept[from:min(len(kept), from+p.Limit)]), Gap: after < first}, nil
}

// AppendEvents implements store.Events.
func (s *Store) AppendEvents(ctx context.Context, events []store.Event) error {
	return appendLog(ctx, &s.events, s.logPrefix(), events, func(e *store.Event, id string) { e.ID = id })
}

// ReadEvents implements store.Events.
func (s *Store) ReadEvents(_ context.Context, p store.ReadLogParams) (store.LogPage[store.Event], error) {
	return readLog(&s.events, s.logPrefix(), p)
}

// AppendAudit implements store.Audit.
func (s *Store) AppendAudit(ctx context.Context, entries []store.AuditEntry) error {
	return appendLog(ctx, &s.audit, s.logPrefix(), entries, func(e *store.AuditEntry, id string) { e.ID = id })
}

// ReadAudit implements store.Audit.
func (s *Store) ReadAudit(_ context.Context, p store.ReadLogParams) (store.LogPage[store.AuditEntry], error) {
	return readLog(&s.audit, s.logPrefix(), p)
}
