package tracing

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// checkTree checks that the queued spans have one root, that every parent is there, and that the phases cover the root without a gap.
func checkTree(t interface{ Errorf(string, ...any) }, spans []*Span) (root *Span, phases []*Span) {
	ids := make(map[SpanID]bool)
	for _, s := range spans {
		if ids[s.ID] {
			t.Errorf("two spans have the id %s", s.ID)
		}
		ids[s.ID] = true
		if s.Parent == (SpanID{}) {
			if root != nil {
				t.Errorf("there are two roots")
			}
			root = s
		}
	}
	if root == nil {
		t.Errorf("there is no root")
		return &Span{}, nil
	}
	for _, s := range spans {
		if s != root && !ids[s.Parent] {
			t.Errorf("the parent of %s is missing", s.Name)
		}
		if s.Parent == root.ID {
			phases = append(phases, s)
		}
	}
	slices.SortStableFunc(phases, func(a, b *Span) int { return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End)) })
	at := root.Start
	for _, s := range phases {
		if !s.Start.Equal(at) || s.End.Before(s.Start) {
			t.Errorf("%s is from %v to %v, after %v", s.Name, s.Start, s.End, at)
		}
		at = s.End
	}
	if !at.Equal(root.End) {
		t.Errorf("the phases end at %v, the root at %v", at, root.End)
	}
	return root, phases
}

// TestPhasesCoverTheJob: whatever the history of a job is, its phases cover the time of its latency.
func TestPhasesCoverTheJob(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		created := time.UnixMilli(1_800_000_000_000).Add(time.Duration(rapid.IntRange(0, 1e6).Draw(t, "fraction")))
		at := created
		pass := func() time.Time {
			at = at.Add(time.Duration(rapid.Int64Range(0, 3e6).Draw(t, "ns")))
			return at
		}
		job := &core.Job{ID: "job-1", Created: created}
		job.Utterance = core.Utterance{Turn: rapid.Int64Range(0, 2).Draw(t, "turn"), WaitMS: rapid.Int64Range(0, 50).Draw(t, "wait")}
		for i := range rapid.IntRange(1, core.MaxHistory+5).Draw(t, "attempts") {
			if i > 0 {
				job.EndAttempt(pass(), core.ReasonNodeFailed)
				pass()
			}
			job.Holder, job.Token = core.Holder{Attempt: i + 1, Node: "n"}, core.Token(fmt.Sprint("i-1.", i))
			job.BeginAttempt(at)
		}
		job.State, job.Reason = core.StateDone, core.ReasonNone
		switch rapid.IntRange(0, 2).Draw(t, "end") {
		case 1:
			job.State, job.Reason = core.StateFailed, core.ReasonMaxRetry
		case 2: // while it waits for another node
			job.EndAttempt(pass(), core.ReasonNodeFailed)
			job.State, job.Reason = core.StateCancelled, core.ReasonCancelled
		}
		job.Updated = pass()
		if job.State != core.StateCancelled {
			job.EndAttempt(at, core.ReasonNone)
		}
		tracer := testTracer(1)
		tracer.Of(job.ID).JobEnded(job)
		root, _ := checkTree(t, queued(tracer))
		total := time.Duration(job.Utterance.WaitMS+job.Updated.Sub(job.Created).Milliseconds()) * time.Millisecond
		if root.End.Sub(root.Start) != total {
			t.Errorf("the root lasts %v, the latency is %v", root.End.Sub(root.Start), total)
		}
	})
}

func TestPhasesOfARetriedJob(t *testing.T) {
	t.Parallel()
	created := time.UnixMilli(1_800_000_000_000)
	after := func(ms int) time.Time { return created.Add(time.Duration(ms) * time.Millisecond) }
	job := &core.Job{ID: "job-1", State: core.StateDone, Created: created, Updated: after(90), History: []core.Attempt{
		{Holder: core.Holder{Attempt: 1, Node: "a"}, Token: "t1", Started: created, Ended: after(40), Reason: core.ReasonNodeFailed},
		{Holder: core.Holder{Attempt: 2, Node: "b"}, Token: "t2", Started: after(50), Ended: after(90)},
	}}
	job.Utterance = core.Utterance{Turn: 1, WaitMS: 10, AudioMS: 1000}
	tracer := testTracer(1)
	trace := tracer.Of(job.ID)
	trace.JobEnded(job)
	root, phases := checkTree(t, queued(tracer))
	if root.Name != SpanUtterance || root.Error != "" || root.ID != trace.Root() || root.End.Sub(root.Start) != 100*time.Millisecond {
		t.Errorf("the root is %+v", root)
	}
	want := []Span{
		{ID: trace.Wait(), Name: SpanWait, Start: after(-10)}, {ID: trace.Attempt("t1"), Name: SpanAttempt, Start: created, Error: "NODE_FAILED"},
		{ID: trace.Retry("t1"), Name: SpanRetry, Start: after(40)}, {ID: trace.Attempt("t2"), Name: SpanAttempt, Start: after(50)},
	}
	if len(phases) != len(want) {
		t.Fatalf("%d phases, want %d", len(phases), len(want))
	}
	for i, w := range want {
		if p := phases[i]; p.ID != w.ID || p.Name != w.Name || !p.Start.Equal(w.Start) || p.Error != w.Error {
			t.Errorf("phase %d is %+v, want %+v", i, p, w)
		}
	}
}

// TestFailureInTheMillisecondOfTheRetry: what was done after the last attempt has its parent even if no time has passed.
func TestFailureInTheMillisecondOfTheRetry(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_800_000_000_000)
	job := &core.Job{ID: "job-1", State: core.StateFailed, Reason: core.ReasonDeadline, Created: at, Updated: at, History: []core.Attempt{
		{Token: "t1", Started: at, Ended: at, Reason: core.ReasonNodeBusy},
	}}
	tracer := testTracer(1)
	trace := tracer.Of(job.ID)
	trace.JobEnded(job)
	spans := queued(tracer)
	root, _ := checkTree(t, spans)
	if root.Name != SpanJob || root.Error != "DEADLINE_EXCEEDED" {
		t.Errorf("the root is %+v", root)
	}
	if !slices.ContainsFunc(spans, func(s *Span) bool { return s.ID == trace.Retry("t1") }) {
		t.Error("there is no span of the time after the attempt")
	}
}

// TestRefusedUtterance: the record of an utterance that every node refused counts as none. Its attempts belong to the wait, and the root comes
// with the end of the utterance.
func TestRefusedUtterance(t *testing.T) {
	t.Parallel()
	at := time.Now()
	job := &core.Job{ID: "job-1", State: core.StateFailed, Reason: core.ReasonAllFull, Created: at, Updated: at.Add(5 * time.Millisecond), History: []core.Attempt{
		{Token: "t1", Started: at, Ended: at.Add(5 * time.Millisecond), Reason: core.ReasonDeliveryRefused},
	}}
	job.Utterance.Turn = 1
	if !job.Refused() {
		t.Fatal("the job is not refused: the test tests nothing")
	}
	tracer := testTracer(1)
	trace := tracer.Of(job.ID)
	trace.JobEnded(job)
	trace.Refused(&job.Spec, at.Add(-time.Second), at.Add(time.Second), "ALL_CANDIDATES_FULL_OR_FAILED")
	root, phases := checkTree(t, queued(tracer))
	if root.Name != SpanUtterance || root.Error != "ALL_CANDIDATES_FULL_OR_FAILED" || len(phases) != 1 || phases[0].Name != SpanWait {
		t.Errorf("the root is %+v, with %d phases", root, len(phases))
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	tracer := testTracer(1)
	steps := tracer.Of("job-1").Steps()
	outer := steps.Begin("outer")
	outer.Link(caller)
	inner := steps.Begin("inner")
	inner.Set(Text(AttrNode, core.NodeID("n")))
	inner.End("FULL")
	outer.End("")
	outer.End("again") // has no effect
	invalid := steps.Begin("invalid")
	invalid.Link("forged")
	invalid.End("")
	reserved := time.Now()
	steps.ExportWait(reserved, reserved.Add(time.Hour))
	spans := queued(tracer)
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	in, out, bad := spans[0], spans[1], spans[2]
	if in.Parent != out.ID || in.Error != "FULL" || out.Parent != tracer.Of("job-1").Wait() || out.Error != "" {
		t.Errorf("%+v in %+v", in, out)
	}
	if out.Link == nil || out.Link.Traceparent() != caller || in.Link != nil || bad.Link != nil {
		t.Errorf("links: %v, %v, %v", in.Link, out.Link, bad.Link)
	}
	if until := out.End.Sub(reserved); until < 59*time.Minute || until > time.Hour {
		t.Errorf("the step ended %v after the reservation, which was at the creation", until)
	}
	steps.Export(SpanID{1})
	if more := queued(tracer); len(more) != 0 {
		t.Errorf("%d spans are exported again", len(more))
	}
}

// TestStepsAreBounded: of an utterance that tries to be placed again and again, some tries are kept, and the rest is counted.
func TestStepsAreBounded(t *testing.T) {
	t.Parallel()
	tracer := testTracer(1)
	steps := tracer.Of("job-1").Steps()
	for range 2 * maxSteps {
		step := steps.Begin("try")
		step.End("")
	}
	steps.Export(SpanID{1})
	spans := queued(tracer)
	if len(spans) != maxSteps || len(spans[maxSteps-1].Attrs) != 1 || spans[maxSteps-1].Attrs[0] != Number(AttrOmitted, maxSteps) {
		t.Errorf("%d spans, the last has %+v", len(spans), spans[len(spans)-1].Attrs)
	}
}
