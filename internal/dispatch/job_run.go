package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/internal/waiting"
	"github.com/lingua-scheduler/lingua/wire"
)

// jobRun takes one job through its attempts until a node has it. It ends when the job was delivered, when the job failed for
// good, or when another instance or goroutine decided about it. It is not safe for concurrent use.
type jobRun struct {
	runner     *runner
	entry      *inFlightJob
	job        *core.Job
	reservedAt time.Time  // the current holder's slot was reserved then, or a little later
	owner      core.Token // while RETRYING: the token under which the retry is ours
	caller     caller
	trace      *tracing.Trace // nil: tracing is off

	tried      []core.NodeID   // nodes that had the job
	blocked    []core.Holder   // of these, nodes that may still have it, or cannot do it, until they register again
	refused    []refusal       // of these, nodes that refused it
	failed     []core.NodeID   // of these, nodes that reported a failure, or lost their connection
	avoidOwner core.InstanceID // its nodes are chosen only if there are no others

	refusedSelection *refusedSelection // the selection for which the caller is refused; nil: none

	// storeDown means that the store could not be asked before the context ended.
	storeDown bool
}

// caller says what the request that made the job still expects of its jobRun.
type caller uint8

const (
	callerNone        caller = iota // no request waits for the placement
	callerRefusable                 // it waits, and can be refused while no node has started the job
	callerUntilPlaced               // it waits until the job is placed, and can be refused only while nothing was sent
)

// refusal is a node's refusal of a job.
type refusal struct {
	node core.NodeID
	at   time.Time
}

// refusalHolds is how long a node that refused a job is not asked again for it.
const refusalHolds = time.Second

// attemptFailure says why an attempt is over.
type attemptFailure struct {
	reason core.Reason
	detail string
	// freeSlot means that the node seems not to have the job: its slot is freed before another node is selected.
	freeSlot bool
	// confirmed means that the node itself said so. Otherwise it may still turn out to have the job.
	confirmed bool
	// sameAttempt means that the failure costs no attempt: the next node gets the job under the same number.
	sameAttempt bool
}

// exclude records why a node no longer holds the job. A node that did not get the audio stays eligible, but another is tried first.
func (j *jobRun) exclude(holder core.Holder, reason core.Reason) {
	node := holder.Node
	switch reason {
	case core.ReasonAudioLost:
		if j.job.Options.OnlyNode() != "" {
			return
		}
	case core.ReasonNodeBusy, core.ReasonDeliveryRefused: // it does not have the job, and may have a free slot soon
		j.refused = append(j.refused, refusal{node, time.Now()})
	case core.ReasonNodeFailed, core.ReasonDisconnected:
		j.failed = append(j.failed, node)
	case core.ReasonACKTimeout, core.ReasonDeliveryUnknown:
		// The instance to which it is connected may be the one that receives nothing.
		if n := j.runner.fleet.Node(node); n != nil && n.Declared().Owner != j.runner.cfg.Instance {
			j.avoidOwner = n.Declared().Owner
		}
		j.blocked = append(j.blocked, holder)
	default:
		j.blocked = append(j.blocked, holder)
	}
	j.tried = append(j.tried, node)
}

// excluded returns the nodes that must not get the job even though no other node can take it now. If there is no other node
// at all, a second try is better than none: a node that reported a failure or lost its connection is tried again, and so is one that
// has registered again since, because it does not have what it did not list then.
func (j *jobRun) excluded() []core.NodeID {
	var list []core.NodeID
	again := slices.Clone(j.failed)
	for _, h := range j.blocked {
		if n := j.runner.fleet.Node(h.Node); n != nil && n.Declared().Epoch != h.Epoch {
			again = append(again, h.Node)
		} else {
			list = append(list, h.Node)
		}
	}
	for _, r := range j.refused {
		if time.Since(r.at) < refusalHolds {
			list = append(list, r.node)
		}
	}
	if len(again) > 0 && j.runner.selector.hasOther(j.tried, &j.job.Spec) {
		list = append(list, again...)
	}
	return list
}

// run delivers the job, to another node if need be, until a node has it.
func (j *jobRun) run(ctx context.Context) (Placement, *wire.Error) {
	for {
		began := time.Now()
		err := j.deliver()
		var moved bool
		switch {
		case err == nil, !errors.Is(err, ErrBusy) && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrNoAudio) &&
			j.acknowledgedAnyway(ctx, began):
			j.awaitACK()
			return Placement{Job: j.job.ID, Node: j.job.Node, Attempt: j.job.Attempt}, nil
		case errors.Is(err, ErrNoAudio):
			j.suspendForAudio(ctx, attemptFailure{reason: core.ReasonAudioLost, freeSlot: true, confirmed: true, sameAttempt: true})
		case errors.Is(err, ErrBusy):
			moved = j.retry(ctx, attemptFailure{reason: core.ReasonNodeBusy, freeSlot: true, confirmed: true, sameAttempt: true})
		case errors.Is(err, ErrRefused):
			moved = j.retry(ctx, attemptFailure{reason: core.ReasonDeliveryRefused, freeSlot: true, confirmed: true, sameAttempt: true})
		default:
			moved = j.retry(ctx, attemptFailure{reason: core.ReasonDeliveryUnknown})
		}
		if !moved {
			return placementOf(j.job, j.job.Fingerprint)
		}
	}
}

// retry ends the current attempt and moves the job to another node. It returns false when the run is over: the record then
// says how.
func (j *jobRun) retry(ctx context.Context, f attemptFailure) bool {
	return j.endAttempt(ctx, f) && j.reassign(ctx, f)
}

// continueElsewhere moves a job whose attempt has ended to another node and delivers it there. No caller waits for the
// result; the record says how it ended.
func (j *jobRun) continueElsewhere(ctx context.Context, f attemptFailure) {
	if j.reassign(ctx, f) {
		_, _ = j.run(ctx)
	}
}

// retryLease is how long a retry belongs to the instance that owns it. The owner renews it after half of that; another
// instance may take the retry over when it has expired.
const retryLease = 3 * time.Second

// endAttempt records that the current attempt is over: RETRYING in our name, or FAILED if there is nothing left to try. It
// reports whether there is a retry to be made, by this run.
func (j *jobRun) endAttempt(ctx context.Context, f attemptFailure) bool {
	switch {
	case !time.Now().Before(j.entry.deadline):
		j.failJob(ctx, f, core.ReasonDeadline)
		return false
	case !f.sameAttempt && j.job.Attempt > j.runner.cfg.MaxRetry,
		f.reason == core.ReasonAudioLost && j.timesAudioLost() >= j.runner.cfg.MaxRetry:
		j.failJob(ctx, f, core.ReasonMaxRetry)
		return false
	case j.job.Options.OnlyNode() != "" && f.sameAttempt && j.canRefuse(f):
		j.failJob(ctx, f, core.ReasonAllFull)
		return false
	case j.job.Options.OnlyNode() != "" && f.reason != core.ReasonAudioLost:
		j.failJob(ctx, f, f.reason) // no other node is accepted
		return false
	}
	if !j.runner.cfg.HasAudio(j.job) {
		if j.suspendForAudio(ctx, f) {
			j.recordFailure(j.job.Node, f)
			j.runner.metrics.Retries.WithLabelValues(string(f.reason)).Inc()
		}
		return false
	}
	j.exclude(j.job.Holder, f.reason)
	node := j.job.Node
	j.owner = j.runner.tokens.next()
	if !j.apply(ctx, store.ApplyParams{
		Event: core.EventRetry, Holder: j.job.Holder, Owner: j.owner, RetryFor: retryLease, Reason: f.reason, Detail: f.detail,
	}) {
		return false
	}
	j.recordFailure(node, f)
	j.runner.metrics.Retries.WithLabelValues(string(f.reason)).Inc()
	j.runner.log.Info("attempt given up", "job_id", j.job.ID, "node_id", j.job.Node, "attempt_id", j.job.Attempt, "reason", f.reason)
	if f.freeSlot {
		// The slot is free, but until the job has moved it must be found through this lease.
		j.runner.slots.release(leaseOf(j.job), j.runner.fleet.Node(j.job.Node), true)
	}
	return j.entry.beginSelection(j.job)
}

// timesAudioLost returns how often the job was repeated because its audio was lost. That costs no attempt, and is bounded like attempts: a
// fault between a node and the audio may last.
func (j *jobRun) timesAudioLost() (times int) {
	for _, past := range j.job.History {
		if past.Reason == core.ReasonAudioLost {
			times++
		}
	}
	return times
}

// recordFailure records an attempt that a node has failed. Refusals of a busy node and missed ACKs are counted. A probe counts for nothing.
func (j *jobRun) recordFailure(node core.NodeID, f attemptFailure) {
	if j.job.TestJob {
		return
	}
	n := j.runner.fleet.Node(node)
	if f.reason == core.ReasonNodeBusy {
		j.runner.metrics.NodeBusy.Inc()
	}
	if n != nil && (f.reason == core.ReasonNodeBusy || f.reason == core.ReasonDeliveryRefused) {
		j.runner.waiting.NodeRefused(n)
	}
	if isMissedACK(f.reason) {
		j.runner.metrics.ACKTimeouts.Inc()
		// Only a delivery to a callback URL by this instance is known to have reached the node. Whether a node with a connection has said
		// nothing is known, and counted, where the connection is.
		if n == nil || n.Declared().Callback == "" || !issuedBy(j.job.Token, j.runner.cfg.Instance) {
			return
		}
	}
	j.runner.blame(node, j.job.Direction, f.reason)
}

// isMissedACK reports whether a reason means that an attempt was not acknowledged.
func isMissedACK(r core.Reason) bool {
	return r == core.ReasonACKTimeout || r == core.ReasonDeliveryUnknown
}

// blame counts a failed attempt against its node, unless the store has been unavailable during the attempt or not long before: what the
// node did may not have been recorded.
func (r *runner) blame(node core.NodeID, d core.Direction, reason core.Reason) {
	if r.store.SinceError() < r.cfg.AttemptTimeout {
		return
	}
	r.cfg.Observer.AttemptEnded(node, d, reason)
	if n := r.fleet.Node(node); n != nil && isMissedACK(reason) {
		n.RecordMissedACK(r.fleet.Now())
	}
}

// reassign selects another node for a job that is RETRYING in our name, however long that takes, and moves the job there. It
// returns false when the run is over, or continues in the background: a refusable caller is not kept waiting until a node
// has a free slot.
func (j *jobRun) reassign(ctx context.Context, f attemptFailure) bool {
	attempt := j.job.Attempt
	if !f.sameAttempt {
		attempt++
	}
	steps := j.trace.Steps()
	if steps != nil {
		defer steps.Export(j.trace.Retry(j.job.Token))
	}
	renew := time.Now().Add(retryLease / 2)
	backoff := telemetry.StoreBackoff // for waits that are not for a slot
	ticket := j.ticket()
	defer ticket.Leave()
	var offered core.NodeID
	for repeated := false; ; repeated = true {
		decide := j.runner.decide.Context() // ends with the fence
		r := slotRequest{
			job: j.job.ID, spec: &j.job.Spec, attempt: attempt, token: j.runner.tokens.next(), tried: j.tried, avoidOwner: j.avoidOwner,
			firstPool: j.job.Pool.ID, offered: offered, recorded: true, steps: steps,
		}
		if repeated {
			r.tried = j.excluded() // no other node could take it
		}
		if offered == "" {
			r.claims = j.runner.waiting.Claims(decide)
		}
		to, refusal := j.runner.selector.selectNode(decide, &r)
		switch {
		case refusal == nil:
			ticket.Served()
			return j.moveTo(ctx, f, j.retryHolder(), to)
		case ctx.Err() != nil:
			return false // closing: another instance takes the retry over
		case f.sameAttempt && refusal.Code != wire.SchedulerDependencyDown && j.canRefuse(f):
			j.refusedSelection = r.refused
			j.failJob(ctx, f, core.ReasonAllFull)
			return false
		case !time.Now().Add(backoff.Next()).Before(j.entry.deadline):
			if r.refused != nil {
				j.runner.selector.pools.failed(r.refused)
			}
			j.failJob(ctx, f, core.ReasonDeadline)
			return false
		}
		if j.runner.draining.Load() {
			j.handOff(ctx)
			return false
		}
		if j.caller == callerRefusable {
			detached := *j
			detached.caller = callerNone
			j.runner.tasks.Go(func(ctx context.Context) { detached.continueElsewhere(ctx, f) })
			return false
		}
		var e *wire.Error
		// The first selection avoids the nodes that had the job; the next one may choose some of them. An offer of a node that must not get
		// the job is for others.
		if refusal.Code == wire.AllCandidatesFullOrFailed && repeated && !slices.Contains(j.excluded(), offered) {
			offered, e = ticket.Await(ctx, earlier(renew, j.entry.deadline))
		} else {
			ticket.Leave()
			offered, e = "", refusal
		}
		if e != nil && !backoff.Wait(ctx) || ctx.Err() != nil {
			return false
		}
		if !time.Now().Before(renew) {
			if !j.takeOverRetry(ctx, j.owner, retryLease) {
				return false
			}
			renew = time.Now().Add(retryLease / 2)
		}
	}
}

// ticket returns the ticket with which a job that is retried waits for a slot, beside the requests. It counts as waiting from when its node
// lost its connection.
func (j *jobRun) ticket() *waiting.Ticket {
	return j.runner.waiting.Ticket(waiting.Entry{
		Job: j.job.ID, Spec: &j.job.Spec, Since: j.runner.lost.since(j.job.Node), Until: j.entry.deadline, Accepted: true,
		Except: func() []core.NodeID {
			return slices.DeleteFunc(j.excluded(), func(id core.NodeID) bool { return j.runner.fleet.Node(id) == nil })
		},
	})
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// canRefuse reports whether the caller still waits and no node has started the job, so that the request can be refused.
func (j *jobRun) canRefuse(f attemptFailure) bool {
	refusable := j.caller == callerRefusable || j.caller == callerUntilPlaced && f.reason == core.ReasonDeliveryRefused
	return refusable && f.confirmed && !slices.ContainsFunc(j.job.History, func(a core.Attempt) bool {
		return !a.Ended.IsZero() && a.Reason != core.ReasonNodeBusy && a.Reason != core.ReasonDeliveryRefused
	})
}

// moveTo gives the job to the node of a reservation, if it still has the given holder and, while RETRYING, the retry is still ours.
func (j *jobRun) moveTo(ctx context.Context, f attemptFailure, from core.Holder, to reservation) bool {
	old := j.job
	if !j.apply(ctx, store.ApplyParams{
		Event: core.EventMove, Holder: from, Owner: j.owner, Reason: f.reason,
		To: core.Holder{Attempt: to.lease.Attempt, Node: to.lease.Node, Epoch: to.epoch}, Token: to.lease.Token,
	}) {
		j.runner.slots.giveUp(&to)
		return false
	}
	j.reservedAt = to.reservedAt
	j.runner.slots.releaseOrRevoke(old, f.confirmed)
	// If the job has been moved again meanwhile, the one that moved it delivers it.
	return j.entry.setMoved(j.job, to.member.Node, time.Now().Add(j.runner.cfg.AttemptTimeout))
}

// takeOverRetry makes a retry ours: it renews our own, or takes over one whose owner's lease has expired. It reports whether
// it did.
func (j *jobRun) takeOverRetry(ctx context.Context, owner core.Token, lasts time.Duration) bool {
	return j.apply(ctx, store.ApplyParams{Event: core.EventTakeover, Holder: j.retryHolder(), Owner: owner, RetryFor: lasts})
}

// handOff leaves a retry to another instance, because this one is stopping.
func (j *jobRun) handOff(ctx context.Context) {
	if j.takeOverRetry(ctx, j.owner, 0) {
		j.runner.handedOff.Store(true)
		j.runner.inFlight.remove(j.job.ID)
	}
}

// retryHolder returns the holder for a step on a RETRYING record. Its owner is the fence then, not the epoch of the last
// node, which may have registered again.
func (j *jobRun) retryHolder() core.Holder {
	return core.Holder{Attempt: j.job.Attempt, Node: j.job.Node}
}

// failJob ends the job as FAILED.
func (j *jobRun) failJob(ctx context.Context, f attemptFailure, reason core.Reason) {
	old := j.job
	holder := old.Holder
	if old.State == core.StateRetrying {
		holder = j.retryHolder()
	}
	if j.apply(ctx, store.ApplyParams{
		Event: core.EventFail, Holder: holder, Owner: j.owner, Reason: reason, Cause: f.reason, Detail: f.detail,
	}) {
		if old.State == core.StateDispatched {
			j.recordFailure(old.Node, f)
		}
		if j.runner.retryReportOutcome(ctx, j.job) {
			j.runner.slots.releaseOrRevoke(old, f.confirmed)
		}
	}
}

// apply makes one step on the record, with retries while the store does not answer, and keeps the resulting record. It
// reports whether the step was made; if not, the run is over.
func (j *jobRun) apply(ctx context.Context, p store.ApplyParams) bool {
	p.Job, p.Seen = j.job.ID, j.job
	var applied store.Applied
	if !j.runner.store.Retry(ctx, func() (err error) {
		began := time.Now()
		applied, err = j.runner.store.Apply(ctx, p)
		if err == nil && applied.Outcome == store.NoJob && j.runner.restoreRecord(ctx, j.job.ID) {
			applied, err = j.runner.store.Apply(ctx, p)
		}
		if j.trace.Sampled() {
			parent := j.trace.Attempt(j.job.Token)
			if p.Event == core.EventMove || p.Event == core.EventTakeover {
				parent = j.trace.Retry(j.job.Token)
			}
			traceApply(j.trace, parent, began, p.Event, &applied, err)
		}
		return err
	}) {
		j.storeDown = true
		if !j.runner.tokens.owns(j.job) {
			j.runner.inFlight.remove(j.job.ID) // the instance that runs it has the timer
		}
		return false
	}
	if applied.Outcome == store.NoJob {
		j.runner.inFlight.remove(j.job.ID)
		return false
	}
	j.job = applied.Job
	j.runner.traceOutcome(&applied)
	switch {
	case j.job.State.Terminal():
		j.runner.jobEnded(&applied)
	case !applied.Outcome.Stands() && !j.runner.tokens.owns(j.job):
		j.runner.inFlight.remove(j.job.ID) // another instance runs it
	}
	return applied.Outcome.Stands()
}
