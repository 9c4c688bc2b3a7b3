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

	mu   sync.Mutex
	ctx  context.Context
	made time.Time
}

// NewLimit makes one. Its contexts end with root at the latest.
func NewLimit(root context.Context, within time.Duration) *Limit {
	return &Limit{root: root, within: within}
}

// Context returns a context that ends no later than the limit from now, and no sooner than 15/16 of it.
func (l *Limit) Context() context.Context {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil || now.Sub(l.made) > l.within/16 {
		ctx, cancel := context.WithDeadline(l.root, now.Add(l.within))
		context.AfterFunc(ctx, cancel) // nobody else can tell when the last of them is through with it
		l.ctx, l.made = ctx, now
	}
	return l.ctx
}
