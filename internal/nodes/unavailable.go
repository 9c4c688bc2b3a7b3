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

// Unavailable is a node's report that it does not have a service after all.
type Unavailable struct {
	Node    core.NodeID
	Service string
	Detail  string
	Job     core.JobID // the job that failed for it, if one did
	Attempt int
}

// Missing marks a service that a node does not have after all, and retries the job that failed for it. Only the mark is
// rate limited: the node has given the job up, and holding the report back would leave the job waiting for its attempt
// timeout. A report about a job the node never had changes nothing.
func (l *Registry) ReportUnavailable(ctx context.Context, u Unavailable) error {
	l.metrics.ModelNA.Inc()
	report := dispatch.Report{Job: u.Job, Holder: core.Holder{Attempt: u.Attempt, Node: u.Node}}
	if known, err := l.declared(ctx, u.Node); err != nil {
		return err
	} else if known == nil {
		return unknownNode(u.Node)
	}
	holds := false
	if u.Job != "" {
		var err error
		if holds, err = l.jobs.Had(ctx, report); err != nil {
			return err
		}
	}
	// The mark comes first, so that the retry and other jobs already see it.
	marked := l.mark(ctx, &u)
	if holds {
		if err := l.jobs.Fail(ctx, report, core.ReasonModelNotAvailable, u.Detail); err != nil {
			return err
		}
	}
	return marked
}

// mark notes that a service of a node is not available, unless the node reports too often.
func (l *Registry) mark(ctx context.Context, u *Unavailable) error {
	ok, err := l.store.Allow(ctx, store.AllowParams{
		Key: "model_na:" + string(u.Node), Limit: l.cfg.MarkRate, Window: time.Minute,
	})
	switch {
	case err != nil:
		return l.down(ctx, "rate", err)
	case !ok:
		return wire.FieldErrorf(wire.RateLimited, "node_id",
			"node %s sent more than %d such reports in a minute, so %s was not marked; the job, if one was named, is retried; wait a minute",
			u.Node, l.cfg.MarkRate, u.Service).RetryIn(time.Minute)
	}
	mark := store.Mark{Node: u.Node, Service: u.Service, For: l.cfg.MarkFor}
	if err := l.store.Mark(ctx, mark); err != nil {
		if errors.Is(err, store.ErrNoNode) {
			return unknownNode(u.Node)
		}
		return l.down(ctx, "mark", err)
	}
	l.fleet.Mark(mark)
	return nil
}
