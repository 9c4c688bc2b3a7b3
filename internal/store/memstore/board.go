package memstore

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// board holds short-lived facts.
type board struct {
	mu      run.Mutex
	rates   map[string]rate
	locks   map[string]lock
	fence   int64 // of the last lock that was acquired; one counter for all locks, so that an expired lock can be dropped
	sweeper sweeper
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

func (b *board) init() {
	b.mu = run.NewMutex("memstore_board")
	b.rates = make(map[string]rate)
	b.locks = make(map[string]lock)
}

// sweep drops expired facts.
func (b *board) sweep(now moment) {
	b.sweeper.sweep(now, func() {
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
	})
}

// sweeper bounds the cost of dropping expired entries: it walks over a table at most once a second, in the next write to it.
type sweeper struct{ last moment }

func (s *sweeper) sweep(now moment, walk func()) {
	if now.since(s.last) >= time.Second {
		s.last = now
		walk()
	}
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
