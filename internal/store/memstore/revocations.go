package memstore

import (
	"context"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// revocations is the list of revocations.
type revocations struct {
	mu      run.Mutex
	entries map[store.RevocationTarget]store.Revocation
	last    time.Time // of the latest entry
	changes int       // numbers the versions
	sweeper sweeper
}

// put replaces the entry of a target, and drops entries that have expired. The caller holds the lock.
func (l *revocations) put(r store.Revocation, now moment, wall time.Time) {
	l.entries[r.RevocationTarget] = r
	l.changes++
	if r.At.After(l.last) {
		l.last = r.At
	}
	l.sweeper.sweep(now, func() {
		for target, old := range l.entries {
			if old.Expired(wall) {
				delete(l.entries, target)
			}
		}
	})
}

// wallClock returns the store's time in microseconds, the precision of the times of revocations.
func (s *Store) wallClock(now moment) time.Time { return s.time(now).UTC().Truncate(time.Microsecond) }

// AddRevocation implements store.Revocations.
func (s *Store) AddRevocation(ctx context.Context, p store.AddRevocationParams) (store.Revocation, error) {
	l := &s.revocations
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Revocation{}, err
	}
	now := s.now()
	r := p.Revocation
	r.At, r.Until = s.wallClock(now), time.Time{}
	if p.Keep > 0 {
		r.Until = r.At.Add(p.Keep).Truncate(time.Millisecond)
	}
	for _, earlier := range []time.Time{l.last, p.After} {
		if !r.At.After(earlier) {
			r.At = earlier.Add(time.Microsecond)
		}
	}
	l.put(r, now, s.wallClock(now))
	s.watchers.publish(store.Change{Revoked: true})
	return r, nil
}

// RestoreRevocations implements store.Revocations.
func (s *Store) RestoreRevocations(ctx context.Context, entries []store.Revocation) error {
	l := &s.revocations
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	now := s.now()
	wall := s.wallClock(now)
	for _, r := range entries {
		if old, ok := l.entries[r.RevocationTarget]; !r.Expired(wall) && (!ok || r.At.After(old.At)) {
			l.put(r, now, wall)
		}
	}
	return nil
}

// revocationVersion returns the version of the list. The caller holds the lock.
func (s *Store) revocationVersion() string {
	if s.revocations.changes == 0 {
		return ""
	}
	return strconv.Itoa(s.revocations.changes)
}

// RevocationVersion implements store.Revocations.
func (s *Store) RevocationVersion(context.Context) (string, error) {
	s.revocations.mu.Lock()
	defer s.revocations.mu.Unlock()
	return s.revocationVersion(), nil
}

// ReadRevocations implements store.Revocations.
func (s *Store) ReadRevocations(_ context.Context, after time.Time) (store.RevocationPage, error) {
	l := &s.revocations
	l.mu.Lock()
	defer l.mu.Unlock()
	page := store.RevocationPage{Version: s.revocationVersion(), Now: s.wallClock(s.now())}
	for _, r := range l.entries {
		if r.Expired(page.Now) {
			continue
		}
		page.Count++
		if r.At.After(after) {
			page.Entries = append(page.Entries, r)
		}
	}
	return page, nil
}
