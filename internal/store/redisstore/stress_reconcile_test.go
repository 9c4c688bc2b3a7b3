package redisstore_test

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// What a scheduler of the crowd does about nodes: it takes in heartbeats and registrations, and sees to the jobs
// that do not fit any more.

// crowdDeclared is a node as it declares itself.
func crowdDeclared(id core.NodeID, slots int) core.Node {
	c := core.Capability{Semantic: core.NewLangSet("en", "zh"), AnyPair: true}
	return core.Node{ID: id, Health: core.HealthReady, MaxJobs: slots, Capability: c, Callback: "http://127.0.0.1:9/jobs"}
}

func (w *scheduler) beat(ctx context.Context, n note) note {
	known := w.node(n.Node)
	pulse, err := w.store.Heartbeat(ctx, store.HeartbeatParams{
		Node: n.Node, Epoch: n.Epoch, Seq: n.Seq, Known: known, Load: core.UnknownLoad,
		Activity: store.Activity{Lists: true, Active: n.Jobs},
	})
	if err != nil {
		w.trouble("heartbeat", err)
		return note{}
	}
	if pulse.Verdict != store.OK {
		return note{Said: pulse.Verdict.String()}
	}
	if pulse.Node != known {
		w.learn(pulse.Node)
	}
	w.orphaned(ctx, pulse.Orphans)
	for _, l := range pulse.Overdue {
		go w.moveOn(ctx, l, leaving{reason: core.ReasonAttemptTimeout})
	}
	return note{Said: pulse.Verdict.String(), Jobs: append(pulse.Cancels, w.strays(ctx, pulse.Strays)...)}
}

// register begins a new life of a node; what it still has is its own in the new life before it hears of it.
func (w *scheduler) register(ctx context.Context, n note) note {
	r, err := w.store.Register(ctx, store.RegisterParams{
		Node: crowdDeclared(n.Node, n.Slots), Load: core.UnknownLoad,
		Activity: store.Activity{Lists: true, Active: n.Jobs},
	})
	if err != nil {
		w.trouble("register", err)
		return note{}
	}
	w.learn(r.Node)
	stop := w.strays(ctx, r.Strays)
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
	w.orphaned(ctx, r.Orphans)
	return note{Said: store.OK.String(), Epoch: r.Node.Epoch, Jobs: stop}
}

func (w *scheduler) revoke(ctx context.Context, ref core.LeaseRef) {
	if err := w.store.Revoke(ctx, ref); err != nil {
		w.trouble("revoke", err)
	}
}

// orphaned moves on the jobs of leases whose node does not have them, beside the caller.
func (w *scheduler) orphaned(ctx context.Context, leases []core.Lease) {
	for _, l := range leases {
		go w.moveOn(ctx, l, leaving{reason: core.ReasonNodeLost, freed: true})
	}
}

// current reports whether a lease is that of its job's current attempt.
func current(job *core.Job, l *core.Lease) bool {
	return job.Node == l.Node && job.Attempt == l.Attempt && (l.Token == "" || job.Token == l.Token)
}

// moveOn gives the job of a lease to another node, if it is still the lease's; else the lease may go.
func (w *scheduler) moveOn(ctx context.Context, l core.Lease, c leaving) {
	job, err := w.get(ctx, l.Job)
	if err != nil {
		return
	}
	if job == nil || job.State.Terminal() || !current(job, &l) {
		if !l.Young {
			w.revoke(ctx, l.LeaseRef)
		}
		return
	}
	c.freed = c.freed && !l.Young
	if job.State == core.StateRetrying {
		a, ok := w.apply(ctx, store.ApplyParams{
			Job: job.ID, Event: core.EventTakeover, Holder: waiting(job), Owner: w.token(), RetryFor: crowdRetryFor,
		})
		if ok {
			c.reason = a.Job.Reason
			w.proceed(ctx, a.Job, c)
		}
		return
	}
	if next, ok := w.giveUp(ctx, job, c); ok {
		w.proceed(ctx, next, c)
	}
}

// strays judges jobs that a node lists although the ledger does not know of them, and returns those it should stop.
func (w *scheduler) strays(ctx context.Context, leases []core.Lease) []store.ActiveJob {
	var stop []store.ActiveJob
	for _, l := range leases {
		job, err := w.get(ctx, l.Job)
		switch {
		case err != nil, job != nil && !job.State.Terminal() && current(job, &l):
		case job != nil && job.State == core.StateDone && current(job, &l):
			w.release(ctx, l.LeaseRef, false) // its list crossed the answer to its result
		default:
			w.revoke(ctx, l.LeaseRef)
			stop = append(stop, store.ActiveJob{Job: l.Job, Attempt: l.Attempt})
		}
	}
	return stop
}
