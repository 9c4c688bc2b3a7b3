package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// fenceTTL is how much longer than a lock its fence is kept; after that the clock keeps it growing.
const fenceTTL = time.Second

// Allow implements store.Board.
func (s *Store) Allow(ctx context.Context, p store.AllowParams) (bool, error) {
	_, r, err := s.client.runScript(ctx, &scriptAllow, []string{s.keys.rate(p.Key)}, strconv.Itoa(p.Limit), millis(p.Window))
	if err != nil {
		return false, err
	}
	return r.int(0) == 1, nil
}

// Lock implements store.Board.
func (s *Store) Lock(ctx context.Context, p store.LockParams) (store.Lock, error) {
	lock, fence := s.keys.lock(p.Name)
	_, r, err := s.client.runScript(ctx, &scriptLock, []string{lock, fence}, p.Holder, millis(p.TTL), millis(p.TTL+fenceTTL))
	if err != nil {
		return store.Lock{}, err
	}
	return store.Lock{Held: r.int(0) == 1, Fence: r.int(1)}, nil
}

// Unlock implements store.Board.
func (s *Store) Unlock(ctx context.Context, p store.LockParams) error {
	lock, _ := s.keys.lock(p.Name)
	_, _, err := s.client.runScript(ctx, &scriptUnlock, []string{lock}, p.Holder)
	return err
}
