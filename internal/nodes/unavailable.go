package nodes

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Unavailable is a node's report that a service it declared is not available.
type Unavailable struct {
	Node    core.NodeID
	Service string
	Version string // of the service; empty: all its versions
	Detail  string
	Job     core.JobID // the job that failed because of it; empty: none
	Attempt int
}

// ReportUnavailable marks a service of a node as unavailable, and retries the job that failed because of it. Only the mark is
// rate limited: the node has given the job up, and dropping the report would leave the job waiting for its attempt timeout.
// A report about a job that the node never held changes nothing.
func (r *Registry) ReportUnavailable(ctx context.Context, u Unavailable) error {
	r.metrics.ModelNA.Inc()
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
		if holds, err = r.jobs.CheckHolder(ctx, report); err != nil {
			return err
		}
	}
	// The mark comes first, so that the retry and other jobs see it.
	markErr := r.mark(ctx, &u, known)
	if holds {
		if err := r.jobs.Fail(ctx, report, core.ReasonModelNotAvailable, u.Detail); err != nil {
			return err
		}
	}
	return markErr
}

// mark marks a service of a node as unavailable, unless the node reports too often.
func (r *Registry) mark(ctx context.Context, u *Unavailable, known *core.Node) error {
	ok, err := r.store.Allow(ctx, store.AllowParams{
		Key: "model_na:" + string(u.Node), Limit: r.cfg.MarkRate, Window: time.Minute,
	})
	switch {
	case err != nil:
		return r.storeError(ctx, "rate", err)
	case !ok:
		return wire.FieldErrorf(wire.RateLimited, "node_id",
			"node %s sent more than %d such reports in a minute, so %s was not marked; the job, if one was named, is retried; wait a minute",
			u.Node, r.cfg.MarkRate, u.Service).RetryIn(time.Minute)
	}
	mark := store.Mark{Node: u.Node, Service: u.Service, Version: u.Version, Epoch: known.Epoch, NodeVersion: known.Version, For: r.cfg.MarkFor}
	if err := r.store.Mark(ctx, mark); err != nil {
		if errors.Is(err, store.ErrNoNode) {
			return UnknownNode(u.Node)
		}
		return r.storeError(ctx, "mark", err)
	}
	r.fleet.Mark(mark)
	return nil
}
