package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// What a scheduler of the crowd does about jobs. It follows dispatch step by step, in the same order, because it is
// the order that must hold when the process is killed between two steps.

const (
	crowdMaxRetry = 2
	crowdSample   = 5                      // how many nodes are asked for a slot at once
	crowdRetryFor = 500 * time.Millisecond // how long a retry is its owner's
	crowdSeeks    = 12                     // how often a retry looks for a slot before the job is given up
)

// leaving is why a job leaves a node.
type leaving struct {
	reason  core.Reason
	freed   bool // the node does not seem to have it
	certain bool // the node says so itself
	spares  bool // it costs no attempt
}

// found is a slot that was reserved.
type found struct {
	ref   core.LeaseRef
	epoch core.Epoch
	at    time.Time // when it was asked for
}

func leaseOf(job *core.Job) core.LeaseRef {
	return core.LeaseRef{Node: job.Node, Job: job.ID, Attempt: job.Attempt, Token: job.Token}
}

// find reserves a slot on some node.
func (w *scheduler) find(ctx context.Context, job core.JobID, attempt int, tried []core.NodeID) (found, bool) {
	nodes := w.candidates(tried)
	for _, n := range nodes[:min(crowdSample, len(nodes))] {
		f := found{ref: core.LeaseRef{Node: n.ID, Job: job, Attempt: attempt, Token: w.token()}}
		for range 2 {
			f.epoch, f.at = n.Epoch, time.Now()
			r, err := w.store.Reserve(ctx, store.ReserveParams{Lease: f.ref, Epoch: n.Epoch, Revision: n.Revision})
			if err != nil {
				w.trouble("reserve", err)
				return found{}, false
			}
			if r.Verdict == store.OK {
				return f, true
			}
			if r.Verdict != store.StaleEpoch && r.Verdict != store.StaleRevision {
				break
			}
			status, err := w.store.Node(ctx, n.ID)
			if err != nil {
				w.trouble("node", err)
				return found{}, false
			}
			n = status.Node
			w.learn(n)
		}
	}
	return found{}, false
}

func (w *scheduler) release(ctx context.Context, ref core.LeaseRef, park bool) {
	if err := w.store.Release(ctx, store.ReleaseParams{Lease: ref, Park: park}); err != nil {
		w.trouble("release", err)
	}
}

// submit makes a job, unless there is one.
func (w *scheduler) submit(ctx context.Context, id core.JobID) string {
	f, ok := w.find(ctx, id, 1, nil)
	if !ok {
		job, err := w.get(ctx, id)
		if err != nil || job == nil {
			return "refused"
		}
		return "placed"
	}
	job, created, err := w.store.Create(ctx, store.CreateParams{
		ID: id, Spec: core.Spec{Request: core.RequestID(id), Session: "crowd"}, Fingerprint: "print",
		Holder: core.Holder{Attempt: 1, Node: f.ref.Node, Epoch: f.epoch}, Token: f.ref.Token, Timeout: crowdTiming.Retention,
	})
	switch {
	case err != nil:
		w.trouble("create", err)
		return "refused"
	case !created:
		w.saw(job, false)
		w.release(ctx, f.ref, false)
		return "placed"
	}
	w.saw(job, false)
	w.run(ctx, job, f.at)
	return "placed"
}

// get reads a record; nil when there is none.
func (w *scheduler) get(ctx context.Context, id core.JobID) (*core.Job, error) {
	job, err := w.store.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNoJob):
		return nil, nil
	case err != nil:
		w.trouble("get", err)
		return nil, err
	}
	w.saw(job, false)
	return job, nil
}

// run delivers a job, to another node if need be, until one has it. Now and then it takes its time.
func (w *scheduler) run(ctx context.Context, job *core.Job, at time.Time) {
	for {
		if rand.IntN(20) == 0 {
			backoff.Sleep(ctx, rand.N(crowdTiming.ReservedTTL/2))
		}
		a, ok := w.pipe.ask(note{
			Kind: "assign", Node: job.Node, Epoch: job.Epoch, Job: job.ID, Attempt: job.Attempt, At: at.UnixMilli(),
		})
		c := leaving{reason: core.ReasonNodeBusy, freed: true, certain: true, spares: true}
		switch {
		case !ok:
			return
		case a.Said == "taken":
			if _, err := w.store.Commit(ctx, leaseOf(job)); err != nil {
				w.trouble("commit", err)
			}
			return
		case a.Said == "silence":
			c = leaving{reason: core.ReasonDeliveryUnknown}
		}
		if job, ok = w.giveUp(ctx, job, c); !ok {
			return
		}
		if job, at, ok = w.seek(ctx, job, c); !ok {
			return
		}
	}
}

// giveUp records that the current attempt is over. It reports whether there is a retry and it is ours.
func (w *scheduler) giveUp(ctx context.Context, job *core.Job, c leaving) (*core.Job, bool) {
	if !c.spares && job.Attempt > crowdMaxRetry {
		w.end(ctx, job, c, core.ReasonMaxRetry)
		return nil, false
	}
	a, ok := w.apply(ctx, store.ApplyParams{
		Job: job.ID, Event: core.EventRetry, Holder: job.Holder, Owner: w.token(), RetryFor: crowdRetryFor, Reason: c.reason,
	})
	if !ok {
		return nil, false
	}
	if c.freed {
		w.release(ctx, leaseOf(a.Job), true)
	}
	return a.Job, true
}

// seek finds another node for a job that is RETRYING in our name, and moves it there.
func (w *scheduler) seek(ctx context.Context, job *core.Job, c leaving) (*core.Job, time.Time, bool) {
	attempt := job.Attempt
	if !c.spares {
		attempt++
	}
	var tried []core.NodeID
	for _, past := range job.History {
		tried = append(tried, past.Node)
	}
	for range crowdSeeks {
		if to, ok := w.find(ctx, job.ID, attempt, tried); ok {
			return w.move(ctx, job, c, to)
		}
		backoff.Sleep(ctx, rand.N(20*time.Millisecond))
	}
	w.end(ctx, job, c, core.ReasonDeadline)
	return nil, time.Time{}, false
}

// waiting is whom a record names while the job is RETRYING; its owner is the fence then.
func waiting(job *core.Job) core.Holder { return core.Holder{Attempt: job.Attempt, Node: job.Node} }

func (w *scheduler) move(ctx context.Context, job *core.Job, c leaving, to found) (*core.Job, time.Time, bool) {
	a, ok := w.apply(ctx, store.ApplyParams{
		Job: job.ID, Event: core.EventMove, Holder: waiting(job), Owner: job.Owner, Reason: c.reason,
		To: core.Holder{Attempt: to.ref.Attempt, Node: to.ref.Node, Epoch: to.epoch}, Token: to.ref.Token,
	})
	if !ok {
		w.release(ctx, to.ref, false)
		return nil, time.Time{}, false
	}
	w.letGo(ctx, job, c.certain)
	return a.Job, to.at, true
}

// end gives a job up for good.
func (w *scheduler) end(ctx context.Context, job *core.Job, c leaving, reason core.Reason) {
	holder := job.Holder
	if job.State == core.StateRetrying {
		holder = waiting(job)
	}
	if _, ok := w.apply(ctx, store.ApplyParams{
		Job: job.ID, Event: core.EventFail, Holder: holder, Owner: job.Owner, Reason: reason, Cause: c.reason,
	}); ok {
		w.letGo(ctx, job, c.certain)
	}
}

// letGo frees the slot of an attempt that the job has left: at once if the node said so, else when it lets go.
func (w *scheduler) letGo(ctx context.Context, old *core.Job, certain bool) {
	if certain {
		w.release(ctx, leaseOf(old), false)
		return
	}
	if err := w.store.Revoke(ctx, leaseOf(old)); err != nil {
		w.trouble("revoke", err)
	}
	w.pipe.tell(note{Kind: "stop", Node: old.Node, Job: old.ID, Attempt: old.Attempt})
}

func (w *scheduler) cancel(ctx context.Context, id core.JobID) string {
	a, ok := w.apply(ctx, store.ApplyParams{Job: id, Event: core.EventCancel, AnyHolder: true, Reason: core.ReasonCancelled})
	if ok {
		w.letGo(ctx, a.Job, false)
	}
	return a.Outcome.String()
}

// result is what a node's result says: who made it.
func result(node core.NodeID, attempt int) string { return fmt.Sprintf("%s/%d", node, attempt) }

// done takes a node's result.
func (w *scheduler) done(ctx context.Context, n note) string {
	a, ok := w.apply(ctx, store.ApplyParams{
		Job: n.Job, Event: core.EventDone, Holder: core.Holder{Attempt: n.Attempt, Node: n.Node, Epoch: n.Epoch},
		Result: fmt.Appendf(nil, "%q", result(n.Node, n.Attempt)),
	})
	if !ok {
		w.freePast(ctx, n, a)
		return a.Outcome.String()
	}
	w.release(ctx, leaseOf(a.Job), false)
	return "stands"
}

// failed takes a node's word that it could not do a job.
func (w *scheduler) failed(ctx context.Context, n note) string {
	job, err := w.get(ctx, n.Job)
	if err != nil || job == nil {
		return store.NoJob.String()
	}
	switch {
	case job.Attempt != n.Attempt || job.Node != n.Node:
		w.freePast(ctx, n, store.Applied{Outcome: store.NotHolder, Job: job})
		return store.NotHolder.String()
	case job.Epoch != n.Epoch:
		return store.HolderStaleEpoch.String()
	case job.State != core.StateDispatched:
		w.freePast(ctx, n, store.Applied{Outcome: store.Ended, Job: job})
		return store.Ended.String()
	}
	c := leaving{reason: core.ReasonNodeFailed, freed: true, certain: true}
	if next, ok := w.giveUp(ctx, job, c); ok {
		go w.proceed(ctx, next, c)
	}
	return "stands"
}

// proceed finds another node for a job that is RETRYING in our name and delivers it there.
func (w *scheduler) proceed(ctx context.Context, job *core.Job, c leaving) {
	if next, at, ok := w.seek(ctx, job, c); ok {
		w.run(ctx, next, at)
	}
}

// freePast frees the slot of an attempt that is over for the job, now that its node says it is over for the node too.
func (w *scheduler) freePast(ctx context.Context, n note, a store.Applied) {
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
