package store

import (
	"cmp"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Transition applies an event to a record, without side effects, and returns the record that is the result. It is the pure part of
// Jobs.Apply: every implementation must come to the same result, and the conformance suite compares them with it.
func Transition(job *core.Job, p *ApplyParams, now time.Time) (*core.Job, Outcome) {
	if alreadyApplied(job, p) {
		return job, Repeated
	}
	if refused := checkHolder(job, p); refused != 0 {
		return job, refused
	}
	if job.State.Terminal() {
		return job, Ended
	}
	state, legal := job.State.Next(p.Event)
	if !legal {
		return job, Illegal
	}
	if job.State == core.StateRetrying && !mayLeaveRetrying(job, p, now) {
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
		suspendDeadline(&next, p)
	case core.EventTakeover:
		if job.Owner != p.Owner { // by the same owner it is a renewal, or a repeated call
			suspendDeadline(&next, p)
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

// alreadyApplied recognises an event that the record already shows: the caller lost the first reply.
func alreadyApplied(job *core.Job, p *ApplyParams) bool {
	held := p.AnyHolder || checkHolder(job, p) == 0
	switch p.Event {
	case core.EventDone:
		return job.State == core.StateDone && (held || isRegisteredAgain(job, p))
	case core.EventRetry:
		return job.State == core.StateRetrying && held && job.Owner == p.Owner
	case core.EventMove:
		return job.State == core.StateDispatched && job.Holder == p.To && job.Token == p.Token
	case core.EventRebind:
		return !job.State.Terminal() && job.Holder == p.To
	case core.EventFail:
		return job.State == core.StateFailed && held && job.Reason == p.Reason
	case core.EventCancel:
		return job.State == core.StateCancelled
	}
	return false
}

// isRegisteredAgain reports whether the caller is the holder of the record in a later epoch: a node that did not receive the
// acknowledgement of its result, has registered again on another instance, and sends the result again.
func isRegisteredAgain(job *core.Job, p *ApplyParams) bool {
	return job.Attempt == p.Holder.Attempt && job.Node == p.Holder.Node && p.Holder.Epoch > job.Epoch
}

// checkHolder returns why the holder of the record is not the one that the caller believes it to have, 0 when it is.
func checkHolder(job *core.Job, p *ApplyParams) Outcome {
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

// mayLeaveRetrying reports whether the event may end or renew the retry. Results and cancels always may; a failure may if it comes
// from the owner or is the job's own deadline (AnyHolder); a takeover by another token may after the owner's time.
func mayLeaveRetrying(job *core.Job, p *ApplyParams, now time.Time) bool {
	switch p.Event {
	case core.EventMove:
		return job.Owner == p.Owner
	case core.EventFail:
		return p.AnyHolder || job.Owner == p.Owner
	case core.EventTakeover: // by the same owner it is a renewal
		return job.Owner == p.Owner || !now.Before(job.Retry)
	}
	return true
}

// suspendDeadline moves the deadline of a job that waits for its audio.
func suspendDeadline(job *core.Job, p *ApplyParams) {
	if p.Suspends {
		job.Deadline = job.Deadline.Add(p.RetryFor)
	}
}
