package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/waiting"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// recheckInterval is how often a request that waits for the store is tried again.
	recheckInterval = time.Second
	// recheckIncapable is how often a request is tried again for which no node is capable.
	recheckIncapable = 200 * time.Millisecond
	// announceAfter is how long a request waits before the wait is announced to its caller.
	announceAfter = 250 * time.Millisecond
)

// waits reports whether the request may wait for a slot.
func (c *call) waits() bool { return c.Wait != nil }

// waitsUntil returns until when the request waits; zero: it does not.
func (c *call) waitsUntil() time.Time {
	if c.Wait == nil {
		return time.Time{}
	}
	return c.Wait.Until
}

// mayWait reports whether a request that was refused waits and is tried again.
func (c *call) mayWait(refusal *wire.Error) bool {
	switch refusal.Code {
	case wire.CannotBeMet, wire.QueueFull:
		return false
	}
	return c.waits() && refusal.Code.Retryable() && time.Now().Before(c.waitEnds(refusal))
}

// waitEnds returns until when a request waits that was refused: it is refused for good then. One that a rate of its tenant forbids for
// longer than it may wait is refused at once, so that its caller knows when to come again.
func (c *call) waitEnds(refusal *wire.Error) time.Time {
	switch {
	case refusal.Code == wire.NoCapableNode && c.Wait.Join.Before(c.Wait.Until):
		return c.Wait.Join
	case refusal.Code == wire.RateLimited && c.count.Limit().IsRate() &&
		time.Now().Add(time.Duration(refusal.RetryAfterMS)*time.Millisecond).After(c.Wait.Until):
		return time.Time{}
	}
	return c.Wait.Until
}

// await waits for what a refusal says is missing. It returns the node of which the request was offered a slot, if that was it, or a refusal
// that takes the place of the other.
func (d *Dispatcher) await(c *call, refusal *wire.Error) (offered core.NodeID, e *wire.Error) {
	d.cancels.begin(c)
	asleep := time.Now()
	defer func() { c.waited += time.Since(asleep) }()
	switch refusal.Code {
	case wire.AllCandidatesFullOrFailed: // a slot
		if c.ticket == nil {
			c.ticket = d.Waiting.Ticket(waiting.Entry{
				Job: c.id, Spec: &c.Spec, Since: c.Wait.Since, Until: c.Wait.Until, Stop: d.stopped(c),
			})
		}
		if !c.ticket.Waits() {
			if refused := c.count.Hold(d.decide.Context()); refused != nil {
				return "", refused
			}
		}
		c.announceWhile(c.ticket.Estimate, func(until time.Time) bool {
			offered, e = c.ticket.Await(c.ctx, until)
			return offered != "" || e != nil
		})
	case wire.RateLimited: // a limit of its tenant
		c.ticket.Leave()
		c.announceWhile(unknownEstimate, func(until time.Time) (turn bool) {
			turn, e = c.count.Await(c.ctx, until, d.stopped(c))
			return turn || e != nil
		})
	default: // a capable node, or the store
		c.ticket.Leave()
		c.count.Release()
		d.pause(c, refusal)
	}
	return offered, e
}

func unknownEstimate() time.Duration { return waiting.EstimateUnknown }

// announceWhile waits until wait returns true or the time of the request is over, and announces a wait that takes long.
func (c *call) announceWhile(estimate func() time.Duration, wait func(until time.Time) bool) {
	if first := time.Now().Add(announceAfter); !c.announced && c.Wait.Announce != nil && first.Before(c.Wait.Until) {
		if wait(first) || time.Now().Before(first) {
			return
		}
		left := estimate()
		if left != waiting.EstimateUnknown {
			left = max(left-announceAfter, 0)
		}
		c.announced = true
		c.Wait.Announce(left)
	}
	wait(c.Wait.Until)
}

// pause waits until a request that lacks no slot is tried again.
func (d *Dispatcher) pause(c *call, refusal *wire.Error) {
	interval := recheckInterval
	if refusal.Code == wire.NoCapableNode {
		interval = recheckIncapable
	}
	timer := time.NewTimer(min(run.Jitter(interval, 0.2), time.Until(c.waitEnds(refusal))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.stopped(c):
	case <-c.ctx.Done():
	}
}

// stopped returns a channel that is closed when this instance takes no job of a request any more.
func (d *Dispatcher) stopped(c *call) <-chan struct{} {
	if c.Utterance.Turn == 0 {
		return d.left
	}
	return d.drained
}

// gaveUp returns why a request does not wait any more: it was cancelled, or its caller has left.
func (c *call) gaveUp() *wire.Error {
	var e *wire.Error
	if errors.As(context.Cause(c.ctx), &e) {
		return e
	}
	return store.CallError(c.ctx)
}
