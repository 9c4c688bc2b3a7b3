package dispatch

import (
	"context"
	"sync"
	"time"
)

// deadlines hands out contexts that end a fixed time from now, give or take a sixteenth of it. Callers of the
// same moment share one: a context with a timer of its own would be a tenth of the cost of a dispatch.
type deadlines struct {
	root   context.Context
	within time.Duration

	mu   sync.Mutex
	ctx  context.Context
	made time.Time
}

// get returns a context that ends no later than within from now, and no sooner than 15/16 of it.
func (d *deadlines) get() context.Context {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || now.Sub(d.made) > d.within/16 {
		ctx, cancel := context.WithDeadline(d.root, now.Add(d.within))
		context.AfterFunc(ctx, cancel) // nobody else can tell when the last of them is through with it
		d.ctx, d.made = ctx, now
	}
	return d.ctx
}
