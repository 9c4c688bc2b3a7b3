package lab

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxOpenDispatches bounds the requests without an outcome, and with them the memory and the connections of the generator.
	maxOpenDispatches = 20_000
	// cancelTimeout bounds the cancellation of a job that did not end in time.
	cancelTimeout = 5 * time.Second
)

// httpDriver sends dispatches over HTTP and reads each job until it has ended.
type httpDriver struct {
	cfg      *LoadConfig
	run      string
	apis     []*API
	recorder *recorder

	ctx     context.Context
	open    atomic.Int64
	running sync.WaitGroup
}

// lead implements driver: a dispatch is sent when it is due.
func (d *httpDriver) lead() time.Duration { return 0 }

// submit implements driver.
func (d *httpDriver) submit(q request) {
	if d.open.Add(1) > maxOpenDispatches {
		d.open.Add(-1)
		d.recorder.fail(q, failure{code: codeNotSent, detail: fmt.Sprintf("%d requests were open", maxOpenDispatches)})
		return
	}
	d.running.Go(func() {
		defer d.open.Add(-1)
		ctx, cancel := context.WithDeadline(d.ctx, q.due.Add(d.cfg.Timeout))
		defer cancel()
		if s, err := d.dispatch(ctx, q); err != nil {
			d.recorder.fail(q, err.failure)
		} else {
			d.recorder.finish(q, s)
		}
	})
}

// wait implements driver. Every request ends within its timeout.
func (d *httpDriver) wait(time.Time) { d.running.Wait() }

// close implements driver.
func (d *httpDriver) close() {}

// requestError is the failure of one request.
type requestError struct{ failure }

// dispatch sends one dispatch and waits for the end of its job.
func (d *httpDriver) dispatch(ctx context.Context, q request) (sample, *requestError) {
	s := newSample()
	api, pair := d.apis[q.number%len(d.apis)], d.cfg.Pairs[q.number%len(d.cfg.Pairs)]
	in := wire.DispatchRequest{
		RequestID: fmt.Sprintf("%s-%d", d.run, q.number), SessionID: fmt.Sprintf("%s-s%d", d.run, q.number%d.cfg.Sessions),
		SrcLang: pair.Src, TgtLang: pair.Tgt, AudioRef: "bench:none",
	}
	var out wire.DispatchResponse
	d.recorder.send(q, time.Now())
	err := api.Post(ctx, "/v1/dispatch/f2f", in, &out)
	answered := time.Since(q.due)
	if err != nil {
		return s, &requestError{failureOf(err)}
	}
	s[dispatch] = answered
	job, err := d.awaitEnd(ctx, api, out.JobID)
	read := time.Since(q.due)
	switch {
	case err != nil:
		d.cancel(api, out.JobID)
		return s, &requestError{failureOf(err)}
	case job.State != core.StateDone.String():
		return s, &requestError{failure{code: codeJobEnded, reason: job.Reason, detail: "the job is " + job.State + ": " + job.Detail}}
	}
	// Both are upper bounds of the time of the result: the read that found it, and the answer to the dispatch plus the
	// duration of the job, which is in its record. The second does not depend on how often the job is read.
	s[whole] = min(read, answered+time.Duration(job.UpdatedMS-job.CreatedMS)*time.Millisecond)
	if work := WorkTime(job.Result); d.cfg.Nodes > 0 && work > 0 {
		s[overhead] = s[whole] - work
	}
	return s, nil
}

// awaitEnd reads a job until it has ended.
func (d *httpDriver) awaitEnd(ctx context.Context, api *API, id string) (*wire.Job, error) {
	for run.SleepJitter(ctx, d.cfg.Poll, 0.2) {
		var job wire.Job
		err := api.Get(ctx, "/v1/jobs/"+url.PathEscape(id), &job)
		d.recorder.update(func(r *recorder) { r.polls++ })
		var refusal *wire.Error
		if errors.As(err, &refusal) && !refusal.Code.Retryable() {
			return nil, err
		}
		if err != nil {
			continue // the next read may succeed, until the timeout
		}
		if state, err := core.ParseState(job.State); err != nil || state.Terminal() {
			return &job, err
		}
	}
	return nil, context.DeadlineExceeded
}

// cancel ends a job whose outcome is no longer awaited.
func (d *httpDriver) cancel(api *API, id string) {
	ctx, cancel := context.WithTimeout(d.ctx, cancelTimeout)
	defer cancel()
	var out wire.CancelResponse
	_ = api.Post(ctx, "/v1/jobs/"+url.PathEscape(id)+"/cancel", struct{}{}, &out) // the job has a deadline of its own
}
