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
	fn(q, s.time(s.now()).UnixMilli())
	return nil
}

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

// Settle implements store.Waiting.
func (s *Store) Settle(ctx context.Context, pool core.PoolID, w fairqueue.Waiter, how fairqueue.Settlement) error {
	return s.withQueue(ctx, pool, func(q *fairqueue.Queue, now int64) {
		if how == fairqueue.Returned {
			q.Return(now, w)
		} else {
			q.Dequeue(now, w, how == fairqueue.Served)
		}
	})
}

// Beat implements store.Waiting.
func (s *Store) Beat(ctx context.Context, pool core.PoolID, instance core.InstanceID) (r fairqueue.BeatResult, err error) {
	err = s.withQueue(ctx, pool, func(q *fairqueue.Queue, now int64) { r = q.Beat(now, string(instance)) })
	return r, err
}

// OpenClasses implements store.Waiting.
func (s *Store) OpenClasses(
	ctx context.Context, known func(pool core.PoolID, class string) bool, pools ...core.PoolID,
) ([]map[string]string, error) {
	s.queues.mu.Lock()
	defer s.queues.mu.Unlock()
	open := make([]map[string]string, len(pools))
	for i, pool := range pools {
		q := s.queues.byPool[pool]
		if q == nil {
			continue
		}
		open[i] = make(map[string]string)
		for _, class := range q.OpenClasses() {
			open[i][class] = ""
			if known != nil && !known(pool, class) {
				open[i][class] = q.Requirements(class)
			}
		}
	}
	return open, ctx.Err()
}

// ViewQueue implements store.Waiting.
func (s *Store) ViewQueue(ctx context.Context, pool core.PoolID, p fairqueue.ViewParams) (v fairqueue.View, err error) {
	err = s.withQueue(ctx, pool, func(q *fairqueue.Queue, now int64) { v = q.View(now, p) })
	return v, err
}
