package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

var (
	errShutdown  = errors.New("the node is shutting down")
	errCancelled = errors.New("the job was cancelled")
)

// stage is how far a task is.
type stage int

const (
	working   stage = iota
	cancelled       // the handler was told to stop and has not returned
	dropped         // the same, and nobody wants to hear when it has
	finished        // there is an outcome, which is not acknowledged
)

// task is an attempt that the node has in hand: from its assignment until its outcome is acknowledged. Its fields below
// cancel are guarded by the node.
type task struct {
	node     *Node
	key      wire.ActiveJob
	assign   *wire.JobAssign
	base     *url.URL // against which its addresses are read
	deadline time.Time
	cancel   context.CancelCauseFunc

	job     *Job // nil when the handler has returned: its audio is not kept with the outcome
	chunks  int  // of its audio, when the handler has returned
	stage   stage
	rev     int64
	outcome outcome
	ended   time.Time // when the handler returned
	sent    time.Time // when the outcome was written last; zero while it waits to be
	queued  *link     // where the outcome waits to be written; nil when it does not
}

// accept begins to work on a job; the node is locked.
func (n *Node) accept(l *link, a *wire.JobAssign) {
	job := newJob(a, time.Now())
	t := &task{node: n, key: wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}, assign: a, base: l.base, deadline: job.Deadline, job: job}
	job.task = t
	stoppable, cancel := context.WithCancelCause(n.work)
	t.cancel = cancel
	n.tasks[t.key] = t
	n.listed += listing(t.key)
	n.running++
	l.say(wire.JobAck{ActiveJob: t.key}) // before the handler can have anything to say
	n.handlers.Go(func() {
		defer cancel(nil)
		ctx, stop := until(stoppable, t.deadline)
		defer stop()
		o := failed(t.key, reasonPanic)
		defer func() { n.finish(t, o) }() // also when the handler ends its goroutine
		o = n.do(ctx, t, job)
	})
}

// until is ctx with a deadline, if there is one.
func until(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline)
}

// do has the handler do the job, and says how that ended.
func (n *Node) do(ctx context.Context, t *task, job *Job) outcome {
	log := n.log.With("job_id", t.key.JobID, "attempt_id", t.key.AttemptID)
	result, err := n.call(ctx, job)
	if err != nil {
		o := failureOf(ctx, t.key, err)
		if !errors.Is(context.Cause(ctx), errCancelled) {
			log.Warn("job failed", "error", err)
		}
		if err := sendable(o.frames[0]); err != nil {
			log.Error("the reason of the failure cannot be sent", "error", err)
			return failed(t.key, reasonFailed)
		}
		return o
	}
	spoken, err := newSpeech(&result)
	if err != nil {
		log.Error("the speech cannot be sent; the result goes without it", "error", err)
	}
	uploaded := false
	if to := t.assign.TTSUpload; to != "" && spoken != nil {
		// Before the result, so that the speech is there when the text is.
		err := t.put(ctx, to, spoken)
		if err != nil {
			log.Warn("the speech could not be uploaded; the result goes without it", "error", err)
		}
		uploaded, spoken = err == nil, nil
	}
	o, err := succeeded(t.key, result, spoken, uploaded)
	if err != nil {
		log.Error("the result cannot be sent", "error", err)
		return failed(t.key, reasonResult)
	}
	return o
}

// call runs the handler. A panic is the job's end, not the node's.
func (n *Node) call(ctx context.Context, job *Job) (result Result, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		// What a panic says may be what somebody said; only the runtime's own words are safe.
		caught := recover()
		said := fmt.Sprintf("%T", caught)
		if r, ok := caught.(runtime.Error); ok {
			said = r.Error()
		}
		n.log.Error("handler panicked", "job_id", job.ID, "attempt_id", job.Attempt, "panic", said, "stack", string(debug.Stack()))
		result, err = Result{}, Fail(reasonPanic)
	}()
	result, err = n.handler(ctx, job)
	returned = true
	return result, err
}

// finish takes note that a handler has returned.
func (n *Node) finish(t *task, o outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running--
	t.chunks = t.audioChunks()
	t.ended, t.job = time.Now(), nil
	switch t.stage {
	case cancelled:
		n.forget(t)
		n.say(wire.JobCancelled{ActiveJob: t.key})
	case dropped:
		n.forget(t)
	default:
		t.stage, t.outcome = finished, o
		n.kept += o.size()
		n.deliver(t)
	}
}

// audioChunks is how many chunks of its audio have come; all that there can be when nobody needs them any more. The node is
// locked.
func (t *task) audioChunks() int {
	if t.job == nil {
		return t.chunks
	}
	return t.job.sound.count()
}

// deliver queues the outcome of a task, if there is a connection; the node is locked.
func (n *Node) deliver(t *task) {
	l := n.link
	if l == nil || t.queued == l {
		return
	}
	t.sent, t.queued = time.Time{}, l
	written := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if t.queued == l {
			t.sent, t.queued = time.Now(), nil
		}
	}
	l.send(func(o *outbox) {
		for _, f := range t.outcome.frames {
			o.messages = append(o.messages, outgoing{frame: f})
		}
		if t.outcome.speech != nil {
			o.voices = append(o.voices, &voice{of: t.key, speech: t.outcome.speech, written: written})
		} else {
			o.messages[len(o.messages)-1].written = written
		}
	})
}

// repeat sends again what was not acknowledged in time, and gives up what never will be.
func (n *Node) repeat() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.giveUp()
	for _, t := range n.tasks {
		if t.stage == finished && !t.sent.IsZero() && time.Since(t.sent) >= n.pace.resend {
			n.deliver(t)
		}
	}
}

// giveUp forgets the outcomes that nobody can want any more; the node is locked.
func (n *Node) giveUp() {
	for _, t := range n.tasks {
		if t.stage == finished && n.stale(t) {
			n.log.Warn("an outcome was not acknowledged and is given up", "job_id", t.key.JobID, "attempt_id", t.key.AttemptID)
			n.forget(t)
		}
	}
}

// stale reports that nobody can want the outcome of a task any more.
func (n *Node) stale(t *task) bool {
	last := t.ended
	if t.deadline.After(last) {
		last = t.deadline
	}
	return time.Since(last) > n.pace.keep
}

// forget lets go of a task; the node is locked.
func (n *Node) forget(t *task) {
	delete(n.tasks, t.key)
	n.listed -= listing(t.key)
	n.kept -= t.outcome.size()
	if n.idle != nil && len(n.tasks) == 0 {
		close(n.idle)
		n.idle = nil
	}
}

// stop has a task stop, and is silent about it if the scheduler does not want to hear; the node is locked.
func (n *Node) stop(t *task, as stage) {
	if t.stage == finished {
		n.forget(t)
		return
	}
	t.stage = as
	t.cancel(errCancelled)
}

// partial tells what a task has so far.
func (n *Node) partial(t *task, p Partial) {
	f := wire.JobPartial{ActiveJob: t.key, Rev: math.MaxInt64, Stage: p.Stage, TextSrc: p.TextSrc, TextTgt: p.TextTgt}
	if sendable(f) != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.stage != working || n.link == nil || n.link.busy() {
		return
	}
	t.rev++
	f.Rev = t.rev
	n.link.say(f)
}
