package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// SaveSession implements store.Sessions.
func (s *Store) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	out, waiting := s.keys.outbox(p.Session)
	_, r, err := s.client.runScript(ctx, &scriptSave, []string{s.keys.session(p.Session.SessionKey), out, waiting},
		strconv.FormatInt(p.Epoch, 10), string(p.Session.Incarnation), string(p.Owner), flag(p.TakeOver), string(p.Body), millis(p.Keep),
		strconv.FormatInt(p.Known, 10), strconv.FormatInt(p.Acked, 10), string(p.Expected))
	if err != nil {
		return false, err
	}
	return r.int(0) == 1, nil
}

// LoadSession implements store.Sessions. The first line of a state is the epoch, the incarnation and the owner.
func (s *Store) LoadSession(ctx context.Context, key core.SessionKey) (store.SessionState, error) {
	text, err := s.getValue(ctx, s.keys.session(key))
	if err != nil || text == nil {
		return store.SessionState{}, err
	}
	head, body, _ := bytes.Cut(text, []byte("\n"))
	epoch, rest, _ := strings.Cut(string(head), " ")
	incarnation, owner, _ := strings.Cut(rest, " ")
	st := store.SessionState{Incarnation: core.SessionIncarnation(incarnation), Body: body}
	st.Owner = core.InstanceID(owner)
	if st.Epoch, err = strconv.ParseInt(epoch, 10, 64); err != nil {
		return store.SessionState{}, fmt.Errorf("load session: %w", s.client.malformed(s.keys.session(key)))
	}
	return st, nil
}

// Append implements store.Outbox.
func (s *Store) Append(ctx context.Context, p store.AppendParams) (store.Appended, error) {
	out, waiting := s.keys.outbox(p.Session)
	_, r, err := s.client.runScript(ctx, &scriptAppend, []string{out, waiting, s.keys.session(p.Session.SessionKey)},
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
	m, err := s.client.command(ctx, s.client.redis.B().Xrange().Key(out).Start(after).End("+").Count(limit).Build())
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	entries, err := m.AsXRange()
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	messages := make([]store.OutboxMessage, 0, len(entries))
	for _, e := range entries {
		seq, _ := parseEntryID(e.ID)
		messages = append(messages, store.OutboxMessage{Seq: int64(seq), Index: int64(seq) - 1, Body: []byte(e.FieldValues["b"])})
	}
	return messages, nil
}

// Waiting implements store.Outbox.
func (s *Store) Waiting(ctx context.Context, session core.SessionRef) ([]int64, error) {
	_, waiting := s.keys.outbox(session)
	m, err := s.client.command(ctx, s.client.redis.B().Hkeys().Key(waiting).Build())
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
