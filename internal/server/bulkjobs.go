package server

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// The filters by state that are not the name of one: all jobs that have not ended, and all that have.
const (
	openState  = "open"
	endedState = "ended"
)

// errEndedState refuses a filter that only jobs match which have ended.
func errEndedState() *wire.Error {
	return wire.Invalid("filter.state", "must be DISPATCHED, ACKED, RETRYING or %s: a job that has ended cannot be cancelled", openState)
}

func (h *jobHandlers) cancelManyRoute() route {
	return route{
		method: "POST", path: "/v1/jobs/cancel", rule: operators, action: "job.cancel_many", tag: "jobs",
		summary: "Cancel all open jobs that match",
		description: "Count with dry_run first, and confirm the number: if the number that matches by then differs by more than a tenth, " +
			"the answer is MATCHES_CHANGED, and nothing was cancelled. A repeated request cancels nothing else, because filter.until " +
			"excludes jobs that were created after the dry run. At most 10,000 jobs and 10 seconds; remaining says how many are left.",
		handler: handleBody(h.responder, h.cancelJobs), codes: bulkCodes,
	}
}

// cancelJobs cancels the open jobs that match.
func (h *jobHandlers) cancelJobs(ctx context.Context, in *wire.JobsCancelRequest) (*wire.JobsCancelResponse, error) {
	callOf(ctx).dryRun = in.DryRun
	limits := bulkLimits{in.Expect, in.Limit, in.DryRun}
	if e := limits.check(); e != nil {
		return nil, e
	}
	p, values, e := h.openJobs(in)
	if e != nil {
		return nil, e
	}
	end, e := h.bulk.begin(ctx)
	if e != nil {
		return nil, e
	}
	defer end()
	jobs, err := h.listOpen(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &wire.JobsCancelResponse{DryRun: in.DryRun, Matches: len(jobs), Truncated: len(jobs) > maxBulk, UntilMS: untilOf(jobs, p.Until),
		Remaining: len(jobs)}
	if in.DryRun {
		return out, nil
	}
	allowed, e := limits.admit(len(jobs), "open jobs")
	if e != nil {
		return nil, e
	}
	var cancelled, ended, failed atomic.Int64
	tried := forEach(ctx, jobs[:allowed], func(ctx context.Context, job *core.Job) error {
		_, done, err := h.dispatcher.Cancel(ctx, job.ID)
		var e *wire.Error
		switch {
		case errors.As(err, &e) && e.Code == wire.NotFound, err == nil && !done:
			ended.Add(1)
		case err != nil:
			failed.Add(1)
		default:
			cancelled.Add(1)
		}
		return err
	})
	out.Cancelled, out.AlreadyEnded, out.Failed, out.Remaining = int(cancelled.Load()), int(ended.Load()), int(failed.Load()),
		len(jobs)-tried
	auditBulk(ctx, "jobs", values.Encode(), out.Cancelled, out.Failed, out.Matches)
	return out, nil
}

// openJobs converts the filter of a request. It is checked as that of the list of jobs is.
func (h *jobHandlers) openJobs(in *wire.JobsCancelRequest) (store.ListParams, url.Values, *wire.Error) {
	f := in.Filter
	if f == nil {
		return store.ListParams{}, nil, wire.Invalid("filter", "is missing; {} matches all open jobs")
	}
	values := url.Values{}
	for name, text := range map[string]string{
		"state": f.State, "reason": f.Reason, "node_id": f.NodeID, "session_id": f.SessionID, "language": f.Language, "src_lang": f.SrcLang,
		"tgt_lang": f.TgtLang,
		"region":   f.Region, "tenant_id": f.TenantID, "search": f.Search,
	} {
		if text != "" {
			values.Set(name, text)
		}
	}
	for name, ms := range map[string]int64{"since": f.Since, "until": f.Until} {
		if ms != 0 {
			values.Set(name, strconv.FormatInt(ms, 10))
		}
	}
	switch values.Get("state") {
	case openState:
		values.Del("state")
	case endedState:
		return store.ListParams{}, nil, errEndedState()
	}
	p, e := h.jobFilter(&listQuery{Values: values})
	switch {
	case e != nil:
		e.Field = "filter." + e.Field
		return p, nil, e
	case p.State != 0 && p.State.Terminal():
		return p, nil, errEndedState()
	case !in.DryRun && f.Until == 0:
		return p, nil, wire.Invalid("filter.until",
			"is missing: send until_ms of the dry run, so that jobs that were created after it are not cancelled")
	case f.Region != "" && !core.ValidID(f.Region): // it is in the audit entry
		return p, nil, wire.Invalid("filter.region", "must be an identifier")
	}
	if f.TenantID != "" {
		tenant := core.TenantID(f.TenantID)
		p.Tenant = &tenant
	}
	p.Limit = 0
	return p, values, nil
}

// listOpen lists the jobs that match and have not ended, the newest first.
func (h *jobHandlers) listOpen(ctx context.Context, p store.ListParams) ([]*core.Job, error) {
	jobs, err := h.dispatcher.Jobs(ctx, p)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(jobs, func(job *core.Job) bool { return job.State.Terminal() }), nil
}

// untilOf returns a time, in Unix milliseconds, before which all jobs of a list were created, which has the newest first. The times are of
// the clock of the store: jobs that are created after the list was made are not before it, whatever the clock of this machine says.
func untilOf(jobs []*core.Job, asked time.Time) int64 {
	switch {
	case len(jobs) > 0:
		return jobs[0].Created.UnixMilli() + 1
	case !asked.IsZero():
		return asked.UnixMilli()
	}
	return time.Now().UnixMilli()
}
