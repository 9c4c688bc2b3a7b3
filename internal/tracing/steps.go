package tracing

import (
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// maxSteps bounds the steps that are kept of one activity: a request may wait for a free slot for long.
const maxSteps = 32

// Steps collects the steps of an activity until it is known to which span they belong: the steps of a request that is refused belong to
// none. A Steps must not be used by two goroutines at once.
type Steps struct {
	trace   *Trace
	list    []Span
	open    []SpanID // steps that have not ended, outermost first
	omitted int
}

// Steps returns an empty collection; nil if the trace is not exported.
func (t *Trace) Steps() *Steps {
	if !t.Sampled() {
		return nil
	}
	return &Steps{trace: t}
}

// Step is a step that has begun. The zero value is none, and ends without effect.
type Step struct {
	steps *Steps
	span  Span
}

// Begin begins a step, within the last one that has not ended.
func (s *Steps) Begin(name string) Step {
	if s == nil {
		return Step{}
	}
	span := Span{ID: newSpanID(), Name: name, Start: time.Now()}
	if n := len(s.open); n > 0 {
		span.Parent = s.open[n-1]
	}
	s.open = append(s.open, span.ID)
	return Step{steps: s, span: span}
}

// Recording reports whether the step is kept, so that its attributes are needed.
func (s *Step) Recording() bool { return s.steps != nil }

// Set adds attributes.
func (s *Step) Set(attrs ...Attr) { s.span.Attrs = append(s.span.Attrs, attrs...) }

// Link records the span of the caller, if it has one.
func (s *Step) Link(traceparent string) {
	if s.steps == nil || traceparent == "" {
		return
	}
	if c, ok := wire.ParseTraceparent(traceparent); ok {
		s.span.Link = &c
	}
}

// End ends the step. failure is the code or reason with which it failed; empty: it did not.
func (s *Step) End(failure string) {
	steps := s.steps
	if steps == nil {
		return
	}
	s.steps = nil
	steps.open = steps.open[:len(steps.open)-1]
	if len(steps.list) >= maxSteps {
		steps.omitted++
		return
	}
	s.span.End, s.span.Error = time.Now(), failure
	steps.list = append(steps.list, s.span)
}

// Export exports the steps as children of a span, and empties the collection.
func (s *Steps) Export(parent SpanID) {
	if s != nil {
		s.export(parent, s.trace.shift())
	}
}

// ExportWait exports the steps of the wait for a slot, which was reserved at a moment of this process's clock, when the record was created.
func (s *Steps) ExportWait(reserved, created time.Time) {
	if s != nil {
		s.export(s.trace.Wait(), created.Sub(reserved))
	}
}

func (s *Steps) export(parent SpanID, shift time.Duration) {
	for i := range s.list {
		span := &s.list[i]
		if span.Parent == (SpanID{}) {
			span.Parent = parent
		}
		if i == len(s.list)-1 && s.omitted > 0 {
			span.Attrs = append(span.Attrs, Number(AttrOmitted, s.omitted))
		}
		s.trace.export(*span, shift)
	}
	s.list, s.omitted = nil, 0
}
