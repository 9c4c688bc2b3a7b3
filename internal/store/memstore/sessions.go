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

// sessions holds what conversations have: their state and their streams of messages.
type sessions struct {
	mu      sync.Mutex
	streams map[core.SessionID]*stream
	states  map[core.SessionID]state
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

// state is what is known of a session; the zero one when nothing is.
func (o *sessions) state(id core.SessionID, now moment) store.SessionState {
	if st, ok := o.states[id]; ok && !expired(st.expires, now) {
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
	was := o.state(p.Session, now)
	switch {
	case was.Claim == p.Claim && (!p.Take || bytes.Equal(was.Body, p.Body)): // taken before, if the first reply was lost
	case p.Take && was.Epoch == p.Epoch-1 && bytes.Equal(was.Body, p.Seen):
	case !p.Take && was.Epoch < p.Epoch:
	default:
		return false, nil
	}
	st := o.stream(p.Session, now)
	if st == nil && p.Known > 0 {
		st = &stream{waiting: make(map[int64][]byte)}
		o.streams[p.Session] = st
	}
	if st != nil {
		st.expires, st.next = now.add(p.Keep), max(st.next, p.Known)
		st.advance()
	}
	o.states[p.Session] = state{store.SessionState{Claim: p.Claim, Body: slices.Clone(p.Body)}, now.add(p.Keep)}
	return true, nil
}

// LoadSession implements store.Sessions.
func (s *Store) LoadSession(_ context.Context, id core.SessionID) (store.SessionState, error) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	return s.sessions.state(id, s.now()), nil
}

// stream is one session's messages. Those whose predecessors are missing wait beside it.
type stream struct {
	messages []store.Message // the last ones
	next     int64           // the index of the next to come
	waiting  map[int64][]byte
	expires  moment
}

// keepMessages is how many messages are kept for whoever comes back.
const keepMessages = 1024

// stream finds a session's; nil when there is none, or none any more.
func (o *sessions) stream(id core.SessionID, now moment) *stream {
	if st := o.streams[id]; st != nil && !expired(st.expires, now) {
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
	st, owner := o.stream(p.Session, now), o.state(p.Session, now).Claim
	if st == nil {
		st = &stream{waiting: make(map[int64][]byte)}
	}
	if p.By.Epoch != 0 && (owner.Epoch > p.By.Epoch || owner.Epoch == p.By.Epoch && owner != p.By) {
		return store.Appended{Refused: true, Seq: st.next, Owner: owner.Owner}, nil
	}
	o.streams[p.Session] = st
	st.expires = now.add(p.Keep)
	_, there := st.waiting[p.Index]
	if there = there || p.Index < st.next; !there {
		st.waiting[p.Index] = slices.Clone(p.Body)
	}
	st.advance()
	return store.Appended{Seq: st.next, There: there, Owner: owner.Owner}, nil
}

// advance lets in messages that waited for others before them.
func (st *stream) advance() {
	for {
		body, ok := st.waiting[st.next]
		if !ok {
			return
		}
		delete(st.waiting, st.next)
		st.messages = append(st.messages, store.Message{Seq: st.next + 1, Index: st.next, Body: body})
		st.next++
		if len(st.messages) > 2*keepMessages {
			st.messages = slices.Clone(st.messages[keepMessages:])
		}
	}
}

// Read implements store.Outbox.
func (s *Store) Read(_ context.Context, p store.ReadParams) ([]store.Message, error) {
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
func (s *Store) Early(_ context.Context, id core.SessionID) ([]int64, error) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	st := s.sessions.stream(id, s.now())
	if st == nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(st.waiting)), nil
}
