package redisstore

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// Append implements store.Outbox.
func (s *Store) Append(ctx context.Context, p store.AppendParams) (int64, error) {
	out, waiting := s.keys.outbox(p.Session)
	_, r, err := s.line.run(ctx, &scriptAppend, []string{out, waiting}, strconv.FormatInt(p.Index, 10), string(p.Body), millis(p.Keep))
	if err != nil {
		return 0, err
	}
	return r.int(0), nil
}

// Read implements store.Outbox.
func (s *Store) Read(ctx context.Context, p store.ReadParams) ([]store.Message, error) {
	out, _ := s.keys.outbox(p.Session)
	limit := int64(p.Limit)
	if limit <= 0 {
		limit = math.MaxInt32
	}
	after := "(" + strconv.FormatInt(max(p.After, 0), 10) + "-0"
	m, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Xrange().Key(out).Start(after).End("+").Count(limit).Build())
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	entries, err := m.AsXRange()
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	messages := make([]store.Message, len(entries))
	for i, e := range entries {
		seq, _ := parts(e.ID)
		messages[i] = store.Message{Seq: int64(seq), Index: int64(seq) - 1, Body: []byte(e.FieldValues["b"])}
	}
	return messages, nil
}
