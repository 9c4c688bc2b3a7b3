package node

import (
	"context"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lingua-scheduler/lingua/wire"
)

const assignedSpan = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// executeTraced runs a handler for an assignment, and returns when the outcome is known.
func executeTraced(t *testing.T, traceparent string, provider trace.TracerProvider, h Handler) {
	t.Helper()
	e := newExecutor(t.Context(), h, slog.New(slog.DiscardHandler), nil, provider)
	a := &attempt{
		key:    wire.ActiveJob{JobID: "job-1", AttemptID: 2},
		assign: &wire.JobAssign{JobID: "job-1", AttemptID: 2, SessionID: "s-1", SrcLang: "en", TgtLang: "zh", Traceparent: traceparent},
	}
	done := make(chan struct{})
	e.start(a, &Job{ID: "job-1", Attempt: 2}, func(outcome) { close(done) })
	<-done
	<-e.returned()
}

// TestHandlerContinuesTheTrace: without a tracer provider, the context of a handler has the scheduler's span.
func TestHandlerContinuesTheTrace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		assignedSpan: "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00": "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
		"": "", "forged": "",
	} {
		var got trace.SpanContext
		executeTraced(t, text, nil, func(ctx context.Context, _ *Job) (Result, error) {
			got = trace.SpanContextFromContext(ctx)
			return Result{}, nil
		})
		formatted := ""
		if got.IsValid() {
			formatted = got.TraceID().String() + "-" + got.SpanID().String() + "-" + got.TraceFlags().String()
		}
		if formatted != want || got.IsValid() && !got.IsRemote() {
			t.Errorf("%q: the handler has %q, want %q", text, formatted, want)
		}
	}
}

// TestSpanOfAJob: with a tracer provider there is a span for each call of the handler, in the trace of the utterance.
func TestSpanOfAJob(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler     Handler
		status      codes.Code
		description string
	}{
		"a result":          {func(context.Context, *Job) (Result, error) { return Result{TextSrc: "hello"}, nil }, codes.Unset, ""},
		"a failure":         {func(context.Context, *Job) (Result, error) { return Result{}, Fail("OUT_OF_MEMORY") }, codes.Error, "OUT_OF_MEMORY"},
		"a reason in prose": {func(context.Context, *Job) (Result, error) { return Result{}, Fail("they said hello") }, codes.Error, ""},
		"a panic":           {func(context.Context, *Job) (Result, error) { panic("hello") }, codes.Error, "NODE_PANIC"},
		"busy":              {func(context.Context, *Job) (Result, error) { return Result{}, ErrBusy }, codes.Error, "NODE_BUSY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exporter := tracetest.NewInMemoryExporter()
			var inHandler trace.SpanContext
			executeTraced(t, assignedSpan, sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)), func(ctx context.Context, job *Job) (Result, error) {
				inHandler = trace.SpanContextFromContext(ctx)
				return test.handler(ctx, job)
			})
			spans := exporter.GetSpans()
			if len(spans) != 1 {
				t.Fatalf("%d spans", len(spans))
			}
			s := spans[0]
			if s.Name != "node.job" || s.Parent.SpanID().String() != "b7ad6b7169203331" || s.SpanContext.TraceID() != s.Parent.TraceID() || !s.SpanContext.Equal(inHandler) {
				t.Errorf("the span is %s in %s, under %s; the handler has %v", s.Name, s.SpanContext.TraceID(), s.Parent.SpanID(), inHandler)
			}
			if s.Status.Code != test.status || s.Status.Description != test.description {
				t.Errorf("the status is %+v", s.Status)
			}
			if len(s.Attributes) != 5 {
				t.Errorf("the attributes are %v", s.Attributes)
			}
		})
	}
}

// TestUnsampledJobIsNotTraced: a node does not export its part of a trace that the scheduler does not export.
func TestUnsampledJobIsNotTraced(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	executeTraced(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)),
		func(context.Context, *Job) (Result, error) { return Result{}, nil })
	if spans := exporter.GetSpans(); len(spans) != 0 {
		t.Errorf("%d spans are exported", len(spans))
	}
}
