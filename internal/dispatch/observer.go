package dispatch

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Observer observes requests and jobs, for statistics. Its methods are called on the path of every job: they must not wait
// for anything.
type Observer interface {
	// Acknowledged is called when a node has acknowledged a job to this instance.
	Acknowledged(node core.NodeID)
	// AttemptEnded is called on the instance that decided the end of an attempt: with ReasonNone it ended with a result. Of an attempt that
	// a node with a connection did not acknowledge, it is called where the connection is.
	AttemptEnded(node core.NodeID, d core.Direction, reason core.Reason)
	// NodeSelected is called when a slot was reserved for an attempt. The candidates are valid only during the call.
	NodeSelected(d core.Decision)
	// JobEnded is called on the instance that decided the end of a job, also of a test job.
	JobEnded(job *core.Job)
	// RequestRefused is called for a request that got no node, after it waited for a free slot.
	RequestRefused(d core.Direction, code wire.Code, waited time.Duration)
}

// noObserver is the observer of a dispatcher that has none.
type noObserver struct{}

// Acknowledged implements Observer.
func (noObserver) Acknowledged(core.NodeID) {}

// AttemptEnded implements Observer.
func (noObserver) AttemptEnded(core.NodeID, core.Direction, core.Reason) {}

// NodeSelected implements Observer.
func (noObserver) NodeSelected(core.Decision) {}

// JobEnded implements Observer.
func (noObserver) JobEnded(*core.Job) {}

// RequestRefused implements Observer.
func (noObserver) RequestRefused(core.Direction, wire.Code, time.Duration) {}
