package server

import (
	"context"
	"errors"
	"fmt"
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

// bulkGate admits requests that change all objects that match a filter. Nobody changes more than was confirmed: a request has the number of
// a dry run before, and is refused if the number that matches differs by more than a tenth.
type bulkGate struct {
	busy atomic.Bool // a request is at work; another one would count what this one changes
}

// bulkCodes are the errors of these requests.
var bulkCodes = []wire.Code{wire.MatchesChanged, wire.RateLimited, wire.SchedulerDependencyDown}

// begin admits one request at a time on this instance. The function ends it.
func (g *bulkGate) begin(ctx context.Context) (end func(), e *wire.Error) {
	if g.busy.CompareAndSwap(false, true) {
		return func() { g.busy.Store(false) }, nil
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
