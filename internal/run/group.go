package run

import (
	"context"
	"sync"
)

// Group runs functions in the background, until it is closed.
type Group struct {
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	mu      RWMutex // held for writing while closed is set: running must not grow from zero while it is waited for
	closed  bool
	running sync.WaitGroup
}

// NewGroup makes a group. End it with Close.
func NewGroup() *Group {
	g := &Group{mu: NewRWMutex("dispatch_tasks")}
	g.ctx, g.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // what runs here outlives the calls that start it
	return g
}

// Context is the context of the functions. It ends with Close.
func (g *Group) Context() context.Context { return g.ctx }

// Go calls fn in a goroutine, with a context that ends with Close. It reports false, and does not call fn, after Refuse or Close.
func (g *Group) Go(fn func(ctx context.Context)) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if !g.closed {
		g.running.Go(func() { fn(g.ctx) })
	}
	return !g.closed
}

// Refuse makes Go refuse every function from now on.
func (g *Group) Refuse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Close refuses new functions, ends the context of those that run, and waits until all have returned.
func (g *Group) Close() {
	g.Refuse()
	g.cancel()
	g.running.Wait()
}
