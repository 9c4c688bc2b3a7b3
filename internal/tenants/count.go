package tenants

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Count is what a request counts for the limits of its tenant until it is a job. It is not safe for concurrent use. Nil is the count of a
// request that no limit counts.
type Count struct {
	jobs  *Jobs
	spec  core.Spec
	until time.Time // until which it waits if a limit refuses it; zero: it does not wait

	counted *counted // nil: it is not counted now
	place   *place   // among those that wait for the same limit; nil: none
	asked   bool     // the store has been asked whether it is admitted
	refusal limitRefusal
}

// counted is one count in the store.
type counted struct {
	spec     core.Spec
	name     core.Token
	released bool // guarded by the lock of Jobs
}

// Name returns the name of the count, which the job gets; empty: the request is not counted.
func (c *Count) Name() core.Token {
	if c == nil || c.counted == nil {
		return ""
	}
	return c.counted.name
}

// Limit returns the limit that has refused the request last.
func (c *Count) Limit() store.TenantLimit {
	if c == nil {
		return store.NoLimit
	}
	return c.refusal.limit
}

// Admit counts a request as a job that takes at most so long, unless a limit forbids it. A request that may wait is refused without asking
// the store while it is the turn of others.
func (c *Count) Admit(ctx context.Context, takes time.Duration) *wire.Error {
	if why, others := c.jobs.waiting.ahead(c); others {
		c.refusal = why
		return why.err
	}
	if e := c.admit(ctx, keepJob(takes)); e != nil {
		return e
	}
	c.leaveQueue(true) // the next one need not wait until this one is placed
	return nil
}

// Hold counts a request while it waits for a slot. The count is renewed.
func (c *Count) Hold(ctx context.Context) *wire.Error {
	if c == nil {
		return nil
	}
	if e := c.admit(ctx, heldFor); e != nil || c.counted == nil {
		return e
	}
	c.jobs.mu.Lock()
	defer c.jobs.mu.Unlock()
	c.jobs.held[c.counted] = struct{}{}
	return nil
}

// admit counts the request for keep from now on, unless a limit forbids it. If its count has expired, it is counted again or refused.
func (c *Count) admit(ctx context.Context, keep time.Duration) *wire.Error {
	c.asked = true
	gate := c.jobs.options.Gate
	if c.counted == nil {
		if !gate.LimitsJobs(c.spec.Tenant) {
			return nil // the limits have changed
		}
		c.counted = &counted{spec: c.spec, name: c.jobs.options.NextName()}
	}
	refusal, err := gate.AdmitJob(ctx, &c.spec, c.counted.name, keep)
	if err != nil {
		c.jobs.options.Errors.RecordError("admit", err)
		c.uncount() // it may be counted
		return store.Unavailable()
	}
	if refusal == nil {
		return nil
	}
	c.jobs.forget(c.counted)
	c.counted, c.refusal = nil, limitRefusal{refusal.Error, refusal.Limit}
	if c.place != nil {
		c.jobs.waiting.refused(c.place, c.refusal)
	}
	return refusal.Error
}

// Await waits until it is the turn of the request to be tried again after a limit has refused it, at most until a time or until stop is
// closed. It reports whether its turn has come. A refusal says that too many requests wait.
func (c *Count) Await(ctx context.Context, until time.Time, stop <-chan struct{}) (turn bool, _ *wire.Error) {
	if c.place == nil {
		if c.place = c.jobs.waiting.join(c); c.place == nil {
			return false, wire.Errorf(wire.QueueFull,
				"too many requests wait for the limits of their tenants: try again later").RetryIn(time.Second)
		}
	}
	return c.jobs.waiting.await(ctx, c.place, until, stop), nil
}

// Created says that the request has become a job, with whose end its count ends.
func (c *Count) Created() { c.Forget() }

// Forget leaves the count as it is: the job may exist. It expires if nobody ends it.
func (c *Count) Forget() {
	if c != nil && c.counted != nil {
		c.jobs.forget(c.counted)
		c.counted = nil
	}
}

// Release ends the count of a request that becomes no job, and gives its tokens back. It may be counted again.
func (c *Count) Release() {
	if c != nil {
		c.leaveQueue(false)
		c.uncount()
	}
}

// leaveQueue takes the request out of those that wait for a limit.
func (c *Count) leaveQueue(admitted bool) {
	if c.place != nil {
		c.jobs.waiting.leave(c.place, admitted)
		c.place = nil
	}
}

func (c *Count) uncount() {
	if c.counted != nil {
		c.jobs.release(c.counted)
		c.counted = nil
	}
}
