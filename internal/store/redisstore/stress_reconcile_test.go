package redisstore_test

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// How a scheduler of the stress test handles heartbeats and registrations, and the jobs that do not match.

// declaredNode returns a node as it declares itself.
func declaredNode(id core.NodeID, slots int) core.Node {
	c := core.Capability{Semantic: core.NewLangSet("en", "zh"), AnyPair: true}
	return core.Node{ID: id, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: slots, Capability: c, Callback: "http://127.0.0.1:9/jobs"}}
}

func (w *scheduler) handleHeartbeat(ctx context.Context, n rpcMessage) rpcMessage {
	known := w.knownNode(n.Node)
	beat, err := w.store.Heartbeat(ctx, store.HeartbeatParams{
		Node: n.Node, Epoch: n.Epoch, Seq: n.Seq, Known: known, Load: core.UnknownLoad,
		Activity: store.Activity{Lists: true, Active: n.Jobs},
	})
	if err != nil {
		w.reportError("heartbeat", err)
		return rpcMessage{}
	}
	if beat.Verdict != store.OK {
		return rpcMessage{Result: beat.Verdict.String()}
	}
	if beat.Node != known {
		w.rememberNode(beat.Node)
	}
	w.moveOrphans(ctx, beat.Orphans)
	for _, l := range beat.Overdue {
		go w.moveJob(ctx, l, attemptEnd{reason: core.ReasonAttemptTimeout})
	}
	return rpcMessage{Result: beat.Verdict.String(), Jobs: append(beat.Cancels, w.checkStrays(ctx, beat.Strays)...)}
}

// handleRegistration registers a node and binds its jobs to the new epoch before it answers.
func (w *scheduler) handleRegistration(ctx context.Context, n rpcMessage) rpcMessage {
	r, err := w.store.Register(ctx, store.RegisterParams{
		Node: declaredNode(n.Node, n.Slots), Load: core.UnknownLoad,
		Activity: store.Activity{Lists: true, Active: n.Jobs},
	})
	if err != nil {
		w.reportError("register", err)
		return rpcMessage{}
	}
	w.rememberNode(r.Node)
	stop := w.checkStrays(ctx, r.Strays)
	for _, l := range r.Kept {
		a, ok := w.apply(ctx, store.ApplyParams{
			Job: l.Job, Event: core.EventRebind,
			Holder: core.Holder{Attempt: l.Attempt, Node: l.Node},
			To:     core.Holder{Attempt: l.Attempt, Node: l.Node, Epoch: r.Node.Epoch},
		})
		if ok && a.Job.Token == l.Token {
			continue
		}
		w.revoke(ctx, l.LeaseRef)
		stop = append(stop, store.ActiveJob{Job: l.Job, Attempt: l.Attempt})
	}
	w.moveOrphans(ctx, r.Orphans)
	return rpcMessage{Result: store.OK.String(), Epoch: r.Node.Epoch, Jobs: stop}
}

func (w *scheduler) revoke(ctx context.Context, ref core.LeaseRef) {
	if err := w.store.Revoke(ctx, ref); err != nil {
		w.reportError("revoke", err)
	}
}

// moveOrphans moves the jobs of orphaned leases, in the background.
func (w *scheduler) moveOrphans(ctx context.Context, leases []core.Lease) {
	for _, l := range leases {
		go w.moveJob(ctx, l, attemptEnd{reason: core.ReasonNodeLost, freed: true})
	}
}

// isCurrent reports whether a lease is that of the job's current attempt.
func isCurrent(job *core.Job, l *core.Lease) bool {
	return job.Node == l.Node && job.Attempt == l.Attempt && (l.Token == "" || job.Token == l.Token)
}

// moveJob moves the job of a lease to another node, if the lease is that of its current attempt, and revokes the lease otherwise.
func (w *scheduler) moveJob(ctx context.Context, l core.Lease, c attemptEnd) {
	job, err := w.getRecord(ctx, l.Job)
	if err != nil {
		return
	}
	if job == nil || job.State.Terminal() || !isCurrent(job, &l) {
		if !l.Young {
			w.revoke(ctx, l.LeaseRef)
		}
		return
	}
	c.freed = c.freed && !l.Young
	if job.State == core.StateRetrying {
		a, ok := w.apply(ctx, store.ApplyParams{
			Job: job.ID, Event: core.EventTakeover, Holder: retryHolder(job), Owner: w.newToken(), RetryFor: stressRetryFor,
		})
		if ok {
			c.reason = a.Job.Reason
			w.continueRetry(ctx, a.Job, c)
		}
		return
	}
	if next, ok := w.endAttempt(ctx, job, c); ok {
		w.continueRetry(ctx, next, c)
	}
}

// checkStrays compares stray jobs with their records, and returns those that the node should cancel.
func (w *scheduler) checkStrays(ctx context.Context, leases []core.Lease) []store.ActiveJob {
	var stop []store.ActiveJob
	for _, l := range leases {
		job, err := w.getRecord(ctx, l.Job)
		switch {
		case err != nil, job != nil && !job.State.Terminal() && isCurrent(job, &l):
		case job != nil && job.State == core.StateDone && isCurrent(job, &l):
			w.release(ctx, l.LeaseRef, false) // its list was sent before the reply to its result arrived
		default:
			w.revoke(ctx, l.LeaseRef)
			stop = append(stop, store.ActiveJob{Job: l.Job, Attempt: l.Attempt})
		}
	}
	return stop
}
