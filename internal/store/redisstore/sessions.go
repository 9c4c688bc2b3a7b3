package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// SaveSession implements store.Sessions.
func (s *Store) SaveSession(ctx context.Context, p store.SaveParams) error {
	if err := s.put(ctx, s.keys.session(p.Session), p.Body, p.Keep); err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	return nil
}

// LoadSession implements store.Sessions.
func (s *Store) LoadSession(ctx context.Context, id core.SessionID) ([]byte, error) {
	return s.value(ctx, s.keys.session(id))
}

// put writes a value for a while.
func (s *Store) put(ctx context.Context, key string, body []byte, keep time.Duration) error {
	_, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Set().Key(key).Value(string(body)).Px(keep).Build())
	return err
}

// value reads one; nil when there is none.
func (s *Store) value(ctx context.Context, key string) ([]byte, error) {
	m, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Get().Key(key).Build())
	if err != nil || m.IsNil() {
		return nil, err
	}
	text, err := m.ToString()
	return []byte(text), err
}
