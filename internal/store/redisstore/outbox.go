package redisstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Append implements store.Outbox.
func (s *Store) Append(ctx context.Context, p store.AppendParams) (store.Appended, error) {
	out, waiting := s.keys.outbox(p.Session)
	_, r, err := s.line.run(ctx, &scriptAppend, []string{out, waiting, s.keys.session(p.Session.SessionKey)},
		string(p.Session.Incarnation), strconv.FormatInt(p.Index, 10), string(p.Body), millis(p.Keep), strconv.FormatInt(p.MaxBytes, 10),
		strconv.FormatInt(p.By.Epoch, 10), string(p.By.Owner))
	if err != nil {
		return store.Appended{}, err
	}
	return store.Appended{Refused: r.int(0) == 0, Exists: r.int(0) == 2, Seq: r.int(1), Owner: core.InstanceID(r.text(2))}, nil
}

// Read implements store.Outbox.
func (s *Store) Read(ctx context.Context, p store.ReadParams) ([]store.OutboxMessage, error) {
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
	messages := make([]store.OutboxMessage, 0, len(entries))
	for _, e := range entries {
		seq, _ := parts(e.ID)
		messages = append(messages, store.OutboxMessage{Seq: int64(seq), Index: int64(seq) - 1, Body: []byte(e.FieldValues["b"])})
	}
	return messages, nil
}

// Early implements store.Outbox.
func (s *Store) Waiting(ctx context.Context, session core.SessionRef) ([]int64, error) {
	_, waiting := s.keys.outbox(session)
	m, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Hkeys().Key(waiting).Build())
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	names, err := m.AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	indexes := make([]int64, 0, len(names))
	for _, name := range names {
		if i, err := strconv.ParseInt(name, 10, 64); err == nil {
			indexes = append(indexes, i)
		}
	}
	slices.Sort(indexes)
	return indexes, nil
}
