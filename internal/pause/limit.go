package pause

import (
	"context"
	"sync"
	"time"
)

// Limit hands out contexts that end a fixed time from now, give or take a sixteenth of it. Callers of the same
// moment share one: a context with a timer of its own would be a tenth of the cost of a dispatch.
type Limit struct {
	root   context.Context
	within time.Duration
	fence  func() time.Time // none ends later than this; nil: there is no such thing

	mu   sync.Mutex
	ctx  context.Context
	made time.Time
}

// NewLimit makes one. Its contexts end with root at the latest.
func NewLimit(root context.Context, within time.Duration) *Limit {
	return &Limit{root: root, within: within}
}

// Within has no context end later than what fence says at the time. It is called before the first Context.
func (l *Limit) Within(fence func() time.Time) { l.fence = fence }

// Context returns a context that ends no later than the limit from now, and no sooner than 15/16 of it, but for the fence.
func (l *Limit) Context() context.Context {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil || now.Sub(l.made) > l.within/16 || l.ctx.Err() != nil {
		end := now.Add(l.within)
		if l.fence != nil {
			if fence := l.fence(); fence.Before(end) {
				end = fence
			}
		}
		ctx, cancel := context.WithDeadline(l.root, end)
		context.AfterFunc(ctx, cancel) // nobody else can tell when the last of them is through with it
		l.ctx, l.made = ctx, now
	}
	return l.ctx
}
