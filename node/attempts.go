package node

import (
	"context"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxUnackedBytes is the size of unacknowledged outcomes at which no further job is accepted. Running jobs may still
	// add to it.
	maxUnackedBytes = 64 << 20
	// maxListBytes is the maximum size of the list of jobs, which shares a message with the declaration.
	maxListBytes = wire.MaxFrame - maxDeclarationBytes
	// listEntryBytes is the maximum size of a job in the list, without its id and the number of its attempt.
	listEntryBytes = len(`{"job_id":"","attempt_id":,"audio_chunks":99999},`)
	// maxReportedChunks is the maximum number of audio chunks that is reported. If more were received, the scheduler sends
	// some again.
	maxReportedChunks = 99_999
)

// attemptStage is the progress of an attempt.
type attemptStage int

const (
	stageRunning   attemptStage = iota
	stageCancelled              // the handler is to stop and has not returned; the scheduler waits for JobCancelled
	stageDropped                // the same, and the scheduler does not wait
	stageFinished               // there is an outcome, which is not acknowledged
)

// attempt is an attempt of a job from its assignment until its outcome is acknowledged. Node.mu guards the fields below
// cancel.
type attempt struct {
	node     *Node
	key      wire.ActiveJob
	assign   *wire.JobAssign
	base     *url.URL // against which its URLs are resolved
	deadline time.Time
	cancel   context.CancelCauseFunc

	job         *Job // nil when the handler has returned, so that its audio is not kept with the outcome
	audioChunks int  // received when the handler returned
	stage       attemptStage
	revision    int64 // of the last partial result
	outcome     outcome
	finishedAt  time.Time   // when the handler returned
	sentAt      time.Time   // when the outcome was last written; zero while it is queued
	queuedOn    *connection // where the outcome is queued; nil if it is not
}

// isAudioInFrames reports whether the audio arrives in binary frames over the node's connection.
func (a *attempt) isAudioInFrames() bool {
	audio := a.assign.Audio
	return audio != nil && audio.URL == "" && audio.Ref == ""
}

// receivedChunks returns how many chunks of audio were received.
func (a *attempt) receivedChunks() int {
	if a.job == nil {
		return a.audioChunks
	}
	return a.job.audio.chunkCount()
}

// isExpired reports whether the outcome is so old that the scheduler no longer waits for it.
func (a *attempt) isExpired(keep time.Duration) bool {
	last := a.finishedAt
	if a.deadline.After(last) {
		last = a.deadline
	}
	return time.Since(last) > keep
}

// attemptTable holds the attempts whose outcomes are not acknowledged, and their size. Node.mu guards it.
type attemptTable struct {
	byKey        map[wire.ActiveJob]*attempt
	running      int           // handlers that have not returned
	listBytes    int           // size of the list of all attempts
	unackedBytes int           // size of all outcomes
	idle         chan struct{} // closed when the table becomes empty; nil if it is not awaited
}

func newAttemptTable() attemptTable { return attemptTable{byKey: make(map[wire.ActiveJob]*attempt)} }

// isFull reports whether a further job cannot be accepted: no slot is free, too many outcomes are not acknowledged, or the
// list of jobs would be too large for a message.
func (t *attemptTable) isFull(key wire.ActiveJob, slots, maxUnacked int) bool {
	return t.running >= slots || t.unackedBytes >= maxUnacked || t.listBytes+listEntrySize(key) > maxListBytes
}

// add adds an attempt whose handler is about to start.
func (t *attemptTable) add(a *attempt) {
	t.byKey[a.key] = a
	t.listBytes += listEntrySize(a.key)
	t.running++
}

// remove removes an attempt.
func (t *attemptTable) remove(a *attempt) {
	delete(t.byKey, a.key)
	t.listBytes -= listEntrySize(a.key)
	t.unackedBytes -= a.outcome.size()
	if t.idle != nil && len(t.byKey) == 0 {
		close(t.idle)
		t.idle = nil
	}
}

// stop removes a finished attempt. It cancels the handler of a running one, which finish removes later.
func (t *attemptTable) stop(a *attempt, stage attemptStage) {
	if a.stage == stageFinished {
		t.remove(a)
		return
	}
	a.stage = stage
	a.cancel(errCancelled)
}

// finish records that a handler has returned. It reports whether the outcome is to be delivered; otherwise the attempt was
// stopped and is removed.
func (t *attemptTable) finish(a *attempt, o outcome) (deliver bool) {
	t.running--
	a.audioChunks = a.receivedChunks()
	a.finishedAt, a.job = time.Now(), nil
	if a.stage != stageRunning {
		t.remove(a)
		return false
	}
	a.stage, a.outcome = stageFinished, o
	t.unackedBytes += o.size()
	return true
}

// list returns every attempt that the scheduler waits for, with the number of received audio chunks if withAudio is set. It
// is never nil, which would mean that the node does not list its jobs.
func (t *attemptTable) list(withAudio bool) []wire.ActiveAttempt {
	all := make([]wire.ActiveAttempt, 0, len(t.byKey))
	for key, a := range t.byKey {
		if a.stage == stageDropped {
			continue
		}
		entry := wire.ActiveAttempt{ActiveJob: key}
		if withAudio {
			entry.AudioChunks = a.receivedChunks()
		}
		all = append(all, entry)
	}
	return all
}

// whenIdle returns a channel that is closed when there are no attempts.
func (t *attemptTable) whenIdle() <-chan struct{} {
	idle := make(chan struct{})
	if len(t.byKey) == 0 {
		close(idle)
	} else {
		t.idle = idle
	}
	return idle
}

// listEntrySize returns the size of a job in the list. An id with other characters than usual may have to be escaped.
func listEntrySize(key wire.ActiveJob) int {
	size := listEntryBytes + len(strconv.Itoa(key.AttemptID))
	if idPattern.MatchString(key.JobID) {
		return size + len(key.JobID)
	}
	return size + 6*len(key.JobID)
}

// startAttempt accepts a job and starts its handler; the caller holds the lock.
func (n *Node) startAttempt(conn *connection, assign *wire.JobAssign) {
	job := newJob(assign, time.Now())
	a := &attempt{
		node: n, key: wire.ActiveJob{JobID: assign.JobID, AttemptID: assign.AttemptID}, assign: assign, base: conn.base,
		deadline: job.Deadline, job: job,
	}
	job.attempt = a
	n.attempts.add(a)
	conn.send(wire.JobAck{ActiveJob: a.key}) // before anything that the handler sends
	n.executor.start(a, job, func(o outcome) { n.finishAttempt(a, o) })
}

// finishAttempt delivers the outcome of a handler that has returned.
func (n *Node) finishAttempt(a *attempt, o outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch deliver := n.attempts.finish(a, o); {
	case deliver:
		n.deliver(a)
	case a.stage == stageCancelled && n.conn != nil:
		n.conn.send(wire.JobCancelled{ActiveJob: a.key})
	}
}

// deliver queues the outcome of an attempt if there is a connection; the caller holds the lock.
func (n *Node) deliver(a *attempt) {
	conn := n.conn
	if conn == nil || a.queuedOn == conn {
		return
	}
	a.sentAt, a.queuedOn = time.Time{}, conn
	onWritten := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if a.queuedOn == conn {
			a.sentAt, a.queuedOn = time.Now(), nil
		}
	}
	conn.enqueue(func(q *sendQueue) {
		for _, f := range a.outcome.frames {
			q.messages = append(q.messages, queuedMessage{frame: f})
		}
		if a.outcome.speech != nil {
			q.speech = append(q.speech, &queuedSpeech{key: a.key, speech: a.outcome.speech, onWritten: onWritten})
		} else {
			q.messages[len(q.messages)-1].onWritten = onWritten
		}
	})
}

// resendUnacked sends outcomes again that were not acknowledged in time, and drops expired ones.
func (n *Node) resendUnacked() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expireOutcomes()
	for _, a := range n.attempts.byKey {
		if a.stage == stageFinished && !a.sentAt.IsZero() && time.Since(a.sentAt) >= n.timing.resendAfter {
			n.deliver(a)
		}
	}
}

// expireOutcomes drops outcomes that the scheduler no longer waits for; the caller holds the lock.
func (n *Node) expireOutcomes() {
	for _, a := range n.attempts.byKey {
		if a.stage == stageFinished && a.isExpired(n.timing.keepOutcome) {
			n.log.Warn("dropped an outcome that was not acknowledged", "job_id", a.key.JobID, "attempt_id", a.key.AttemptID)
			n.attempts.remove(a)
		}
	}
}

// cancelAttempt stops an attempt and confirms it, at once unless a handler runs; the caller holds the lock.
func (n *Node) cancelAttempt(conn *connection, key wire.ActiveJob) {
	a := n.attempts.byKey[key]
	if a != nil {
		n.attempts.stop(a, stageCancelled)
	}
	if a == nil || a.stage == stageFinished {
		conn.discardSpeech(key)
		conn.send(wire.JobCancelled{ActiveJob: key})
	}
}

// sendPartial sends a partial result of a running attempt.
func (n *Node) sendPartial(a *attempt, p Partial) {
	f := wire.JobPartial{ActiveJob: a.key, Rev: math.MaxInt64, Stage: p.Stage, TextSrc: p.TextSrc, TextTgt: p.TextTgt}
	if checkFrame(f) != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.stage != stageRunning || n.conn == nil || n.conn.isCongested() {
		return
	}
	a.revision++
	f.Rev = a.revision
	n.conn.send(f)
}
