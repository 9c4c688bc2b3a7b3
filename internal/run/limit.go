package run

import (
	"context"
	"time"
)

// Limit hands out contexts that end a fixed time from now. Callers within a sixteenth of that time share one context,
// because a context with its own timer would cost a tenth of a dispatch.
type Limit struct {
	root    context.Context
	timeout time.Duration
	fence   func() time.Time // no context ends later than it returns; nil: no fence

	mu   Mutex
	ctx  context.Context
	made time.Time
}

// NewLimit makes a limit. Its contexts end with root, and not later than the time that fence returns when they are made; fence
// may be nil.
func NewLimit(root context.Context, timeout time.Duration, fence func() time.Time) *Limit {
	return &Limit{root: root, timeout: timeout, fence: fence, mu: NewMutex("dispatch_deadline")}
}

// Context returns a context that ends after at most the timeout, and at least 15/16 of it unless the fence is earlier.
func (l *Limit) Context() context.Context {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil || now.Sub(l.made) > l.timeout/16 || l.ctx.Err() != nil {
		end := now.Add(l.timeout)
		if l.fence != nil {
			if fence := l.fence(); fence.Before(end) {
				end = fence
			}
		}
		ctx, cancel := context.WithDeadline(l.root, end)
		context.AfterFunc(ctx, cancel) // no caller knows whether it is the last one to use the context
		l.ctx, l.made = ctx, now
	}
	return l.ctx
}
