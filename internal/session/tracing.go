package session

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/wire"
)

// This file has what the trace of an utterance records in this package.

// codeOfError returns the code of an error; empty if there is none.
func codeOfError(e *wire.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Code)
}

// validTraceparent returns a trace context of a client; empty if it is not valid.
func validTraceparent(text string) string {
	if _, valid := wire.ParseTraceparent(text); !valid {
		return ""
	}
	return text
}

// awaitPrevious waits until the utterance before was placed, or was not. It reports false when the context ended first.
func (u *utterance) awaitPrevious(ctx context.Context, previous *utterance, steps *tracing.Steps) bool {
	step := steps.Begin(tracing.SpanQueue)
	defer step.End("")
	return previous.awaitPlaced(ctx)
}

// exportSteps exports the steps of an utterance that never became a job.
func (p *placer) exportSteps(u *utterance, steps *tracing.Steps) {
	if steps != nil {
		steps.Export(p.directory.cfg.Tracer.Of(u.job).Wait())
	}
}

// traceAppend records that the outcome of a job was appended to the outbox of its session, in the attempt that a token names.
func traceAppend(trace *tracing.Trace, token core.Token, began time.Time, size int, err error) {
	span := tracing.Span{
		Parent: trace.Attempt(token), Name: tracing.SpanAppend, Start: began, End: time.Now(),
		Attrs: []tracing.Attr{tracing.Number(tracing.AttrBytes, size)},
	}
	if err != nil {
		span.Error = string(wire.SchedulerDependencyDown)
	}
	trace.Record(span)
}

// traceSend records the time that a terminal message waited until it was sent to its client: for earlier ones, or for a connection.
func traceSend(trace *tracing.Trace, stored time.Time, m *terminalMessage) {
	now := time.Now()
	parent, ok := tracing.ParseSpanID(m.Span)
	if !ok {
		return // it was written by an instance that does not trace
	}
	if stored.IsZero() {
		stored = now // it was found in the outbox
	}
	trace.Record(tracing.Span{Parent: parent, Name: tracing.SpanSend, Start: stored, End: now,
		Attrs: []tracing.Attr{tracing.Number(tracing.AttrBytes, len(m.body))}})
}
