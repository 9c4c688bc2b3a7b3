package memstore

import (
	"bytes"
	"context"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// sessions holds the states of sessions by name, and the outboxes of their incarnations.
type sessions struct {
	mu      run.Mutex
	streams map[core.SessionRef]*stream
	states  map[core.SessionKey]state
	sweeper sweeper
}

type state struct {
	store.SessionState
	expires moment
}

// sweep drops expired states and outboxes.
func (t *sessions) sweep(now moment) {
	t.sweeper.sweep(now, func() {
		for id, st := range t.streams {
			if expired(st.expires, now) {
				delete(t.streams, id)
			}
		}
		for id, st := range t.states {
			if expired(st.expires, now) {
				delete(t.states, id)
			}
		}
	})
}

// state returns the state of the session that uses a name, the zero one when there is none.
func (t *sessions) state(key core.SessionKey, now moment) store.SessionState {
	if st, ok := t.states[key]; ok && !expired(st.expires, now) {
		return st.SessionState
	}
	return store.SessionState{}
}

// SaveSession implements store.Sessions.
func (s *Store) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	t := &s.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now := s.now()
	t.sweep(now)
	current := t.state(p.Session.SessionKey, now)
	switch {
	case current.Epoch > 0 && current.Incarnation != p.Session.Incarnation:
		return false, nil
	// saved before, if the first reply current lost
	case current.Ownership == p.Ownership && (!p.TakeOver || bytes.Equal(current.Body, p.Body)):
	case p.TakeOver && current.Epoch == p.Epoch-1 && bytes.Equal(current.Body, p.Expected):
	case !p.TakeOver && current.Epoch < p.Epoch:
	default:
		return false, nil
	}
	st := t.stream(p.Session, now)
	if st == nil && p.Known > 0 {
		st = &stream{waiting: make(map[int64][]byte)}
		t.streams[p.Session] = st
	}
	if st != nil {
		st.expires, st.next, st.acked = now.add(p.Keep), max(st.next, p.Known), max(st.acked, p.Acked)
		st.advance()
		st.dropThrough(st.acked)
	}
	t.states[p.Session.SessionKey] = state{
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
