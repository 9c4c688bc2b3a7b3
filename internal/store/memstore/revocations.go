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

// PutRevocations implements store.Revocations.
func (s *Store) PutRevocations(ctx context.Context, p store.PutRevocationsParams) (put []store.Revocation, err error) {
	l := &s.revocations
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := s.now()
	wall := s.wallClock(now)
	for _, r := range p.Entries {
		if isNew := r.At.IsZero(); isNew {
			r = l.date(r, &p, wall)
			s.watchers.publish(store.Change{Revoked: true})
		}
		if old, ok := l.entries[r.RevocationTarget]; !r.Expired(wall) && (!ok || r.At.After(old.At)) {
			l.put(r, now, wall)
			put = append(put, r)
		}
	}
	return put, nil
}

// date sets the times of a new entry, which is later than all others. The caller holds the lock.
func (l *revocations) date(r store.Revocation, p *store.PutRevocationsParams, wall time.Time) store.Revocation {
	r.At, r.Until = wall, time.Time{}
	if p.Keep > 0 {
		r.Until = r.At.Add(p.Keep).Truncate(time.Millisecond)
	}
	for _, earlier := range []time.Time{l.last, p.After} {
		if !r.At.After(earlier) {
			r.At = earlier.Add(time.Microsecond)
		}
	}
	return r
}

// revocationVersion returns the version of the list. The caller holds the lock.
func (s *Store) revocationVersion() string {
	if s.revocations.changes == 0 {
		return ""
	}
	return strconv.Itoa(s.revocations.changes)
}

// ReadRevocations implements store.Revocations.
func (s *Store) ReadRevocations(_ context.Context, after time.Time, known *string) (store.RevocationPage, error) {
	l := &s.revocations
	l.mu.Lock()
	defer l.mu.Unlock()
	page := store.RevocationPage{Version: s.revocationVersion(), Now: s.wallClock(s.now())}
	if known != nil && *known == page.Version {
		return page, nil
	}
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
