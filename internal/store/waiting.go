package store

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// Waiting holds the requests that wait for a slot, in a queue for each pool, which package fairqueue describes. Every method that changes a
// queue may be repeated, and none has a second effect then.
type Waiting interface {
	// Enqueue adds a waiter. Its deadline is a time of the queue's clock, so a call that is repeated names the same waiter.
	Enqueue(ctx context.Context, pool core.PoolID, p fairqueue.EnqueueParams) (fairqueue.EnqueueResult, error)
	// Offer offers up to n slots to the waiters whose turn it is, in the classes that a node can serve.
	Offer(ctx context.Context, pool core.PoolID, n int, classes []string) (fairqueue.OfferResult, error)
	// Settle says what becomes of a waiter: it was served, it gives up, or it returns its offer.
	Settle(ctx context.Context, pool core.PoolID, w fairqueue.Waiter, how fairqueue.Settlement) error
	// Beat says that an instance is alive, which may have waiters, and removes those of dead instances.
	Beat(ctx context.Context, pool core.PoolID, instance core.InstanceID) (fairqueue.BeatResult, error)
	// OpenClasses lists the classes in which somebody waits, for each of the pools, with the requirements of those that the caller does not
	// know; with a nil function it is told of none.
	OpenClasses(ctx context.Context, known func(pool core.PoolID, class string) bool, pools ...core.PoolID) ([]map[string]string, error)
	// ViewQueue returns a page of what a queue holds.
	ViewQueue(ctx context.Context, pool core.PoolID, p fairqueue.ViewParams) (fairqueue.View, error)
}
