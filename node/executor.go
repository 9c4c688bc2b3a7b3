package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

var (
	errShutdown  = errors.New("the node is shutting down")
	errCancelled = errors.New("the job was cancelled")
)

// executor runs the handler for each attempt, in a goroutine of its own.
type executor struct {
	handler   Handler
	log       *slog.Logger
	transfers *transferClient
	tracers   trace.TracerProvider // nil: no spans are made

	ctx      context.Context // of all handlers
	stop     context.CancelCauseFunc
	handlers sync.WaitGroup
}

// newExecutor returns an executor. Its handlers may outlast ctx, by the shutdown timeout: cancel ends them.
func newExecutor(ctx context.Context, h Handler, log *slog.Logger, transfers *transferClient, tracers trace.TracerProvider) *executor {
	e := &executor{handler: h, log: log, transfers: transfers, tracers: tracers}
	e.ctx, e.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	return e
}

// start runs the handler of an attempt and calls done with the outcome.
func (e *executor) start(a *attempt, job *Job, done func(outcome)) {
	cancelCtx, cancel := context.WithCancelCause(e.ctx)
	a.cancel = cancel
	e.handlers.Go(func() {
		defer cancel(nil)
		ctx, stop := withDeadline(cancelCtx, a.deadline)
		defer stop()
		ctx, endTrace := e.trace(ctx, a)
		o := failure(a.key, reasonPanic)
		defer func() { // also if the handler calls runtime.Goexit
			endTrace(&o)
			done(o)
		}()
		o = e.execute(ctx, a, job)
	})
}

// cancel ends the contexts of all handlers.
func (e *executor) cancel() { e.stop(errShutdown) }

// returned returns a channel that is closed when all handlers have returned.
func (e *executor) returned() <-chan struct{} {
	returned := make(chan struct{})
	go func() {
		e.handlers.Wait()
		close(returned)
	}()
	return returned
}

// withDeadline returns a context with a deadline, unless that is zero.
func withDeadline(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline)
}

// execute calls the handler and returns the outcome of the attempt.
func (e *executor) execute(ctx context.Context, a *attempt, job *Job) outcome {
	log := e.log.With("job_id", a.key.JobID, "attempt_id", a.key.AttemptID)
	result, err := e.call(ctx, job)
	if err != nil {
		o := failureOf(ctx, a.key, err)
		if !errors.Is(context.Cause(ctx), errCancelled) {
			log.Warn("job failed", "error", err)
		}
		if err := checkFrame(o.frames[0]); err != nil {
			log.Error("the reason of the failure cannot be sent", "error", err)
			return failure(a.key, reasonFailed)
		}
		return o
	}
	speech, err := newSpeech(&result)
	if err != nil {
		log.Error("the speech cannot be sent; the result is sent without it", "error", err)
	}
	uploaded := false
	if url := a.assign.TTSUpload; url != "" && speech != nil {
		err := e.transfers.upload(ctx, a.base, url, speech) // before the result, so that the speech is there when the text is
		if err != nil {
			log.Warn("the speech could not be uploaded; the result is sent without it", "error", err)
		}
		uploaded, speech = err == nil, nil
	}
	o, err := success(a.key, result, speech, uploaded)
	if err != nil {
		log.Error("the result cannot be sent", "error", err)
		return failure(a.key, reasonResult)
	}
	return o
}

// call calls the handler and turns a panic into an error.
func (e *executor) call(ctx context.Context, job *Job) (result Result, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		// The value of a panic may contain a transcript. Only the texts of the runtime are safe to log.
		value := recover()
		text := fmt.Sprintf("%T", value)
		if r, ok := value.(runtime.Error); ok {
			text = r.Error()
		}
		e.log.Error("handler panicked", "job_id", job.ID, "attempt_id", job.Attempt, "panic", text, "stack", string(debug.Stack()))
		result, err = Result{}, Fail(reasonPanic)
	}()
	result, err = e.handler(ctx, job)
	returned = true
	return result, err
}
