package tracing

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// JobEnded exports the root of the trace of a job that has ended, and its phases: the wait before the job was created, each attempt, and
// the time between two attempts. They are made from the times in the record, so the root lasts as long as the latency of the result says,
// and its phases cover it without a gap.
func (t *Trace) JobEnded(job *core.Job) {
	if !t.Sampled() {
		return
	}
	began := job.Created.Add(-time.Duration(job.Utterance.WaitMS) * time.Millisecond)
	end := sinceCreation(job, job.Updated)
	failure := ""
	if job.State != core.StateDone {
		failure = string(job.Reason)
	}
	if job.Utterance.Turn > 0 && job.Refused() {
		// The record counts as none: the utterance still waits, and may become a job again.
		t.phases(job, job.Created, t.Wait())
		return
	}
	root := Span{ID: t.root, Name: SpanJob, Start: began, End: end, Error: failure, Attrs: append(specAttrs(&job.Spec, job.ID),
		Text(AttrState, job.State.String()), Number(AttrAttempt, job.Attempt), Number(AttrBytes, len(job.Result)))}
	if job.Utterance.Turn > 0 {
		root.Name = SpanUtterance
	}
	t.export(root, 0)
	t.export(Span{ID: t.Wait(), Parent: t.root, Name: SpanWait, Start: began, End: job.Created}, 0)
	t.phases(job, job.Created, t.root)
}

// phases exports the attempts of a job and the times between them.
func (t *Trace) phases(job *core.Job, from time.Time, parent SpanID) {
	id := t.Retry("") // of the attempts that the history has lost
	for i := range job.History {
		a := &job.History[i]
		began, end := sinceCreation(job, a.Started), sinceCreation(job, job.Updated)
		if !a.Ended.IsZero() {
			end = sinceCreation(job, a.Ended)
		}
		if i > 0 || began.After(from) {
			t.export(Span{ID: id, Parent: parent, Name: SpanRetry, Start: from, End: began}, 0)
		}
		t.export(Span{
			ID: t.Attempt(a.Token), Parent: parent, Name: SpanAttempt, Start: began, End: end, Error: string(a.Reason),
			Attrs: []Attr{Text(AttrNode, a.Node), Number(AttrAttempt, a.Attempt)},
		}, 0)
		from, id = end, t.Retry(a.Token)
	}
	if end := sinceCreation(job, job.Updated); end.After(from) || endedInRetry(job) {
		t.export(Span{ID: id, Parent: parent, Name: SpanRetry, Start: from, End: end, Error: string(job.Reason)}, 0)
	}
}

// sinceCreation returns a time of a record as the latency of its result counts it: in whole milliseconds since the creation.
func sinceCreation(job *core.Job, at time.Time) time.Time {
	return job.Created.Add(at.Sub(job.Created).Truncate(time.Millisecond))
}

// endedInRetry reports whether a job ended after its last attempt, perhaps in the same millisecond.
func endedInRetry(job *core.Job) bool {
	return len(job.History) > 0 && job.State != core.StateDone && job.Reason != core.ReasonMaxRetry &&
		job.Reason != job.History[len(job.History)-1].Reason
}

// Refused exports the root of the trace of an utterance that never became a job. Its times are on this process's clock.
func (t *Trace) Refused(spec *core.Spec, began, ended time.Time, failure string) {
	if !t.Sampled() {
		return
	}
	shift := t.shift()
	t.export(Span{ID: t.root, Name: SpanUtterance, Start: began, End: ended, Error: failure, Attrs: specAttrs(spec, t.job)}, shift)
	t.export(Span{ID: t.Wait(), Parent: t.root, Name: SpanWait, Start: began, End: ended, Error: failure}, shift)
}

// specAttrs returns the attributes of a request.
func specAttrs(spec *core.Spec, job core.JobID) []Attr {
	attrs := []Attr{
		Text(AttrJob, job), Text(AttrSession, spec.Session), Text(AttrSrc, spec.Direction.Src), Text(AttrTgt, spec.Direction.Tgt),
	}
	if u := &spec.Utterance; u.Turn > 0 {
		attrs = append(attrs, Number(AttrTurn, u.Turn-1), Number(AttrAudioMS, u.AudioMS))
	}
	return attrs
}
