package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// A session's state is a value under a name, kept for a while, as a snapshot is; no name of a snapshot begins so.
func stateName(id core.SessionID) string { return "session\x00" + string(id) }

// SaveSession implements store.Sessions.
func (s *Store) SaveSession(ctx context.Context, p store.SaveParams) error {
	return s.SaveSnapshot(ctx, store.SnapshotParams{Name: stateName(p.Session), Body: p.Body, TTL: p.Keep})
}

// LoadSession implements store.Sessions.
func (s *Store) LoadSession(ctx context.Context, id core.SessionID) ([]byte, error) {
	return s.LoadSnapshot(ctx, stateName(id))
}
