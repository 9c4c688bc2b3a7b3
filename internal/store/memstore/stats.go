package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// stats holds the counts of instances, the snapshot and the history.
type stats struct {
	mu       run.Mutex
	counts   map[core.InstanceID]value
	snapshot fenced
	history  fenced
	parts    map[string][]byte // of the history
}

// value is a value that expires.
type value struct {
	body    []byte
	expires moment
}

// fenced is a value that only its author or a later one replaces.
type fenced struct {
	value
	fence int64
	at    moment
}

// replace replaces the value, unless it is alive and has a higher fence.
func (f *fenced) replace(fence int64, body []byte, now moment, ttl time.Duration) bool {
	if !expired(f.expires, now) && f.fence > fence {
		return false
	}
	*f = fenced{value: value{body: slices.Clone(body), expires: now.add(ttl)}, fence: fence, at: now}
	return true
}

// SaveCounts implements store.Stats.
func (s *Store) SaveCounts(ctx context.Context, p store.CountsParams) error {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	now := s.now()
	for id, v := range s.stats.counts {
		if expired(v.expires, now) {
			delete(s.stats.counts, id)
		}
	}
	s.stats.counts[p.ID] = value{body: slices.Clone(p.Body), expires: now.add(p.TTL)}
	return nil
}

// Counts implements store.Stats.
func (s *Store) Counts(_ context.Context, ids ...core.InstanceID) ([][]byte, error) {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	bodies := make([][]byte, len(ids))
	for i, id := range ids {
		if v, ok := s.stats.counts[id]; ok && !expired(v.expires, s.now()) {
			bodies[i] = slices.Clone(v.body)
		}
	}
	return bodies, nil
}

// SaveSnapshot implements store.Stats.
func (s *Store) SaveSnapshot(ctx context.Context, p store.SnapshotParams) (bool, error) {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return s.stats.snapshot.replace(p.Fence, p.Body, s.now(), p.TTL), nil
}

// LoadSnapshot implements store.Stats.
func (s *Store) LoadSnapshot(_ context.Context, known store.SnapshotID) (store.Snapshot, error) {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	snap, now := &s.stats.snapshot, s.now()
	if expired(snap.expires, now) {
		return store.Snapshot{}, nil
	}
	id := store.SnapshotID{Fence: snap.fence, Published: s.time(snap.at).UnixMilli()}
	loaded := store.Snapshot{SnapshotID: id, Age: now.since(snap.at)}
	if id != known {
		loaded.Body = slices.Clone(snap.body)
	}
	return loaded, nil
}

// SaveHistory implements store.Stats.
func (s *Store) SaveHistory(ctx context.Context, p store.HistoryParams) (bool, error) {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now := s.now()
	if expired(s.stats.history.expires, now) {
		clear(s.stats.parts)
	}
	if !s.stats.history.replace(p.Fence, nil, now, p.TTL) {
		return false, nil
	}
	for name, body := range p.Parts {
		s.stats.parts[name] = slices.Clone(body)
	}
	return true, nil
}

// LoadHistory implements store.Stats.
func (s *Store) LoadHistory(context.Context) (map[string][]byte, error) {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	parts := make(map[string][]byte)
	if !expired(s.stats.history.expires, s.now()) {
		for name, body := range s.stats.parts {
			parts[name] = slices.Clone(body)
		}
	}
	return parts, nil
}
