package node

import (
	"context"
	"regexp"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingua-scheduler/lingua/wire"
)

// tracerName is the instrumentation scope of the spans of this package.
const tracerName = "github.com/lingua-scheduler/lingua/node"

// reasonName is the pattern of reasons that a span may have. Another text may be what people said.
var reasonName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// trace returns a context in which the trace of a job continues, and a function that takes the outcome of the attempt. Spans that a handler
// starts in the context belong to the trace of the utterance. With a tracer provider they are children of a span node.job; without one, of
// the scheduler's span.
func (e *executor) trace(ctx context.Context, a *attempt) (_ context.Context, end func(*outcome)) {
	if c, valid := wire.ParseTraceparent(a.assign.Traceparent); valid {
		sc := trace.SpanContextConfig{TraceID: c.TraceID, SpanID: c.SpanID, Remote: true}
		if c.Sampled {
			sc.TraceFlags = trace.FlagsSampled
		}
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(sc))
	}
	if e.tracers == nil {
		return ctx, func(*outcome) {}
	}
	ctx, span := e.tracers.Tracer(tracerName).Start(ctx, "node.job", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("lingua.job_id", a.key.JobID), attribute.Int("lingua.attempt_id", a.key.AttemptID),
		attribute.String("lingua.session_id", a.assign.SessionID),
		attribute.String("lingua.src_lang", a.assign.SrcLang), attribute.String("lingua.tgt_lang", a.assign.TgtLang),
	))
	return ctx, func(o *outcome) {
		if reason, failed := o.failureReason(); failed {
			if !reasonName.MatchString(reason) {
				reason = ""
			}
			span.SetStatus(codes.Error, reason)
		}
		span.End()
	}
}

// failureReason returns the reason of an outcome that is a failure, and whether it is one.
func (o *outcome) failureReason() (reason string, failed bool) {
	for _, f := range o.frames {
		switch f := f.(type) {
		case wire.JobFail:
			return f.Reason, true
		case wire.JobReject:
			return f.Reason, true
		}
	}
	return "", false
}
