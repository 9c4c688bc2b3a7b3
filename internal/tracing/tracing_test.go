package tracing

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTracer returns a tracer that exports a fraction of the traces, and whose queue the test reads.
func testTracer(ratio float64) *Tracer {
	return New(Options{
		SampleRatio: ratio, Timeout: time.Second, Log: slog.New(slog.DiscardHandler),
		Exported: prometheus.NewCounter(prometheus.CounterOpts{Name: "exported"}),
		Dropped:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dropped"}, []string{"reason"}),
	})
}

// queued returns the spans that wait to be exported.
func queued(t *Tracer) (spans []*Span) {
	for len(t.exporter.queue) > 0 {
		spans = append(spans, <-t.exporter.queue)
	}
	return spans
}

// TestTraceFollowsFromTheJob: two instances get the same ids, and other jobs and tokens get others. The id is as docs/tracing.md says.
func TestTraceFollowsFromTheJob(t *testing.T) {
	t.Parallel()
	a, b := testTracer(1).Of("job-1"), testTracer(1).Of("job-1")
	if a.id != b.id || a.Root() != b.Root() || a.Wait() != b.Wait() || a.Attempt("i-1.1") != b.Attempt("i-1.1") || a.Retry("i-1.1") != b.Retry("i-1.1") {
		t.Error("two instances have different ids for one job")
	}
	if got, want := a.ExemplarID(), "9f91f48ec7ac831b77bee51ee81fd667"; got != want {
		t.Errorf("the trace of job-1 is %s, want %s", got, want)
	}
	seen := map[SpanID]string{a.Root(): "root"}
	for name, id := range map[string]SpanID{
		"wait": a.Wait(), "attempt 1": a.Attempt("i-1.1"), "attempt 2": a.Attempt("i-1.2"), "retry 1": a.Retry("i-1.1"), "retry": a.Retry(""),
	} {
		if other, twice := seen[id]; twice {
			t.Errorf("%s and %s have the same id", name, other)
		}
		seen[id] = name
	}
	if other := testTracer(1).Of("job-2"); other.id == a.id || other.Wait() == a.Wait() {
		t.Error("two jobs have the same ids")
	}
}

func TestTraceparentOfAnAttempt(t *testing.T) {
	t.Parallel()
	for ratio, sampled := range map[float64]bool{0: false, 1: true} {
		trace := testTracer(ratio).Of("job-1")
		c, ok := wire.ParseTraceparent(trace.Traceparent("i-1.1"))
		if !ok || c.TraceID != trace.id || c.SpanID != trace.Attempt("i-1.1") || c.Sampled != sampled {
			t.Errorf("ratio %v: %v, %v", ratio, c, ok)
		}
	}
}

// TestSamplerAgreesWithOpenTelemetry checks that the decision is that of OpenTelemetry's sampler, and that the fraction is right.
func TestSamplerAgreesWithOpenTelemetry(t *testing.T) {
	t.Parallel()
	const jobs = 20_000
	for _, ratio := range []float64{0, 0.001, 0.1, 0.5, 0.9, 1} {
		tracer, sampler := testTracer(ratio), sdktrace.TraceIDRatioBased(ratio)
		sampled := 0
		for i := range jobs {
			got := tracer.Of(core.JobID(fmt.Sprint("job-", i)))
			p := sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: trace.TraceID(got.id)}
			if want := sampler.ShouldSample(p).Decision == sdktrace.RecordAndSample; got.Sampled() != want {
				t.Fatalf("ratio %v: job %d is sampled: %v, by OpenTelemetry: %v", ratio, i, got.Sampled(), want)
			}
			if got.Sampled() {
				sampled++
			}
		}
		if deviation := 5 * math.Sqrt(jobs*ratio*(1-ratio)); math.Abs(float64(sampled)-ratio*jobs) > deviation {
			t.Errorf("ratio %v: %d of %d are sampled", ratio, sampled, jobs)
		}
	}
}

// TestOffDoesNothing: a tracer that is off, and a trace that is not sampled, may be used like any other.
func TestOffDoesNothing(t *testing.T) {
	t.Parallel()
	var off *Tracer
	off.Run(t.Context())
	none := testTracer(0)
	for name, trace := range map[string]*Trace{"off": off.Of("job-1"), "not sampled": none.Of("job-1")} {
		trace.Record(Span{Name: "x"})
		trace.JobEnded(&core.Job{})
		trace.Refused(&core.Spec{}, time.Time{}, time.Time{}, "")
		steps := trace.Steps()
		step := steps.Begin("x")
		step.Link("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		if trace.Sampled() || steps != nil || step.Recording() || trace.ExemplarID() != "" {
			t.Errorf("%s: it records", name)
		}
		step.End("")
		steps.Export(SpanID{1})
		steps.ExportWait(time.Time{}, time.Time{})
	}
	if off.Of("job-1").Traceparent("t") != "" {
		t.Error("a tracer that is off sends a context")
	}
	if spans := queued(none); len(spans) != 0 {
		t.Errorf("%d spans of a trace that is not sampled are exported", len(spans))
	}
}

// TestOffCostsNothing checks that a tracer that is off allocates nothing.
func TestOffCostsNothing(t *testing.T) {
	var off *Tracer
	allocs := testing.AllocsPerRun(100, func() {
		trace := off.Of("job-1")
		steps := trace.Steps()
		step := steps.Begin(SpanDispatch)
		step.Link("")
		step.End("")
		_, _, _ = trace.Traceparent("t"), trace.ExemplarID(), trace.Sampled()
		steps.ExportWait(time.Time{}, time.Time{})
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestSpansAreOnTheClockOfTheRecord: the times of a span are moved to the clock of the store.
func TestSpansAreOnTheClockOfTheRecord(t *testing.T) {
	t.Parallel()
	tracer := testTracer(1)
	tracer.clock = func(core.JobID) time.Time { return time.Now().Add(time.Hour) }
	began := time.Now()
	tracer.Of("job-1").Record(Span{Name: "x", Start: began, End: began.Add(time.Second)})
	s := queued(tracer)[0]
	if ahead := s.Start.Sub(began); ahead < time.Hour-time.Minute || ahead > time.Hour+time.Minute || s.End.Sub(s.Start) != time.Second {
		t.Errorf("%v after %v", s.Start, began)
	}
}

func TestParseSpanID(t *testing.T) {
	t.Parallel()
	id := newSpanID()
	if got, ok := ParseSpanID(id.String()); !ok || got != id {
		t.Errorf("%s is read as %s, %v", id, got, ok)
	}
	for _, text := range []string{"", "00", "0000000000000000", "zz00000000000000", hex.EncodeToString(make([]byte, 16))} {
		if _, ok := ParseSpanID(text); ok {
			t.Errorf("%q is accepted", text)
		}
	}
}
