package memstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// outbox holds the streams of sessions.
type outbox struct {
	mu       sync.Mutex
	sessions map[core.SessionID]*stream
	sweeper  sweeper
}

// stream is one session's messages. Those whose predecessors are missing wait beside it.
type stream struct {
	messages []store.Message
	waiting  map[int64][]byte
	expires  moment
}

// Append implements store.Outbox.
func (s *Store) Append(ctx context.Context, p store.AppendParams) (int64, error) {
	s.outbox.mu.Lock()
	defer s.outbox.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := s.now()
	s.outbox.sweeper.sweep(now, func() {
		for id, st := range s.outbox.sessions {
			if expired(st.expires, now) {
				delete(s.outbox.sessions, id)
			}
		}
	})
	st := s.outbox.sessions[p.Session]
	if st == nil || expired(st.expires, now) {
		st = &stream{waiting: make(map[int64][]byte)}
		s.outbox.sessions[p.Session] = st
	}
	st.expires = now.add(p.Keep)
	if next := int64(len(st.messages)); p.Index >= next {
		if _, ok := st.waiting[p.Index]; !ok {
			st.waiting[p.Index] = slices.Clone(p.Body)
		}
	}
	for {
		next := int64(len(st.messages))
		body, ok := st.waiting[next]
		if !ok {
			return next, nil
		}
		delete(st.waiting, next)
		st.messages = append(st.messages, store.Message{Seq: next + 1, Index: next, Body: body})
	}
}

// Read implements store.Outbox.
func (s *Store) Read(_ context.Context, p store.ReadParams) ([]store.Message, error) {
	s.outbox.mu.Lock()
	defer s.outbox.mu.Unlock()
	st := s.outbox.sessions[p.Session]
	if st == nil || expired(st.expires, s.now()) || p.After >= int64(len(st.messages)) {
		return nil, nil
	}
	rest := st.messages[max(p.After, 0):]
	if p.Limit > 0 && len(rest) > p.Limit {
		rest = rest[:p.Limit]
	}
	return slices.Clone(rest), nil
}

// board holds the short-lived facts.
type board struct {
	mu        sync.Mutex
	debounced map[string]moment
	rates     map[string]rate
	locks     map[string]lock
	fence     int64 // of the last lock taken; one counter for all, so that an expired lock can be forgotten
	snapshots map[string]snapshot
	sweeper   sweeper
}

type rate struct {
	used    int
	expires moment
}

type lock struct {
	holder  string
	fence   int64
	expires moment
}

type snapshot struct {
	body    []byte
	expires moment
}

func (b *board) init() {
	b.debounced = make(map[string]moment)
	b.rates = make(map[string]rate)
	b.locks = make(map[string]lock)
	b.snapshots = make(map[string]snapshot)
}

// sweep drops expired facts.
func (b *board) sweep(now moment) {
	b.sweeper.sweep(now, func() {
		for k, until := range b.debounced {
			if expired(until, now) {
				delete(b.debounced, k)
			}
		}
		for k, r := range b.rates {
			if expired(r.expires, now) {
				delete(b.rates, k)
			}
		}
		for k, l := range b.locks {
			if expired(l.expires, now) {
				delete(b.locks, k)
			}
		}
		for k, s := range b.snapshots {
			if expired(s.expires, now) {
				delete(b.snapshots, k)
			}
		}
	})
}

// sweeper runs a walk over a table at most once a second, by whoever writes to it next.
type sweeper struct{ last moment }

func (s *sweeper) sweep(now moment, walk func()) {
	if now.since(s.last) >= time.Second {
		s.last = now
		walk()
	}
}

// Debounce implements store.Board.
func (s *Store) Debounce(ctx context.Context, key string, window time.Duration) (bool, error) {
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now := s.now()
	s.board.sweep(now)
	if until, ok := s.board.debounced[key]; ok && !expired(until, now) {
		return false, nil
	}
	s.board.debounced[key] = now.add(window)
	return true, nil
}

// Allow implements store.Board.
func (s *Store) Allow(ctx context.Context, p store.AllowParams) (bool, error) {
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now := s.now()
	s.board.sweep(now)
	r, ok := s.board.rates[p.Key]
	if !ok || expired(r.expires, now) {
		r = rate{expires: now.add(p.Window)}
	}
	r.used++
	s.board.rates[p.Key] = r
	return r.used <= p.Limit, nil
}

// Lock implements store.Board.
func (s *Store) Lock(ctx context.Context, p store.LockParams) (store.Lock, error) {
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Lock{}, err
	}
	now := s.now()
	s.board.sweep(now)
	l, taken := s.board.locks[p.Name]
	taken = taken && !expired(l.expires, now)
	switch {
	case taken && l.holder != p.Holder:
		return store.Lock{Fence: l.fence}, nil
	case !taken:
		s.board.fence++
		l = lock{holder: p.Holder, fence: s.board.fence}
	}
	l.expires = now.add(p.TTL)
	s.board.locks[p.Name] = l
	return store.Lock{Held: true, Fence: l.fence}, nil
}

// Unlock implements store.Board.
func (s *Store) Unlock(ctx context.Context, p store.LockParams) error {
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if l, ok := s.board.locks[p.Name]; ok && l.holder == p.Holder {
		delete(s.board.locks, p.Name)
	}
	return nil
}

// SaveSnapshot implements store.Board.
func (s *Store) SaveSnapshot(ctx context.Context, p store.SnapshotParams) error {
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	now := s.now()
	s.board.sweep(now)
	s.board.snapshots[p.Name] = snapshot{body: slices.Clone(p.Body), expires: now.add(p.TTL)}
	return nil
}

// LoadSnapshot implements store.Board.
func (s *Store) LoadSnapshot(_ context.Context, name string) ([]byte, error) {
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	if snap, ok := s.board.snapshots[name]; ok && !expired(snap.expires, s.now()) {
		return slices.Clone(snap.body), nil
	}
	return nil, nil
}
