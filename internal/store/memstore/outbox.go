package memstore

import (
	"context"
	"maps"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// stream is the outbox of one incarnation of a session. Messages whose predecessors are missing are in waiting.
type stream struct {
	messages []store.OutboxMessage // those that are kept
	bytes    int64                 // of their bodies
	next     int64                 // the index of the next message
	acked    int64                 // the last position that the client has acknowledged
	waiting  map[int64][]byte
	expires  moment
}

// maxMessages is how many unacknowledged messages are kept.
const maxMessages = 1024

// stream returns the outbox of a session, nil when there is none or it has expired.
func (t *sessions) stream(session core.SessionRef, now moment) *stream {
	if st := t.streams[session]; st != nil && !expired(st.expires, now) {
		return st
	}
	return nil
}

// Append implements store.Outbox.
func (s *Store) Append(ctx context.Context, p store.AppendParams) (store.Appended, error) {
	t := &s.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Appended{}, err
	}
	now := s.now()
	t.sweep(now)
	st, current := t.stream(p.Session, now), t.state(p.Session.SessionKey, now)
	if st == nil {
		st = &stream{waiting: make(map[int64][]byte)}
	}
	if current.Epoch > 0 && current.Incarnation != p.Session.Incarnation {
		return store.Appended{Refused: true, Seq: st.next}, nil
	}
	if p.By.Epoch != 0 && (current.Epoch > p.By.Epoch || current.Epoch == p.By.Epoch && current.Ownership != p.By) {
		return store.Appended{Refused: true, Seq: st.next, Owner: current.Owner}, nil
	}
	t.streams[p.Session] = st
	st.expires = now.add(p.Keep)
	_, exists := st.waiting[p.Index]
	if exists = exists || p.Index < st.next; !exists {
		st.waiting[p.Index] = slices.Clone(p.Body)
	}
	before := st.next
	st.advance()
	st.bound(before, p.MaxBytes)
	return store.Appended{Seq: st.next, Exists: exists, Owner: current.Owner}, nil
}

// advance moves waiting messages into the stream until one is missing.
func (st *stream) advance() {
	for {
		body, ok := st.waiting[st.next]
		if !ok {
			return
		}
		delete(st.waiting, st.next)
		st.messages = append(st.messages, store.OutboxMessage{Seq: st.next + 1, Index: st.next, Body: body})
		st.bytes += int64(len(body))
		st.next++
	}
}

// bound drops the oldest messages while there are too many or they are too large. Those after the position before have just entered
// the stream, and stay.
func (st *stream) bound(before, maxBytes int64) {
	for st.next > before && st.messages[0].Seq <= before && (len(st.messages) > maxMessages || maxBytes > 0 && st.bytes > maxBytes) {
		st.drop()
	}
}

// dropThrough drops the messages up to a position.
func (st *stream) dropThrough(seq int64) {
	for len(st.messages) > 0 && st.messages[0].Seq <= seq {
		st.drop()
	}
}

// drop drops the oldest message.
func (st *stream) drop() {
	st.bytes -= int64(len(st.messages[0].Body))
	st.messages[0] = store.OutboxMessage{}
	st.messages = st.messages[1:]
}

// Read implements store.Outbox.
func (s *Store) Read(_ context.Context, p store.ReadParams) ([]store.OutboxMessage, error) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	st := s.sessions.stream(p.Session, s.now())
	if st == nil {
		return nil, nil
	}
	rest := st.messages
	for len(rest) > 0 && rest[0].Seq <= p.After {
		rest = rest[1:]
	}
	if p.Limit > 0 && len(rest) > p.Limit {
		rest = rest[:p.Limit]
	}
	return slices.Clone(rest), nil
}

// Waiting implements store.Outbox.
func (s *Store) Waiting(_ context.Context, session core.SessionRef) ([]int64, error) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	st := s.sessions.stream(session, s.now())
	if st == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(st.waiting)), nil
}
