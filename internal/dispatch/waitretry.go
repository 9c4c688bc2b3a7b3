package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// retryWait lets a job that is retried wait for a slot, in the queue beside the requests. It was accepted before, so it is not refused
// there.
type retryWait struct {
	run     *jobRun
	backoff run.Backoff // for waits that are not for a slot
	paused  bool        // it has waited once without being in the queue
	since   time.Time   // when its node lost its connection: it counts as waiting from then on; zero: the node has one

	ticket  *ticket
	entered time.Time   // when it was put into the queue first
	until   time.Time   // the deadline of the ticket
	offered core.NodeID // of which a slot was offered; empty: none was
}

// maxRetryClasses is how many classes may be open for a job that is retried to open one that excludes nodes.
const maxRetryClasses = 64

// retryDeadline is the deadline with which a job waits that is retried. Before it is over, the job gets another one. By the deadline of the
// job itself it would be served after all requests of its tenant that may wait for less time, and then have no time left.
const retryDeadline = 2 * time.Second

// recheckExcluded is how often it is checked which nodes may get the job.
const recheckExcluded = 500 * time.Millisecond

// await waits until another selection makes sense, at most until a time. It returns false if the context ended.
func (q *retryWait) await(ctx context.Context, refusal *wire.Error, until time.Time) bool {
	switch {
	case q.offered == "":
	case slices.Contains(q.run.excluded(), q.offered):
		q.leave() // others may use it
		return q.backoff.Wait(ctx)
	default:
		q.ticket.giveBack(ctx, q.offered)
		q.offered = ""
	}
	if refusal.Code != wire.AllCandidatesFullOrFailed || !q.paused {
		q.leave()
		q.paused = true // the next selection may choose nodes that had the job
		return q.backoff.Wait(ctx)
	}
	except := q.excluded()
	j := q.run
	if q.ticket != nil && !q.ticket.isCurrent(&j.job.Spec, except) {
		q.move()
	}
	if q.ticket == nil && q.entered.IsZero() {
		q.entered = time.Now()
	}
	if deadline := earlier(j.entry.deadline, time.Now().Add(retryDeadline)); q.ticket == nil || time.Until(q.until) <= recheckExcluded &&
		deadline.After(q.until) {
		t, _, e := j.runner.line.enter(ctx,
			&entry{job: j.job.ID, spec: &j.job.Spec, except: except, since: q.began(), until: deadline, entered: q.entered, accepted: true})
		if e != nil {
			return q.backoff.Wait(ctx)
		}
		q.move() // after it was put into the queue again: the class stays open
		q.ticket, q.until = t, deadline
	}
	if node, offered := q.ticket.await(ctx, earlier(until, time.Now().Add(recheckExcluded)), nil); offered {
		q.offered = node
	}
	return ctx.Err() == nil
}

// began returns when the job began to wait.
func (q *retryWait) began() time.Time {
	if q.since.IsZero() {
		return q.entered
	}
	return earlier(q.since, q.entered)
}

// excluded returns the nodes that the class of the job excludes: those in view, as long as there are few classes. When many nodes fail at
// once, each of their jobs would have a class of its own; then the job returns offers that it cannot use.
func (q *retryWait) excluded() []core.NodeID {
	fl := q.run.runner.fleet
	except := slices.DeleteFunc(sorted(q.run.excluded()), func(id core.NodeID) bool { return fl.Node(id) == nil })
	if len(except) == 0 || q.run.runner.line.open.count() >= maxRetryClasses {
		return nil
	}
	return except
}

// served takes the job out of the queue because it has got a slot.
func (q *retryWait) served() {
	q.ticket.served()
	q.ticket, q.offered, q.entered = nil, "", time.Time{}
}

// leave takes the job out of the queue, if it is there.
func (q *retryWait) leave() {
	if q.offered != "" {
		q.ticket.pass(q.offered)
		q.offered = ""
	}
	q.ticket.leave()
	q.ticket, q.entered = nil, time.Time{}
}

// move takes the job out of the place that it has in the queue, if any, because it gets or has another one.
func (q *retryWait) move() {
	q.ticket.remove()
	q.ticket = nil
}
