package store

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// Waiting holds the requests that wait for a slot, in a queue for each pool, which package fairqueue describes. Every method that changes a
// queue may be repeated, and none has a second effect then.
type Waiting interface {
	// Enqueue adds a waiter. Its deadline is a time of WaitClock, so a call that is repeated names the same waiter.
	Enqueue(ctx context.Context, pool core.PoolID, p fairqueue.EnqueueParams) (fairqueue.EnqueueResult, error)
	// Offer offers up to n slots to the waiters whose turn it is, in the classes that a node can serve.
	Offer(ctx context.Context, pool core.PoolID, n int, classes []string) (fairqueue.OfferResult, error)
	// ReturnOffer takes an offer back, because no slot was free. It reports whether the waiter is in the line.
	ReturnOffer(ctx context.Context, pool core.PoolID, w fairqueue.Waiter) (bool, error)
	// Dequeue removes a waiter, because it has got a slot or gives up.
	Dequeue(ctx context.Context, pool core.PoolID, w fairqueue.Waiter, served bool) error
	// Beat says that an instance is alive, which may have waiters, and removes those of dead instances.
	Beat(ctx context.Context, pool core.PoolID, instance core.InstanceID) (fairqueue.BeatResult, error)
	// OpenClasses lists the classes in which somebody waits, for each of the pools.
	OpenClasses(ctx context.Context, pools ...core.PoolID) ([][]string, error)
	// Requirements returns the requirements of classes in which somebody waits, in their order; empty: nobody does any more.
	Requirements(ctx context.Context, pool core.PoolID, classes []string) ([]string, error)
	// ViewQueue returns a page of what a queue holds.
	ViewQueue(ctx context.Context, pool core.PoolID, p fairqueue.ViewParams) (fairqueue.View, error)
	// WaitClock returns the time of the clock of a queue in milliseconds. It calls the store only if it does not know the time.
	WaitClock(ctx context.Context, pool core.PoolID) (int64, error)
}
