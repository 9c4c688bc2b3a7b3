package dispatch

import (
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/lockwait"
	"github.com/lingua-scheduler/lingua/wire"
)

// callGroup lets concurrent calls for the same job share one result.
type callGroup struct {
	mu    lockwait.Mutex[lockwait.DispatchCalls]
	calls map[core.JobID]*call
}

// call is one call in progress.
type call struct {
	fingerprint string
	done        chan struct{} // closed when the result is there
	placement   Placement
	err         *wire.Error
	abandoned   bool // its caller has left before it was decided: another one makes the call again
}

func newCallGroup() *callGroup { return &callGroup{calls: make(map[core.JobID]*call)} }

// join returns the call for a job, and whether the caller is the first and makes it.
func (g *callGroup) join(id core.JobID, fingerprint string) (_ *call, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[id]; c != nil {
		return c, false
	}
	c := &call{fingerprint: fingerprint, done: make(chan struct{})}
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
