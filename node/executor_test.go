package node

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// execute runs a handler for one attempt and returns its outcome.
func execute(t *testing.T, timeout time.Duration, h Handler, during func(*executor, *attempt)) outcome {
	t.Helper()
	e := newExecutor(t.Context(), h, slog.New(slog.DiscardHandler), nil, nil)
	assign := &wire.JobAssign{JobID: "j-1", AttemptID: 1}
	a := &attempt{key: wire.ActiveJob{JobID: "j-1", AttemptID: 1}, assign: assign}
	if timeout > 0 {
		a.deadline = time.Now().Add(timeout)
	}
	outcomes := make(chan outcome, 1)
	e.start(a, newJob(assign, time.Now()), func(o outcome) { outcomes <- o })
	during(e, a)
	<-e.returned()
	return <-outcomes
}

func TestExecutorOutcomes(t *testing.T) {
	t.Parallel()
	key := wire.ActiveJob{JobID: "j-1", AttemptID: 1}
	untilCancelled := func(ctx context.Context, _ *Job) (Result, error) {
		<-ctx.Done()
		return Result{}, ctx.Err()
	}
	idle := func(*executor, *attempt) {}
	for name, c := range map[string]struct {
		handler Handler
		during  func(*executor, *attempt)
		want    wire.Frame
	}{
		"result": {
			func(context.Context, *Job) (Result, error) { return Result{TextTgt: "hola"}, nil }, idle,
			wire.JobResult{ActiveJob: key, Result: []byte(`{"text_src":"","text_tgt":"hola"}`)},
		},
		"error":    {func(context.Context, *Job) (Result, error) { return Result{}, errors.New("x") }, idle, wire.JobFail{ActiveJob: key, Reason: reasonFailed}},
		"panic":    {func(context.Context, *Job) (Result, error) { panic("x") }, idle, wire.JobFail{ActiveJob: key, Reason: reasonPanic}},
		"deadline": {untilCancelled, idle, wire.JobFail{ActiveJob: key, Reason: reasonDeadline}},
		"shutdown": {untilCancelled, func(e *executor, _ *attempt) { e.cancel() }, wire.JobFail{ActiveJob: key, Reason: reasonShutdown}},
		"cancel":   {untilCancelled, func(_ *executor, a *attempt) { a.cancel(errCancelled) }, wire.JobFail{ActiveJob: key, Reason: reasonFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := execute(t, time.Minute, c.handler, c.during)
				if diff := cmp.Diff([]wire.Frame{c.want}, o.frames); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Handlers outlast the context of Run by the shutdown timeout.
func TestHandlersOutlastTheContextOfRun(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	e := newExecutor(ctx, nil, nil, nil, nil)
	if stop(); e.ctx.Err() != nil {
		t.Error("the context of the handlers ended with that of Run")
	}
	if e.cancel(); !errors.Is(context.Cause(e.ctx), errShutdown) {
		t.Errorf("cause %v, want the shutdown", context.Cause(e.ctx))
	}
}
