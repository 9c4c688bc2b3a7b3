package memstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// eventLog holds the newest events. The position of an event is when the store was made and the event's number, from 1: a position
// of an earlier process is recognised.
type eventLog struct {
	mu     sync.Mutex
	events []store.Event
	last   int // the number of the last event
}

// eventPrefix begins the positions of this store.
func (s *Store) eventPrefix() string { return strconv.FormatInt(s.base.UnixMilli(), 10) }

// AppendEvents implements store.Events.
func (s *Store) AppendEvents(ctx context.Context, events []store.Event) error {
	l := &s.events
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, e := range events {
		l.last++
		e.ID = s.eventPrefix() + "-" + strconv.Itoa(l.last)
		l.events = append(l.events, e)
	}
	if len(l.events) > 2*store.MaxEvents { // drop many at a time: each drop copies the rest
		l.events = slices.Clone(l.events[len(l.events)-store.MaxEvents:])
	}
	return nil
}

// ReadEvents implements store.Events.
func (s *Store) ReadEvents(_ context.Context, p store.ReadEventsParams) (store.EventPage, error) {
	l := &s.events
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.events[max(0, len(l.events)-store.MaxEvents):]
	if p.After == "" {
		return store.EventPage{Events: slices.Clone(kept[max(0, len(kept)-p.Limit):])}, nil
	}
	made, number, _ := strings.Cut(p.After, "-")
	_, errMade := strconv.ParseUint(made, 10, 64)
	after, err := strconv.Atoi(number)
	if errMade != nil || err != nil || after < 0 {
		return store.EventPage{}, fmt.Errorf("%w: %q", store.ErrBadPosition, p.After)
	}
	if made != s.eventPrefix() {
		after = -1 // a position of an earlier process
	}
	first := l.last - len(kept) // the number before the first event that is kept
	from := min(max(0, after-first), len(kept))
	return store.EventPage{Events: slices.Clone(kept[from:min(len(kept), from+p.Limit)]), Gap: after < first}, nil
}
