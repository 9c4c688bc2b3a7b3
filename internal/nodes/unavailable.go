package nodes

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
)

// UnavailableQueue takes services that nodes have reported as unavailable, to mark them later. Enqueue never waits.
type UnavailableQueue interface {
	Enqueue(s core.UnavailableService)
}

// noQueue drops what it takes.
type noQueue struct{}

// Enqueue implements UnavailableQueue.
func (noQueue) Enqueue(core.UnavailableService) {}

// ReportUnavailable accepts the report of a node that a service is unavailable: the service is queued to be marked, and the job that
// failed because of it is retried at once, whether or not it will be marked. A report about a job that the node never held changes
// nothing.
func (r *Registry) ReportUnavailable(ctx context.Context, u core.UnavailableReport) error {
	r.metrics.NAReceived.Inc()
	if e := r.CheckName(u.Node); e != nil {
		return e
	}
	known, err := r.knownDeclaration(ctx, u.Node)
	if err != nil {
		return err
	}
	if known == nil {
		return UnknownNode(u.Node)
	}
	report := dispatch.Report{Job: u.Job, Holder: core.Holder{Attempt: u.Attempt, Node: u.Node}, Tenant: known.Tenant}
	holds := false
	if u.Job != "" {
		if holds, err = r.jobs.Reports.CheckHolder(ctx, report); err != nil {
			return err
		}
	}
	u.Tenant, u.Epoch, u.NodeVersion = known.Tenant, known.Epoch, known.Version
	r.cfg.Unavailable.Enqueue(u.UnavailableService)
	if holds {
		return r.jobs.Reports.Fail(ctx, report, core.ReasonModelNotAvailable, u.Detail)
	}
	return nil
}
