package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// How a scheduler of the stress test dispatches jobs. It makes the same store calls in the same order as package dispatch, because the
// promises depend on that order when the process is killed between two calls.

const (
	stressMaxRetry     = 2
	stressSample       = 5                      // nodes that are tried for one reservation
	stressRetryFor     = 500 * time.Millisecond // how long a retry belongs to its owner
	stressReserveTries = 12                     // tries of a retry before the job fails
)

// attemptEnd is why an attempt ended.
type attemptEnd struct {
	reason  core.Reason
	freed   bool // the node does not seem to have the job
	certain bool // the node itself reported it
	free    bool // it does not count as an attempt
}

// reservation is a reserved slot.
type reservation struct {
	ref   core.LeaseRef
	epoch core.Epoch
	at    time.Time // when it was requested
}

func leaseOf(job *core.Job) core.LeaseRef {
	return core.LeaseRef{Node: job.Node, Job: job.ID, Attempt: job.Attempt, Token: job.Token}
}

// reserveAny reserves a slot on a random node.
func (w *scheduler) reserveAny(ctx context.Context, job core.JobID, attempt int, tried []core.NodeID) (reservation, bool) {
	nodes := w.candidates(tried)
	for _, n := range nodes[:min(stressSample, len(nodes))] {
		f := reservation{ref: core.LeaseRef{Node: n.ID, Job: job, Attempt: attempt, Token: w.newToken()}}
		for range 2 {
			f.epoch, f.at = n.Epoch, time.Now()
			r, err := w.store.Reserve(ctx, store.ReserveParams{Lease: f.ref, Epoch: n.Epoch, Revision: n.Revision})
			if err != nil {
				w.reportError("reserve", err)
				return reservation{}, false
			}
			if r.Verdict == store.OK {
				return f, true
			}
			if r.Verdict != store.StaleEpoch && r.Verdict != store.StaleRevision {
				break
			}
			status, err := store.ReadNode(ctx, w.store, n.ID)
			if err != nil {
				w.reportError("node", err)
				return reservation{}, false
			}
			n = status.Node
			w.rememberNode(n)
		}
	}
	return reservation{}, false
}

func (w *scheduler) release(ctx context.Context, ref core.LeaseRef, park bool) {
	if err := w.store.Release(ctx, store.ReleaseParams{Lease: ref, Park: park}); err != nil {
		w.reportError("release", err)
	}
}

// submit creates and delivers a job, unless it exists.
func (w *scheduler) submit(ctx context.Context, id core.JobID) string {
	f, ok := w.reserveAny(ctx, id, 1, nil)
	if !ok {
		job, err := w.getRecord(ctx, id)
		if err != nil || job == nil {
			return "refused"
		}
		return "accepted"
	}
	job, created, err := w.store.Create(ctx, store.CreateParams{
		ID: id, Spec: core.Spec{Request: core.RequestID(id), Session: "stress"}, Fingerprint: "print",
		Holder: core.Holder{Attempt: 1, Node: f.ref.Node, Epoch: f.epoch}, Token: f.ref.Token, Timeout: stressTiming.Retention,
	})
	switch {
	case err != nil:
		w.reportError("create", err)
		return "refused"
	case !created:
		w.rememberJob(job, false)
		w.release(ctx, f.ref, false)
		return "accepted"
	}
	w.rememberJob(job, false)
	w.deliver(ctx, job, f.at)
	return "accepted"
}

// getRecord reads a record, nil when there is none.
func (w *scheduler) getRecord(ctx context.Context, id core.JobID) (*core.Job, error) {
	job, err := w.store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNoJob):
		return nil, nil
	case err != nil:
		w.reportError("get", err)
		return nil, err
	}
	w.rememberJob(job, false)
	return job, nil
}

// deliver delivers a job, to other nodes if necessary, until one accepts it. Some deliveries are delayed.
func (w *scheduler) deliver(ctx context.Context, job *core.Job, at time.Time) {
	for {
		if rand.IntN(20) == 0 {
			run.Sleep(ctx, rand.N(stressTiming.ReservedTTL/2))
		}
		a, ok := w.conn.call(rpcMessage{
			Kind: "assign", Node: job.Node, Epoch: job.Epoch, Job: job.ID, Attempt: job.Attempt, At: at.UnixMilli(),
		})
		c := attemptEnd{reason: core.ReasonNodeBusy, freed: true, certain: true, free: true}
		switch {
		case !ok:
			return
		case a.Result == "acked":
			if _, err := w.store.Commit(ctx, leaseOf(job)); err != nil {
				w.reportError("commit", err)
			}
			return
		case a.Result == "no_reply":
			c = attemptEnd{reason: core.ReasonDeliveryUnknown}
		}
		if job, ok = w.endAttempt(ctx, job, c); !ok {
			return
		}
		if job, at, ok = w.moveToOther(ctx, job, c); !ok {
			return
		}
	}
}

// endAttempt records that the current attempt has ended. It reports whether there is a retry that this scheduler owns.
func (w *scheduler) endAttempt(ctx context.Context, job *core.Job, c attemptEnd) (*core.Job, bool) {
	if !c.free && job.Attempt > stressMaxRetry {
		w.failJob(ctx, job, c, core.ReasonMaxRetry)
		return nil, false
	}
	a, ok := w.apply(ctx, store.ApplyParams{
		Job: job.ID, Event: core.EventRetry, Holder: job.Holder, Owner: w.newToken(), RetryFor: stressRetryFor, Reason: c.reason,
	})
	if !ok {
		return nil, false
	}
	if c.freed {
		w.release(ctx, leaseOf(a.Job), true)
	}
	return a.Job, true
}

// moveToOther reserves another node for a job in RETRYING that this scheduler owns, and moves the job there.
func (w *scheduler) moveToOther(ctx context.Context, job *core.Job, c attemptEnd) (*core.Job, time.Time, bool) {
	attempt := job.Attempt
	if !c.free {
		attempt++
	}
	var tried []core.NodeID
	for _, past := range job.History {
		tried = append(tried, past.Node)
	}
	for range stressReserveTries {
		if to, ok := w.reserveAny(ctx, job.ID, attempt, tried); ok {
			return w.move(ctx, job, c, to)
		}
		run.Sleep(ctx, rand.N(20*time.Millisecond))
	}
	w.failJob(ctx, job, c, core.ReasonDeadline)
	return nil, time.Time{}, false
}

// retryHolder returns the holder of a job in RETRYING, without the epoch: its owner is the fence then.
func retryHolder(job *core.Job) core.Holder { return core.Holder{Attempt: job.Attempt, Node: job.Node} }

func (w *scheduler) move(ctx context.Context, job *core.Job, c attemptEnd, to reservation) (*core.Job, time.Time, bool) {
	a, ok := w.apply(ctx, store.ApplyParams{
		Job: job.ID, Event: core.EventMove, Holder: retryHolder(job), Owner: job.Owner, Reason: c.reason,
		To: core.Holder{Attempt: to.ref.Attempt, Node: to.ref.Node, Epoch: to.epoch}, Token: to.ref.Token,
	})
	if !ok {
		w.release(ctx, to.ref, false)
		return nil, time.Time{}, false
	}
	w.freeSlot(ctx, job, c.certain)
	return a.Job, to.at, true
}

// failJob ends a job as FAILED.
func (w *scheduler) failJob(ctx context.Context, job *core.Job, c attemptEnd, reason core.Reason) {
	holder := job.Holder
	if job.State == core.StateRetrying {
		holder = retryHolder(job)
	}
	if _, ok := w.apply(ctx, store.ApplyParams{
		Job: job.ID, Event: core.EventFail, Holder: holder, Owner: job.Owner, Reason: reason, Cause: c.reason,
	}); ok {
		w.freeSlot(ctx, job, c.certain)
	}
}

// freeSlot releases the lease of an ended attempt if the node reported its end, and revokes it otherwise.
func (w *scheduler) freeSlot(ctx context.Context, old *core.Job, certain bool) {
	if certain {
		w.release(ctx, leaseOf(old), false)
		return
	}
	if err := w.store.Revoke(ctx, leaseOf(old)); err != nil {
		w.reportError("revoke", err)
	}
	w.conn.send(rpcMessage{Kind: "stop", Node: old.Node, Job: old.ID, Attempt: old.Attempt})
}

func (w *scheduler) cancel(ctx context.Context, id core.JobID) string {
	a, ok := w.apply(ctx, store.ApplyParams{Job: id, Event: core.EventCancel, AnyHolder: true, Reason: core.ReasonCancelled})
	if ok {
		w.freeSlot(ctx, a.Job, false)
	}
	return a.Outcome.String()
}

// resultOf returns the result of a node: the node and the attempt.
func resultOf(node core.NodeID, attempt int) string { return fmt.Sprintf("%s/%d", node, attempt) }

// handleResult handles the result of a node.
func (w *scheduler) handleResult(ctx context.Context, n rpcMessage) string {
	a, ok := w.apply(ctx, store.ApplyParams{
		Job: n.Job, Event: core.EventDone, Holder: core.Holder{Attempt: n.Attempt, Node: n.Node, Epoch: n.Epoch},
		Result: fmt.Appendf(nil, "%q", resultOf(n.Node, n.Attempt)),
	})
	if !ok {
		w.releasePastAttempt(ctx, n, a)
		return a.Outcome.String()
	}
	w.release(ctx, leaseOf(a.Job), false)
	return "stored"
}

// handleFailure handles the report of a node that it could not do a job.
func (w *scheduler) handleFailure(ctx context.Context, n rpcMessage) string {
	job, err := w.getRecord(ctx, n.Job)
	if err != nil || job == nil {
		return store.NoJob.String()
	}
	switch {
	case job.Attempt != n.Attempt || job.Node != n.Node:
		w.releasePastAttempt(ctx, n, store.Applied{Outcome: store.NotHolder, Job: job})
		return store.NotHolder.String()
	case job.Epoch != n.Epoch:
		return store.HolderStaleEpoch.String()
	case job.State != core.StateDispatched:
		w.releasePastAttempt(ctx, n, store.Applied{Outcome: store.Ended, Job: job})
		return store.Ended.String()
	}
	c := attemptEnd{reason: core.ReasonNodeFailed, freed: true, certain: true}
	if next, ok := w.endAttempt(ctx, job, c); ok {
		go w.continueRetry(ctx, next, c)
	}
	return "stored"
}

// continueRetry moves a job in RETRYING that this scheduler owns to another node and delivers it there.
func (w *scheduler) continueRetry(ctx context.Context, job *core.Job, c attemptEnd) {
	if next, at, ok := w.moveToOther(ctx, job, c); ok {
		w.deliver(ctx, next, at)
	}
}

// releasePastAttempt releases the lease of an attempt that had ended for the job, after its node reported its end.
func (w *scheduler) releasePastAttempt(ctx context.Context, n rpcMessage, a store.Applied) {
	if a.Job == nil || a.Outcome == store.HolderStaleEpoch {
		return
	}
	ref := core.LeaseRef{Node: n.Node, Job: n.Job, Attempt: n.Attempt, Token: a.Job.Token}
	if a.Job.Attempt != n.Attempt || a.Job.Node != n.Node {
		token, had := a.Job.PastToken(n.Attempt, n.Node)
		if !had {
			return
		}
		ref.Token = token
	} else if !a.Job.State.Terminal() {
		return
	}
	w.release(ctx, ref, false)
}
