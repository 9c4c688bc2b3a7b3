package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// SaveCounts implements store.Stats.
func (s *Store) SaveCounts(ctx context.Context, p store.CountsParams) error {
	if err := s.setValue(ctx, s.keys.counts(p.ID), p.Body, p.TTL); err != nil {
		return fmt.Errorf("save counts: %w", err)
	}
	return nil
}

// Counts implements store.Stats.
func (s *Store) Counts(ctx context.Context, ids ...core.InstanceID) ([][]byte, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = s.keys.counts(id)
	}
	bodies, err := s.getValues(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("counts: %w", err)
	}
	return bodies, nil
}

// SaveSnapshot implements store.Stats.
func (s *Store) SaveSnapshot(ctx context.Context, p store.SnapshotParams) (bool, error) {
	_, r, err := s.client.runScript(ctx, &scriptSaveSnapshot, []string{s.keys.snapshot()}, strconv.FormatInt(p.Fence, 10), string(p.Body),
		millis(p.TTL))
	if err != nil {
		return false, err
	}
	return r.int(0) == 1, nil
}

// LoadSnapshot implements store.Stats.
func (s *Store) LoadSnapshot(ctx context.Context, known store.SnapshotID) (store.Snapshot, error) {
	if known != (store.SnapshotID{}) {
		if snap, err := s.readSnapshot(ctx, "fence", "published"); err != nil || snap.SnapshotID == known {
			return snap, err
		}
	}
	return s.readSnapshot(ctx, "fence", "published", "body")
}

// snapshotShape is the shape of what readSnapshot reads.
var snapshotShape = shapeOf("?i?i|?t")

// readSnapshot reads fields of the snapshot: fence, time of publication and perhaps the body.
func (s *Store) readSnapshot(ctx context.Context, fields ...string) (store.Snapshot, error) {
	key := s.keys.snapshot()
	m, err := s.client.command(ctx, s.client.redis.B().Hmget().Key(key).Field(fields...).Build())
	if err != nil {
		return store.Snapshot{}, fmt.Errorf("load snapshot: %w", err)
	}
	parts, err := m.ToArray()
	if err != nil || !snapshotShape.fits(parts) {
		return store.Snapshot{}, fmt.Errorf("load snapshot: %w", s.client.malformed(key))
	}
	r := reply{parts: parts}
	if r.isNil(0) {
		return store.Snapshot{}, nil
	}
	snap := store.Snapshot{SnapshotID: store.SnapshotID{Fence: r.int(0), Published: r.int(1)}}
	now := s.client.clocks.serverTime(s.client.slotOf(key))
	snap.Age = max(0, time.Duration(now-snap.Published)*time.Millisecond)
	if len(parts) > 2 {
		snap.Body = []byte(r.text(2))
	}
	return snap, nil
}

// partPrefix begins the fields of the history's hash that are parts of it.
const partPrefix = "part:"

// SaveHistory implements store.Stats.
func (s *Store) SaveHistory(ctx context.Context, p store.HistoryParams) (bool, error) {
	args := []string{strconv.FormatInt(p.Fence, 10), millis(p.TTL)}
	for name, body := range p.Parts {
		args = append(args, partPrefix+name, string(body))
	}
	_, r, err := s.client.runScript(ctx, &scriptSaveHistory, []string{s.keys.history()}, args...)
	if err != nil {
		return false, err
	}
	return r.int(0) == 1, nil
}

// LoadHistory implements store.Stats.
func (s *Store) LoadHistory(ctx context.Context) (map[string][]byte, error) {
	m, err := s.client.command(ctx, s.client.redis.B().Hgetall().Key(s.keys.history()).Build())
	if isWrongType(err) {
		return nil, nil // it is lost; the next one that is saved replaces the key
	}
	if err != nil {
		return nil, fmt.Errorf("load history: %w", err)
	}
	fields, err := m.AsStrMap()
	if err != nil {
		return nil, fmt.Errorf("load history: %w", err)
	}
	parts := make(map[string][]byte, len(fields))
	for field, body := range fields {
		if name, ok := strings.CutPrefix(field, partPrefix); ok {
			parts[name] = []byte(body)
		}
	}
	return parts, nil
}
