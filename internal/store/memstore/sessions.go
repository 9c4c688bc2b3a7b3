package memstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// sessions holds what conversations have: their state by name, and the messages of each incarnation.
type sessions struct {
	mu      sync.Mutex
	streams map[core.SessionRef]*stream
	states  map[core.SessionKey]state
	sweeper sweeper
}

type state struct {
	store.SessionState
	expires moment
}

// sweep drops what has expired.
func (o *sessions) sweep(now moment) {
	o.sweeper.sweep(now, func() {
		for id, st := range o.streams {
			if expired(st.expires, now) {
				delete(o.streams, id)
			}
		}
		for id, st := range o.states {
			if expired(st.expires, now) {
				delete(o.states, id)
			}
		}
	})
}

// state is what is known of the session that has a name; the zero one when nothing is.
func (o *sessions) state(key core.SessionKey, now moment) store.SessionState {
	if st, ok := o.states[key]; ok && !expired(st.expires, now) {
		return st.SessionState
	}
	return store.SessionState{}
}

// SaveSession implements store.Sessions.
func (s *Store) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	o := &s.sessions
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now := s.now()
	o.sweep(now)
	was := o.state(p.Session.SessionKey, now)
	switch {
	case was.Epoch > 0 && was.Incarnation != p.Session.Incarnation:
		return false, nil
	case was.Ownership == p.Ownership && (!p.TakeOver || bytes.Equal(was.Body, p.Body)): // taken before, if the first reply was lost
	case p.TakeOver && was.Epoch == p.Epoch-1 && bytes.Equal(was.Body, p.Expected):
	case !p.TakeOver && was.Epoch < p.Epoch:
	default:
		return false, nil
	}
	st := o.stream(p.Session, now)
	if st == nil && p.Known > 0 {
		st = &stream{waiting: make(map[int64][]byte)}
		o.streams[p.Session] = st
	}
	if st != nil {
		st.expires, st.next, st.acked = now.add(p.Keep), max(st.next, p.Known), max(st.acked, p.Acked)
		st.advance()
		st.dropThrough(st.acked)
	}
	o.states[p.Session.SessionKey] = state{
		store.SessionState{Ownership: p.Ownership, Incarnation: p.Session.Incarnation, Body: slices.Clone(p.Body)}, now.add(p.Keep),
	}
	return true, nil
}

// LoadSession implements store.Sessions.
func (s *Store) LoadSession(_ context.Context, key core.SessionKey) (store.SessionState, error) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	return s.sessions.state(key, s.now()), nil
}

// stream is the messages of one incarnation of a session. Those whose predecessors are missing wait beside it.
type stream struct {
	messages []store.OutboxMessage // the last ones
	bytes    int64                 // of their bodies
	next     int64                 // the index of the next to come
	acked    int64                 // the last that the client has
	waiting  map[int64][]byte
	expires  moment
}

// maxMessages is how many messages are kept of those that the client does not acknowledge.
const maxMessages = 1024

// stream finds a session's; nil when there is none, or none any more.
func (o *sessions) stream(session core.SessionRef, now moment) *stream {
	if st := o.streams[session]; st != nil && !expired(st.expires, now) {
		return st
	}
	return nil
}

// Append implements store.Outbox.
func (s *Store) Append(ctx context.Context, p store.AppendParams) (store.Appended, error) {
	o := &s.sessions
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Appended{}, err
	}
	now := s.now()
	o.sweep(now)
	st, is := o.stream(p.Session, now), o.state(p.Session.SessionKey, now)
	if st == nil {
		st = &stream{waiting: make(map[int64][]byte)}
	}
	if is.Epoch > 0 && is.Incarnation != p.Session.Incarnation {
		return store.Appended{Refused: true, Seq: st.next}, nil
	}
	if p.By.Epoch != 0 && (is.Epoch > p.By.Epoch || is.Epoch == p.By.Epoch && is.Ownership != p.By) {
		return store.Appended{Refused: true, Seq: st.next, Owner: is.Owner}, nil
	}
	o.streams[p.Session] = st
	st.expires = now.add(p.Keep)
	_, there := st.waiting[p.Index]
	if there = there || p.Index < st.next; !there {
		st.waiting[p.Index] = slices.Clone(p.Body)
	}
	before := st.next
	st.advance()
	st.bound(before, p.MaxBytes)
	return store.Appended{Seq: st.next, Exists: there, Owner: is.Owner}, nil
}

// advance lets in messages that waited for others before them.
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

// bound drops the oldest messages while there are too many or they are too large. Those after a position have entered just
// now, and stay.
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

// Early implements store.Outbox.
func (s *Store) Waiting(_ context.Context, session core.SessionRef) ([]int64, error) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	st := s.sessions.stream(session, s.now())
	if st == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(st.waiting)), nil
}
