package store

import (
	"cmp"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Step decides one step on a record without touching it: the pure half of Jobs.Apply. It returns the record
// that stands afterwards. Every implementation must come to the same answer, so the suite compares them with
// this one.
func Step(job *core.Job, p *ApplyParams, now time.Time) (*core.Job, Outcome) {
	if repeated(job, p) {
		return job, Repeated
	}
	if refused := foreign(job, p); refused != 0 {
		return job, refused
	}
	if job.State.Terminal() {
		return job, Ended
	}
	state, legal := job.State.Next(p.Event)
	if !legal {
		return job, Illegal
	}
	if job.State == core.StateRetrying && !mayDecideRetry(job, p, now) {
		return job, Owned
	}

	next := job.Clone()
	next.State = state
	next.Updated = now
	next.Version++
	switch p.Event {
	case core.EventDone:
		next.EndAttempt(now, core.ReasonNone)
		next.Reason, next.Detail = core.ReasonNone, ""
		next.Result = p.Result
	case core.EventRetry:
		next.EndAttempt(now, p.Reason)
		next.Reason, next.Detail = p.Reason, p.Detail
		next.Owner, next.Retry = p.Owner, now.Add(p.RetryFor)
		suspend(&next, p)
	case core.EventTakeover:
		if job.Owner != p.Owner { // by its owner it is a renewal, or a repeat
			suspend(&next, p)
		}
		next.Owner, next.Retry = p.Owner, now.Add(p.RetryFor)
	case core.EventMove:
		next.EndAttempt(now, p.Reason)
		next.Holder, next.Token = p.To, p.Token
		next.Owner, next.Retry = "", time.Time{}
		next.BeginAttempt(now)
	case core.EventRebind:
		next.Holder = p.To
		next.History[len(next.History)-1].Holder = p.To
	case core.EventFail, core.EventCancel:
		next.EndAttempt(now, cmp.Or(p.Cause, p.Reason))
		next.Reason, next.Detail = p.Reason, p.Detail
	}
	if state.Terminal() {
		next.Owner, next.Retry = "", time.Time{}
	}
	return &next, Decided
}

// repeated recognises a step that the record already shows, so that a lost reply does no harm.
func repeated(job *core.Job, p *ApplyParams) bool {
	mine := p.AnyHolder || foreign(job, p) == 0
	switch p.Event {
	case core.EventDone:
		return job.State == core.StateDone && mine
	case core.EventRetry:
		return job.State == core.StateRetrying && mine && job.Owner == p.Owner
	case core.EventMove:
		return job.State == core.StateDispatched && job.Holder == p.To && job.Token == p.Token
	case core.EventRebind:
		return !job.State.Terminal() && job.Holder == p.To
	case core.EventFail:
		return job.State == core.StateFailed && mine && job.Reason == p.Reason
	case core.EventCancel:
		return job.State == core.StateCancelled
	}
	return false
}

// foreign says why the job is not held by whom the caller thinks; 0 when it is.
func foreign(job *core.Job, p *ApplyParams) Outcome {
	switch {
	case p.HeldToken != "" && job.Token != p.HeldToken:
		return NotHolder
	case p.AnyHolder:
		return 0
	case job.Attempt != p.Holder.Attempt:
		return StaleAttempt
	case job.Node != p.Holder.Node:
		return NotHolder
	case p.Holder.Epoch != 0 && job.Epoch != p.Holder.Epoch:
		return HolderStaleEpoch
	}
	return 0
}

// mayDecideRetry reports whether the caller may step out of RETRYING. Its owner may; a result, a cancel or
// the job's own deadline may; anybody may once the owner's time is over.
func mayDecideRetry(job *core.Job, p *ApplyParams, now time.Time) bool {
	switch p.Event {
	case core.EventMove:
		return job.Owner == p.Owner
	case core.EventFail:
		return p.AnyHolder || job.Owner == p.Owner
	case core.EventTakeover: // by its owner it is a renewal
		return job.Owner == p.Owner || !now.Before(job.Retry)
	}
	return true
}

// suspend moves the deadline of a job that waits for its audio, not for a node.
func suspend(job *core.Job, p *ApplyParams) {
	if p.Suspends {
		job.Deadline = job.Deadline.Add(p.RetryFor)
	}
}
