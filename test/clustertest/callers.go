package clustertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// answerTimeout is how long callers and callback nodes wait for an answer before they repeat the request, perhaps to
	// another instance. The acknowledgement of a node has to arrive within twice that time.
	answerTimeout   = time.Second
	jobPollInterval = 150 * time.Millisecond
	// RereadDelay is the mean time after the end of a job at which its caller reads the outcome again.
	RereadDelay = 2 * time.Second
	// ambiguousShare is the share of calls that prefer the ambiguous node, which has enough slots for them.
	ambiguousShare = 0.3
)

// newSchedulerClient returns a client of the scheduler's HTTP API with a short timeout.
func newSchedulerClient(url string) *lab.API {
	p := lab.NewAPI(url)
	p.HTTP.Timeout = answerTimeout
	return p
}

// runCallers dispatches jobs over HTTP until the context ends, and returns when all of them have ended.
func runCallers(ctx context.Context, cfg DriverConfig, j *journal.Writer, ready func()) error {
	api := newSchedulerClient(cfg.URL)
	defer api.Close()
	return runAll(cfg.Count, ready, func(i int, isReady func()) error {
		isReady()
		c := &caller{name: fmt.Sprintf("%s-%d", cfg.Name, i), journal: j, api: api, rand: rand.New(rand.NewPCG(cfg.Seed, uint64(i)))}
		c.run(ctx, cfg.Interval)
		return nil
	})
}

// caller dispatches jobs over HTTP. No session repeats such a job, so its outcome depends on the scheduler alone.
type caller struct {
	name    string
	journal *journal.Writer
	api     *lab.API
	rand    *rand.Rand
}

// run makes a call in each interval, also while earlier calls are open.
func (c *caller) run(ctx context.Context, interval time.Duration) {
	var open sync.WaitGroup
	defer open.Wait()
	if !run.Sleep(ctx, time.Duration(c.rand.Int64N(int64(interval)))) {
		return
	}
	for n := 0; ; n++ {
		next := &call{caller: c, request: wire.DispatchRequest{
			RequestID: fmt.Sprintf("%s.%d", c.name, n), SessionID: c.name, SrcLang: "en", TgtLang: "es",
		}}
		if c.rand.Float64() < ambiguousShare {
			next.request.Options.PreferredNodeID = new(AmbiguousNode)
		}
		open.Go(func() { next.run(context.WithoutCancel(ctx)) })
		if !run.SleepJitter(ctx, interval, 0.5) {
			return
		}
	}
}

// call is one request of a caller.
type call struct {
	*caller
	request wire.DispatchRequest
}

// entry returns an entry of a kind about the call.
func (c *call) entry(kind string) journal.Entry {
	return journal.Entry{Source: c.name, Kind: kind, Request: c.request.RequestID}
}

// run makes the call, waits for its outcome, and reads the outcome again later.
func (c *call) run(ctx context.Context) {
	c.journal.Add(c.entry(journal.CallSent))
	end := c.waitOutcome(ctx)
	end.Kind = journal.Terminal
	c.journal.Add(end)
	if end.Job == "" {
		return
	}
	run.SleepJitter(ctx, RereadDelay, 0.5)
	again := c.readJob(ctx, end.Job)
	again.Kind = journal.OutcomeReread
	c.journal.Add(again)
}

// waitOutcome dispatches the job and returns its outcome. A job whose record was lost is dispatched again.
func (c *call) waitOutcome(ctx context.Context) journal.Entry {
	for {
		e := c.dispatch(ctx)
		if e.Job == "" {
			return e
		}
		c.journal.Add(e)
		for e = c.readJob(ctx, e.Job); !e.OK && e.Code == ""; e = c.readJob(ctx, e.Job) {
			run.SleepJitter(ctx, jobPollInterval, 0.5)
		}
		if e.Code != string(wire.NotFound) {
			return e
		}
		e.Kind = journal.JobNotFound
		c.journal.Add(e)
	}
}

// dispatch sends the request, under the same request_id until a repeat would not change the answer.
func (c *call) dispatch(ctx context.Context) journal.Entry {
	e := c.entry(journal.CallAccepted)
	var out wire.DispatchResponse
	e.Code = c.retry(ctx, func() error { return c.api.Post(ctx, "/v1/dispatch/f2f", c.request, &out) })
	e.Job, e.Attempt, e.Node = out.JobID, out.AttemptID, out.NodeID
	return e
}

// readJob reads the outcome of the job: OK, or a code. Without either the job has not ended.
func (c *call) readJob(ctx context.Context, job string) journal.Entry {
	var out wire.Job
	e := c.entry("")
	e.Job = job
	if e.Code = c.retry(ctx, func() error { return c.api.Get(ctx, "/v1/jobs/"+job, &out) }); e.Code != "" {
		return e
	}
	e.Attempt, e.Node = out.AttemptID, out.NodeID
	switch out.State {
	case "DONE":
		e.OK = true
		var result struct {
			Text string `json:"text_tgt"`
		}
		_ = json.Unmarshal(out.Result, &result) // the checker reports a result without an origin
		if setOrigin(&e, result.Text); e.Node != out.NodeID && e.Code == "" {
			e.Code = "the record names " + out.NodeID
		}
	case "FAILED", "CANCELLED":
		e.Code = cmp.Or(out.Reason, out.State)
	}
	return e
}

// retry calls do until a repeat would not change the answer, and returns the error code of a final refusal.
func (c *call) retry(ctx context.Context, do func() error) string {
	for wait := jobPollInterval; ; wait = min(2*wait, time.Second) {
		err := do()
		if err == nil {
			return ""
		}
		var refusal *wire.Error
		if !errors.As(err, &refusal) {
			run.SleepJitter(ctx, wait, 0.5)
			continue
		}
		if !refusal.Code.Retryable() {
			return string(refusal.Code)
		}
		e := c.entry(journal.CallRefused)
		e.Code = string(refusal.Code)
		c.journal.Add(e)
		run.SleepJitter(ctx, max(wait, time.Duration(refusal.RetryAfterMS)*time.Millisecond), 0.2)
	}
}

// setOrigin sets what a result states about its origin: the node, and the attempt that the node worked on.
func setOrigin(e *journal.Entry, text string) {
	var origin resultOrigin
	_ = json.Unmarshal([]byte(text), &origin) // the checker reports a result without an origin
	e.Node, e.Bytes = origin.Node, origin.Bytes
	if origin.Job != e.Job || origin.Attempt != e.Attempt {
		e.Code = fmt.Sprintf("the node made it for attempt %d of %s", origin.Attempt, origin.Job)
	}
}
