package dispatch

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// callGroup lets concurrent calls for the same job share one result.
type callGroup struct {
	mu    run.Mutex
	calls map[core.JobID]*call
}

// call is one call in progress.
type call struct {
	fingerprint string
	waits       bool          // it waits for a slot
	done        chan struct{} // closed when the result is there
	placement   Placement
	err         *wire.Error
	abandoned   bool // its caller has left before it was decided: another one makes the call again
}

func newCallGroup() *callGroup {
	return &callGroup{mu: run.NewMutex("dispatch_calls"), calls: make(map[core.JobID]*call)}
}

// await waits for the result, until a time if there is one. It returns false if the time is over or the context ended.
func (c *call) await(ctx context.Context, until time.Time) bool {
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
func (g *callGroup) join(id core.JobID, fingerprint string, waits bool) (_ *call, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[id]; c != nil {
		return c, false
	}
	c := &call{fingerprint: fingerprint, waits: waits, done: make(chan struct{})}
	g.calls[id] = c
	return c, true
}

// finish publishes the result of a call.
func (g *callGroup) finish(id core.JobID, c *call) {
	g.mu.Lock()
	delete(g.calls, id)
	g.mu.Unlock()
	close(c.done)
}

// placeFunc places the job of a request, or refuses it.
type placeFunc func(id core.JobID, fingerprint string, r *Request) (Placement, *wire.Error)

// dispatch is Dispatch without metrics. Concurrent calls for the same job share one result.
func (d *Dispatcher) dispatch(ctx context.Context, r *Request, place placeFunc) (Placement, *wire.Error) {
	id := r.Job()
	fingerprint := r.Fingerprint()
	if r.Unique {
		return place(id, fingerprint, r)
	}
	for {
		call, first := d.calls.join(id, fingerprint, !r.until.IsZero())
		if first {
			call.placement, call.err = place(id, fingerprint, r)
			call.abandoned = ctx.Err() != nil && call.err != nil
			d.calls.finish(id, call)
			return call.placement, call.err
		}
		if call.fingerprint != fingerprint {
			return Placement{}, mismatchError(id)
		}
		if call.waits && r.until.IsZero() {
			return place(id, fingerprint, r) // it does not wait for a slot as the other does
		}
		if !call.await(ctx, r.until) {
			if ctx.Err() != nil {
				return Placement{}, store.CallError(ctx)
			}
			return Placement{}, errFull()
		}
		if call.abandoned || isWaitRefusal(call.err) && time.Now().Before(r.until) {
			continue // this one may wait for longer
		}
		return call.placement, call.err
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
