package fleet

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// Direct is a dispatch.Transport to nodes in the process of the scheduler. It is called with each job and with what the reports of its node
// state. A nil one is that of nodes which take every job and report nothing.
type Direct func(ctx context.Context, to *core.Node, a *wire.Assignment, r dispatch.Report) error

// Deliver implements dispatch.Transport.
func (d Direct) Deliver(ctx context.Context, to *core.Node, a *wire.Assignment) error {
	if d == nil {
		return nil
	}
	return d(ctx, to, a, dispatch.Report{Job: core.JobID(a.JobID), Holder: core.Holder{Attempt: a.AttemptID, Node: core.NodeID(a.NodeID)}})
}

// Cancel implements dispatch.Transport.
func (Direct) Cancel(context.Context, core.NodeID, core.JobID, int) {}
