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

// log holds the newest entries of a log. The position of an entry is when the store was made and the entry's number, from 1: a
// position of an earlier process is recognised.
type log struct {
	mu      run.Mutex
	entries []store.LogEntry
	last    int // the number of the last entry
}

func newLog() *log { return &log{mu: run.NewMutex("memstore_logs")} }

// logPrefix begins the positions of this store.
func (s *Store) logPrefix() string { return strconv.FormatInt(s.base.UnixMilli(), 10) }

// AppendLog implements store.Logs.
func (s *Store) AppendLog(ctx context.Context, name store.Log, entries [][]byte) error {
	l := s.logs[name]
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, body := range entries {
		l.last++
		l.entries = append(l.entries, store.LogEntry{ID: s.logPrefix() + "-" + strconv.Itoa(l.last), Body: slices.Clone(body)})
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

// ReadLog implements store.Logs. The bodies are not changed by anybody.
func (s *Store) ReadLog(_ context.Context, name store.Log, p store.ReadLogParams) (store.LogPage, error) {
	l, prefix := s.logs[name], s.logPrefix()
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.entries[max(0, len(l.entries)-store.MaxLogEntries):]
	first := l.last - len(kept) // the number before the first entry that is kept
	if p.After == "" {
		if p.Before != "" {
			before, err := parsePosition(p.Before, prefix)
			if err != nil {
				return store.LogPage{}, err
			}
			kept = kept[:min(max(0, before-1-first), len(kept))]
		}
		return store.LogPage{Entries: slices.Clone(kept[max(0, len(kept)-p.Limit):])}, nil
	}
	after, err := parsePosition(p.After, prefix)
	if err != nil {
		return store.LogPage{}, err
	}
	from := min(max(0, after-first), len(kept))
	return store.LogPage{Entries: slices.Clone(kept[from:min(len(kept), from+p.Limit)]), Gap: after < first}, nil
}
