package dispatch

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/waiting"
	"github.com/lingua-scheduler/lingua/wire"
)

// callGroup lets concurrent calls for the same job share one result.
type callGroup struct {
	mu    run.Mutex
	calls map[core.JobID]*sharedCall
}

// sharedCall is one call in progress.
type sharedCall struct {
	fingerprint string
	waits       bool          // it waits for a slot
	done        chan struct{} // closed when the result is there
	placement   Placement
	err         *wire.Error
	abandoned   bool // its caller has left before it was decided: another one makes the call again
}

func newCallGroup() *callGroup {
	return &callGroup{mu: run.NewMutex("dispatch_calls"), calls: make(map[core.JobID]*sharedCall)}
}

// await waits for the result, until a time if there is one. It returns false if the time is over or the context ended.
func (c *sharedCall) await(ctx context.Context, until time.Time) bool {
	var over <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-c.done:
		return true
	case <-over:
	case <-ctx.Done():
	}
	return false
}

// join returns the call for a job, and whether the caller is the first and makes it, and perhaps waits for a slot.
func (g *callGroup) join(id core.JobID, fingerprint string, waits bool) (_ *sharedCall, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[id]; c != nil {
		return c, false
	}
	c := &sharedCall{fingerprint: fingerprint, waits: waits, done: make(chan struct{})}
	g.calls[id] = c
	return c, true
}

// finish publishes the result of a call.
func (g *callGroup) finish(id core.JobID, c *sharedCall) {
	g.mu.Lock()
	delete(g.calls, id)
	g.mu.Unlock()
	close(c.done)
}

// do places the job of a call. Concurrent calls for the same job share one result.
func (g *callGroup) do(c *call, place func(*call) (Placement, *wire.Error)) (Placement, *wire.Error) {
	if c.Unique {
		return place(c)
	}
	for {
		shared, first := g.join(c.id, c.fingerprint, c.waits())
		if first {
			shared.placement, shared.err = place(c)
			shared.abandoned = c.ctx.Err() != nil && shared.err != nil
			g.finish(c.id, shared)
			return shared.placement, shared.err
		}
		if shared.fingerprint != c.fingerprint {
			return Placement{}, mismatchError(c.id)
		}
		if shared.waits && !c.waits() {
			return place(c) // it does not wait for a slot as the other does
		}
		if !shared.await(c.ctx, c.waitsUntil()) {
			if c.ctx.Err() != nil {
				return Placement{}, store.CallError(c.ctx)
			}
			return Placement{}, waiting.Full()
		}
		if shared.abandoned || isWaitRefusal(shared.err) && time.Now().Before(c.waitsUntil()) {
			continue // this one may wait for longer
		}
		return shared.placement, shared.err
	}
}

// isWaitRefusal reports whether a request was refused because it got no slot within its own time, or no place among those that wait.
func isWaitRefusal(e *wire.Error) bool {
	if e == nil {
		return false
	}
	switch e.Code {
	case wire.AllCandidatesFullOrFailed, wire.CannotBeMet, wire.QueueFull, wire.RateLimited:
		return true
	}
	return false
}
