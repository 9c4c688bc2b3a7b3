package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// queues holds the requests that wait for a slot, by pool.
type queues struct {
	mu     run.Mutex
	byPool map[core.PoolID]*fairqueue.Queue
}

// withQueue calls fn with the queue of a pool and the time, unless the caller has left.
func (s *Store) withQueue(ctx context.Context, pool core.PoolID, fn func(q *fairqueue.Queue, now int64)) error {
	s.queues.mu.Lock()
	defer s.queues.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	q := s.queues.byPool[pool]
	if q == nil {
		q = fairqueue.New()
		s.queues.byPool[pool] = q
	}
	fn(q, s.waitClock())
	return nil
}

func (s *Store) waitClock() int64 { return s.time(s.now()).UnixMilli() }

// Enqueue implements store.Waiting.
func (s *Store) Enqueue(ctx context.Context, pool core.PoolID, p fairqueue.EnqueueParams) (r fairqueue.EnqueueResult, err error) {
	err = s.withQueue(ctx, pool, func(q *fairqueue.Queue, now int64) { r = q.Enqueue(now, p) })
	return r, err
}

// Offer implements store.Waiting.
func (s *Store) Offer(ctx context.Context, pool core.PoolID, n int, classes []string) (r fairqueue.OfferResult, err error) {
	err = s.withQueue(ctx, pool, func(q *fairqueue.Queue, now int64) { r = q.Offer(now, n, classes) })
	return r, err
}

// ReturnOffer implements store.Waiting.
func (s *Store) ReturnOffer(ctx context.Context, pool core.PoolID, w fairqueue.Waiter) (there bool, err error) {
	err = s.withQueue(ctx, pool, func(q *fairqueue.Queue, now int64) { there = q.Return(now, w) })
	return there, err
}

// Dequeue implements store.Waiting.
func (s *Store) Dequeue(ctx context.Context, pool core.PoolID, w fairqueue.Waiter, served bool) error {
	return s.withQueue(ctx, pool, func(q *fairqueue.Queue, now int64) { q.Dequeue(now, w, served) })
}

// Beat implements store.Waiting.
func (s *Store) Beat(ctx context.Context, pool core.PoolID, instance core.InstanceID) (r fairqueue.BeatResult, err error) {
	err = s.withQueue(ctx, pool, func(q *fairqueue.Queue, now int64) { r = q.Beat(now, string(instance)) })
	return r, err
}

// OpenClasses implements store.Waiting.
func (s *Store) OpenClasses(ctx context.Context, pools ...core.PoolID) ([][]string, error) {
	s.queues.mu.Lock()
	defer s.queues.mu.Unlock()
	open := make([][]string, len(pools))
	for i, pool := range pools {
		if q := s.queues.byPool[pool]; q != nil {
			open[i] = q.OpenClasses()
		}
	}
	return open, ctx.Err()
}

// Requirements implements store.Waiting.
func (s *Store) Requirements(ctx context.Context, pool core.PoolID, classes []string) ([]string, error) {
	requirements := make([]string, len(classes))
	err := s.withQueue(ctx, pool, func(q *fairqueue.Queue, _ int64) {
		for i, class := range classes {
			requirements[i] = q.Requirements(class)
		}
	})
	return requirements, err
}

// ViewQueue implements store.Waiting.
func (s *Store) ViewQueue(ctx context.Context, pool core.PoolID, p fairqueue.ViewParams) (v fairqueue.View, err error) {
	err = s.withQueue(ctx, pool, func(q *fairqueue.Queue, now int64) { v = q.View(now, p) })
	return v, err
}

// WaitClock implements store.Waiting.
func (s *Store) WaitClock(context.Context, core.PoolID) (int64, error) { return s.waitClock(), nil }
