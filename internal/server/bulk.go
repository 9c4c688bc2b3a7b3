package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxBulk is the maximum number of objects that one request changes, in at most bulkTimeout and with bulkWorkers requests to the store
	// at a time.
	maxBulk     = 10_000
	bulkTimeout = 10 * time.Second
	bulkWorkers = 16
	// bulkRetry is the Retry-After while another request is at work.
	bulkRetry = time.Second
)

// bulkHandlers change all objects that match a filter. Nobody changes more than was confirmed: a request has the number of a dry run
// before, and is refused if the number that matches differs by more than a tenth.
type bulkHandlers struct {
	responder
	jobs  *jobHandlers
	nodes *nodeHandlers
	busy  atomic.Bool // a request is at work; another one would count what this one changes
}

func newBulkHandlers(p responder, jobs *jobHandlers, nodes *nodeHandlers) *bulkHandlers {
	return &bulkHandlers{responder: p, jobs: jobs, nodes: nodes}
}

func (h *bulkHandlers) routes() []route {
	codes := []wire.Code{wire.MatchesChanged, wire.RateLimited, wire.SchedulerDependencyDown}
	return []route{
		{
			method: "POST", path: "/v1/jobs/cancel", rule: operators, action: "job.cancel_many", tag: "jobs",
			summary: "Cancel all open jobs that match",
			description: "Count with dry_run first, and confirm the number: if the number that matches by then differs by more than a " +
				"tenth, the answer is MATCHES_CHANGED, and nothing was cancelled. A repeated request cancels nothing else, because " +
				"filter.until excludes jobs that were created after the dry run. At most 10,000 jobs and 10 seconds; remaining says how " +
				"many are left.",
			handler: handleBody(h.responder, h.cancelJobs), in: reflect.TypeFor[wire.JobsCancelRequest](),
			out: reflect.TypeFor[wire.JobsCancelResponse](), codes: codes,
		},
		{
			method: "POST", path: "/v1/nodes/drain", rule: operators, action: "node.drain_many", tag: "nodes",
			summary:     "Drain all nodes that match",
			description: "As POST /v1/jobs/cancel: count with dry_run first, and confirm the number.",
			handler:     handleBody(h.responder, h.drainNodes(true)), in: reflect.TypeFor[wire.NodesDrainRequest](),
			out: reflect.TypeFor[wire.NodesDrainResponse](), codes: codes,
		},
		{
			method: "POST", path: "/v1/nodes/resume", rule: operators, action: "node.resume_many", tag: "nodes",
			summary:     "End the drain of all nodes that match",
			description: "As POST /v1/jobs/cancel: count with dry_run first, and confirm the number.",
			handler:     handleBody(h.responder, h.drainNodes(false)), in: reflect.TypeFor[wire.NodesDrainRequest](),
			out: reflect.TypeFor[wire.NodesDrainResponse](), codes: codes,
		},
	}
}

// begin admits one request at a time on this instance. The function ends it.
func (h *bulkHandlers) begin(ctx context.Context) (end func(), e *wire.Error) {
	if h.busy.CompareAndSwap(false, true) {
		return func() { h.busy.Store(false) }, nil
	}
	e = wire.Errorf(wire.RateLimited,
		"this instance is changing many jobs or nodes for another request: wait until that has ended, and count again").RetryIn(bulkRetry)
	callOf(ctx).fail(e, limitBulk)
	return nil, e
}

// bulkLimits are what a request confirms.
type bulkLimits struct {
	expect *int
	limit  int
	dryRun bool
}

// check checks the form of what is confirmed.
func (b *bulkLimits) check() *wire.Error {
	switch {
	case b.limit < 0 || b.limit > maxBulk:
		return wire.Invalid("limit", "must be between 1 and %d, or absent", maxBulk)
	case b.dryRun:
		return nil
	case b.expect == nil:
		return wire.Invalid("expect", "is missing: count with dry_run, and send the number that is confirmed")
	case *b.expect < 0:
		return wire.Invalid("expect", "must be 0 or more, not %d", *b.expect)
	}
	return nil
}

// admit returns how many of the matches may be changed: no more than were confirmed. It refuses a number that differs by more than a tenth.
func (b *bulkLimits) admit(matches int, what string) (int, *wire.Error) {
	expect := *b.expect
	if tolerance := expect / 10; matches < expect-tolerance || matches > expect+tolerance {
		return 0, wire.FieldErrorf(wire.MatchesChanged, "expect",
			"%d %s match now, and %d were expected: nothing was changed; count again with dry_run", matches, what, expect)
	}
	allowed := min(matches, expect)
	if b.limit > 0 {
		allowed = min(allowed, b.limit)
	}
	return min(allowed, maxBulk), nil
}

// forEach calls change with the objects, several at a time, and returns with how many it was called. It stops when the request ends, after
// bulkTimeout, and when the store does not answer.
func forEach[T any](ctx context.Context, objects []T, change func(context.Context, T) error) (tried int) {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	var count atomic.Int64
	run.ForEach(bulkWorkers, objects, func(object T) {
		if ctx.Err() != nil {
			return
		}
		count.Add(1)
		if e := (*wire.Error)(nil); errors.As(change(ctx, object), &e) && e.Code == wire.SchedulerDependencyDown {
			cancel()
		}
	})
	return int(count.Load())
}

// auditBulk records a request on many objects once, with its filter and what it changed.
func auditBulk(ctx context.Context, kind, filter string, changed, failed, matches int) {
	c := callOf(ctx)
	c.object = fmt.Sprintf("%s/%d of %d?%s", kind, changed, matches, filter)
	if failed > 0 {
		c.reason = fmt.Sprintf("%d of %d failed", failed, matches)
	}
}
