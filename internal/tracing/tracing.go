// Package tracing makes one OpenTelemetry trace for each job and exports it over OTLP/HTTP.
//
// The ids of a trace follow from the id of its job, and those of its phases from the tokens in the job's record. So every instance that
// works on a job adds spans to the same tree, without asking another and without storing anything, also after the instance that dispatched
// the job has died. The instance that decides the end of the job makes the root and its phases from the times in the record, which are
// those of the result's latency: they agree to the millisecond.
//
// A nil Tracer is off, and so are a nil Trace and nil Steps: their methods do nothing. No text of speech, no token and no URL is ever an
// attribute.
package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Options configure a Tracer.
type Options struct {
	URL         string  // where spans are posted to
	Header      string  // the header of the token
	Token       string  // empty: none is sent
	SampleRatio float64 // the fraction of traces that is exported, from 0 to 1
	Timeout     time.Duration
	Transport   http.RoundTripper // nil: the default

	Instance core.InstanceID
	Version  string
	// Clock estimates the time of the clock of a job's record: spans of all instances are on that clock.
	Clock func(core.JobID) time.Time

	Exported prometheus.Counter     // spans that the collector accepted
	Dropped  *prometheus.CounterVec // reason: those that it never will
	Log      *slog.Logger
}

// Tracer makes the traces of jobs.
type Tracer struct {
	threshold uint64 // traces whose number is lower are sampled
	clock     func(core.JobID) time.Time
	exporter  *exporter
}

// New makes a tracer. Its spans are exported while Run runs.
func New(o Options) *Tracer {
	return &Tracer{threshold: threshold(o.SampleRatio), clock: o.Clock, exporter: newExporter(o)}
}

// Run exports spans until the context ends, and then what is queued, for a limited time. A nil tracer has nothing to export.
func (t *Tracer) Run(ctx context.Context) {
	if t != nil {
		t.exporter.run(ctx)
	}
}

// threshold returns the threshold of a ratio. The decision is that of OpenTelemetry's TraceIDRatioBased sampler, so that a sampler of a
// node or a collector with the same ratio chooses the same traces.
func threshold(ratio float64) uint64 {
	if ratio >= 1 {
		return math.MaxUint64
	}
	return uint64(max(ratio, 0) * (1 << 63))
}

// Trace is the trace of one job.
type Trace struct {
	tracer  *Tracer
	job     core.JobID
	id      [16]byte
	root    SpanID
	sampled bool
}

// idDomain separates the hash of trace ids from others.
const idDomain = "lingua.trace\x00"

// Of returns the trace of a job; nil if tracing is off. Every instance gets the same one.
func (t *Tracer) Of(job core.JobID) *Trace {
	if t == nil {
		return nil
	}
	var buf [len(idDomain) + 128]byte
	sum := sha256.Sum256(append(append(buf[:0], idDomain...), job...))
	return &Trace{
		tracer: t, job: job, id: [16]byte(sum[:16]), root: SpanID(sum[16:24]),
		sampled: number(sum[8:16])>>1 < t.threshold,
	}
}

// number reads eight bytes as a big-endian number.
func number(b []byte) (n uint64) {
	for _, c := range b[:8] {
		n = n<<8 | uint64(c)
	}
	return n
}

// Sampled reports whether the spans of the trace are exported.
func (t *Trace) Sampled() bool { return t != nil && t.sampled }

// ExemplarID returns the id of the trace for an exemplar of a metric; empty if the trace is not exported.
func (t *Trace) ExemplarID() string {
	if !t.Sampled() {
		return ""
	}
	return hex.EncodeToString(t.id[:])
}

// Root returns the id of the root span.
func (t *Trace) Root() SpanID { return t.root }

// Wait returns the id of the span of the time before the job was created.
func (t *Trace) Wait() SpanID { return t.derive("wait", "") }

// Attempt returns the id of the span of the attempt that a token names.
func (t *Trace) Attempt(token core.Token) SpanID { return t.derive("attempt", token) }

// Retry returns the id of the span of the time after the attempt that a token names, until the next.
func (t *Trace) Retry(token core.Token) SpanID { return t.derive("retry", token) }

func (t *Trace) derive(kind string, token core.Token) SpanID {
	buf := make([]byte, 0, 128)
	buf = append(buf, t.id[:]...)
	buf = append(append(append(buf, kind...), 0), token...)
	sum := sha256.Sum256(buf)
	return SpanID(sum[:8])
}

// Traceparent returns the W3C context of an attempt, under which its node continues the trace; empty if tracing is off. That of a trace
// that is not exported says so, and the node does not export its part either.
func (t *Trace) Traceparent(token core.Token) string {
	if t == nil {
		return ""
	}
	return wire.TraceContext{TraceID: t.id, SpanID: t.Attempt(token), Sampled: t.sampled}.Traceparent()
}

// Record exports a span of this instance, whose times are on this process's clock.
func (t *Trace) Record(s Span) {
	if t.Sampled() {
		t.export(s, t.shift())
	}
}

// shift returns by how much the clock of the job's record is ahead of this process's.
func (t *Trace) shift() time.Duration {
	if t.tracer.clock == nil {
		return 0
	}
	return time.Until(t.tracer.clock(t.job))
}

// export queues a span, moved to the clock of the job's record.
func (t *Trace) export(s Span, shift time.Duration) {
	if s.ID == (SpanID{}) {
		s.ID = newSpanID()
	}
	s.trace, s.Start, s.End = t.id, s.Start.Add(shift), s.End.Add(shift)
	t.tracer.exporter.add(&s)
}
