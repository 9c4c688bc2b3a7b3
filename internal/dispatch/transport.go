package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Transport takes jobs to nodes.
type Transport interface {
	// Deliver hands a job to a node. ErrRefused and ErrBusy mean that the node certainly does not have it;
	// any other error that it may. Nothing leaves after the deadline of the context.
	Deliver(ctx context.Context, to *core.Node, a *wire.Assignment) error
	// Cancel asks a node to stop a job, if there is a way to reach it at once. Heartbeats tell it anyway.
	Cancel(ctx context.Context, to core.NodeID, job core.JobID, attempt int)
}

// Expired reports whether a context is past its deadline, also while its timer has not gone off: in a process that was
// stopped, the timers run beside whatever goes on.
func Expired(ctx context.Context) bool {
	ends, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(ends)
}

var (
	// ErrRefused says that the node does not have the job and will not take it.
	ErrRefused = errors.New("the node refused the job")
	// ErrNoAudio says that the sound of the job is not here, so that no node can do it.
	ErrNoAudio = errors.New("the audio of the job is not here")
	// ErrBusy says that the node has no room: the node is the last gate.
	ErrBusy = errors.New("the node is busy")
)
