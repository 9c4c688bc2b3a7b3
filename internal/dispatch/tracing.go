package dispatch

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/wire"
)

// This file has what the trace of a job records on its way through this package.

// beginTrace finds the trace of a request's job, and begins to record the steps of the request in it.
func (d *Dispatcher) beginTrace(c *call) {
	if d.cfg.Tracer == nil {
		return
	}
	c.trace = d.cfg.Tracer.Of(c.id)
	if c.Steps == nil {
		c.Steps = c.trace.Steps()
	}
}

// exemplar returns the id of the trace of a request for the metrics. A request over HTTP that was refused has no trace.
func (c *call) exemplar(refused bool) string {
	if refused && c.Utterance.Turn == 0 {
		return ""
	}
	return c.trace.ExemplarID()
}

// traceOf returns the trace of a job, which need not be in flight here; nil if tracing is off.
func (r *runner) traceOf(id core.JobID) *tracing.Trace {
	if r.cfg.Tracer == nil {
		return nil
	}
	if f := r.inFlight.get(id); f != nil && f.trace != nil {
		return f.trace
	}
	return r.cfg.Tracer.Of(id)
}

// codeOf returns the code of an error; empty if there is none.
func codeOf(e *wire.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Code)
}

// storeFailure is how a trace names the error of a store operation; empty if there is none. The text of the error is for the log.
func storeFailure(err error) string {
	if err == nil {
		return ""
	}
	return string(wire.SchedulerDependencyDown)
}

// traceOutcome exports the phases of a job if a step has decided its end.
func (r *runner) traceOutcome(applied *store.Applied) {
	if r.cfg.Tracer != nil && applied.Outcome == store.Decided && applied.Job.State.Terminal() {
		r.traceOf(applied.Job.ID).JobEnded(applied.Job)
	}
}

// traceApply records a step on the record of a job, as a child of a span.
func traceApply(trace *tracing.Trace, parent tracing.SpanID, began time.Time, event core.Event, applied *store.Applied, err error) {
	span := tracing.Span{Parent: parent, Name: tracing.SpanApply, Start: began, End: time.Now(), Error: storeFailure(err)}
	span.Attrs = []tracing.Attr{tracing.Text(tracing.AttrEvent, event.String())}
	if err == nil {
		span.Attrs = append(span.Attrs, tracing.Text(tracing.AttrOutcome, applied.Outcome.String()))
	}
	trace.Record(span)
}

// traceDelivery records the delivery of a job to the node that holds it.
func (j *jobRun) traceDelivery(began time.Time, to *core.Node, result string) {
	transport := "local"
	switch {
	case to.Callback != "":
		transport = "http"
	case to.Owner != j.runner.cfg.Instance:
		transport = "remote"
	}
	span := tracing.Span{
		Parent: j.trace.Attempt(j.job.Token), Name: tracing.SpanDeliver, Start: began, End: time.Now(),
		Attrs: []tracing.Attr{
			tracing.Text(tracing.AttrNode, j.job.Node), tracing.Number(tracing.AttrAttempt, j.job.Attempt),
			tracing.Text(tracing.AttrTransport, transport),
		},
	}
	if result != deliveredResult {
		span.Error = result
	}
	j.trace.Record(span)
}

// traceACK records the acknowledgement of an attempt by its node.
func (p *Reports) traceACK(r *Report, job *core.Job, began time.Time, err error) {
	if trace := p.runner.traceOf(r.Job); trace.Sampled() {
		trace.Record(tracing.Span{
			Parent: trace.Attempt(job.Token), Name: tracing.SpanCommit, Start: began, End: time.Now(), Error: storeFailure(err),
			Attrs: []tracing.Attr{tracing.Text(tracing.AttrNode, r.Node), tracing.Number(tracing.AttrAttempt, r.Attempt)},
		})
	}
}
