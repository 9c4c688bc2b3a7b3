package server_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/wire"
)

// waitingBody is the body of a dispatch that waits for a slot.
func waitingBody(requestID string, maxWaitMS any) object {
	return dispatchBody(object{"request_id": requestID, "options": object{"max_wait_ms": maxWaitMS}})
}

// postAsync posts in the background, until the context ends.
func (ts *testScheduler) postAsync(ctx context.Context, path string, body any) <-chan response {
	return ts.postAsyncAs(ctx, "", path, body)
}

// postAsyncAs is postAsync with a key.
func (ts *testScheduler) postAsyncAs(ctx context.Context, key, path string, body any) <-chan response {
	answers := make(chan response, 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, ts.url+path, strings.NewReader(string(encode(ts.t, body))))
	if err != nil {
		ts.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	go func() {
		defer close(answers)
		resp, err := ts.client.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		answers <- response{t: ts.t, status: resp.StatusCode, header: resp.Header, body: text}
	}()
	return answers
}

// awaitWaiting waits until so many requests wait for a slot.
func (ts *testScheduler) awaitWaiting(n int) {
	ts.t.Helper()
	ts.eventually("requests wait", func() bool { return ts.scheduler.Jobs.Waiting.Waiting() == n })
}

// TestDispatchWaits: a dispatch with max_wait_ms waits for a slot, and gets the one that is freed. The same request waits once.
func TestDispatchWaits(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("a", object{"max_concurrent_jobs": 1})
	busy, node := ts.dispatchAndReceive(dispatchBody(nil))
	node.ack(busy, nil)
	first := ts.postAsync(t.Context(), "/v1/dispatch/f2f", waitingBody("w-1", 60_000))
	ts.awaitWaiting(1)
	second := ts.postAsync(t.Context(), "/v1/dispatch/f2f", waitingBody("w-1", 30_000))
	node.done(busy, nil)
	var jobs []string
	for _, answers := range []<-chan response{first, second} {
		a, ok := <-answers
		if !ok {
			t.Fatal("no answer")
		}
		var placed wire.DispatchResponse
		a.decode(&placed)
		jobs = append(jobs, placed.JobID)
	}
	if jobs[0] != jobs[1] || jobs[0] == "" {
		t.Errorf("jobs %v, want the same twice", jobs)
	}
	ts.awaitWaiting(0)
}

// TestWaitIsNotSlow: a dispatch that waits is not counted as slow, and logged, however long it takes.
func TestWaitIsNotSlow(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(c *config.Config) { c.Scheduler.Observability.PathWarnMS = 1 })
	ts.registerNode("a", object{"max_concurrent_jobs": 1})
	busy, node := ts.dispatchAndReceive(dispatchBody(nil))
	node.ack(busy, nil)
	counter := ts.scheduler.Metrics.SlowPath.WithLabelValues("/v1/dispatch/f2f")
	before := counter.Load()
	ts.post("/v1/dispatch/f2f", waitingBody("w-1", 20)).expectError(wire.AllCandidatesFullOrFailed)
	if after := counter.Load(); after != before {
		t.Errorf("a wait of 20 ms was counted as slow %v times", after-before)
	}
}

// TestWaitEndsWithTheConnection: a client that leaves does not wait any more, and its place is free for the next.
func TestWaitEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("a", object{"max_concurrent_jobs": 1})
	busy, node := ts.dispatchAndReceive(dispatchBody(nil))
	node.ack(busy, nil)
	ctx, leave := context.WithCancel(t.Context())
	gone := ts.postAsync(ctx, "/v1/dispatch/f2f", waitingBody("gone", 60_000))
	ts.awaitWaiting(1)
	leave()
	<-gone
	ts.awaitWaiting(0)
	next := ts.postAsync(t.Context(), "/v1/dispatch/f2f", waitingBody("next", 60_000))
	ts.awaitWaiting(1)
	node.done(busy, nil)
	a, ok := <-next
	if !ok {
		t.Fatal("no answer")
	}
	var placed wire.DispatchResponse
	a.decode(&placed)
	if d, _ := ts.nextDelivery(); d.JobID != placed.JobID {
		t.Errorf("job %s was delivered, want %s", d.JobID, placed.JobID)
	}
	ts.expectNoDelivery() // the one that left has no job
}

// TestWaitIsCancelled: an operator cancels a dispatch that waits, which is audited and answers it. A caller of another tenant cannot.
func TestWaitIsCancelled(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithRoles(t, func(c *config.Config) { // the node does not acknowledge its job, and keeps it
		c.Scheduler.Dispatch.ACKTimeoutMS, c.Scheduler.Dispatch.AttemptTimeoutMS, c.Scheduler.Dispatch.JobTimeoutMS = 60_000, 120_000, 180_000
		c.Scheduler.TaskBinding.ReservedTTLSeconds = 61
	})
	ts.requestAs(gpuToken, "POST", "/v1/node/register", declaration("gpu-1", ts.newNode("gpu-1").callback()).with(object{"max_concurrent_jobs": 1})).decode(new(wire.RegisterResponse))
	ts.requestAs(operatorKey, "POST", "/v1/dispatch/f2f", dispatchBody(nil)).decode(new(wire.DispatchResponse))
	waits := ts.postAsyncAs(t.Context(), operatorKey, "/v1/dispatch/f2f", waitingBody("w-1", 60_000).with(object{"tenant_id": "beta"}))
	ts.eventually("the dispatch waits", func() bool { return ts.waitingAs(viewerKey, "").Total == 1 })
	id := ts.waitingAs(viewerKey, "").Requests[0].JobID
	path := "/v1/jobs/" + id + "/cancel"
	ts.requestAs(minterKey, "POST", path, nil).expectError(wire.NotFound)
	ts.requestAs(viewerKey, "POST", path, nil).expectError(wire.Forbidden)
	var answer wire.CancelResponse
	ts.requestAs(operatorKey, "POST", path, nil).decode(&answer)
	if !answer.Cancelled || !answer.Waited || answer.Job.JobID != id || answer.Job.TenantID != "beta" || answer.Job.SrcLang != "en" || answer.Job.State != "CANCELLED" {
		t.Errorf("%+v", answer)
	}
	a, ok := <-waits
	if !ok {
		t.Fatal("no answer")
	}
	a.expectError(wire.Cancelled)
	ts.eventually("nobody waits", func() bool { return ts.waitingAs(viewerKey, "").Total == 0 })
	ts.requestAs(operatorKey, "POST", path, nil).expectError(wire.NotFound)
}

// TestWaitIsOver: a dispatch that got no slot in time is refused as full, when its time is over.
func TestWaitIsOver(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("a", object{"max_concurrent_jobs": 1})
	ts.dispatchAndReceive(dispatchBody(nil))
	began := time.Now()
	a := ts.post("/v1/dispatch/f2f", waitingBody("w", 300))
	if e := a.expectError(wire.AllCandidatesFullOrFailed); e.Reasons["FULL"] != 1 || e.RetryAfterMS == 0 {
		t.Errorf("%+v", e)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("refused after %s", took)
	}
	ts.awaitWaiting(0)
}

// TestMaxWaitIsChecked: a wait that is not a time of at most a minute is refused, and changes nothing.
func TestMaxWaitIsChecked(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("a", object{"max_concurrent_jobs": 1})
	for _, wait := range []any{-1, 60_001, 1.5, "1000", true} {
		if e := ts.post("/v1/dispatch/f2f", waitingBody("w", wait)).expectError(wire.InvalidRequest); e.Field != "options.max_wait_ms" {
			t.Errorf("%v: %+v", wait, e)
		}
	}
	ts.expectNoDelivery()
}

// TestWaitOutlivesTheTimeouts: a request that waits is not ended by the timeouts of slow peers, and its answer is written after them.
func TestWaitOutlivesTheTimeouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 100 * time.Millisecond
		ended := make(chan error, 1)
		waits := func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			select {
			case <-r.Context().Done():
			case <-time.After(5 * timeout):
			}
			ended <- r.Context().Err()
			server.WriteBody(w, []byte("answer"))
		}
		p := listenPipes(t, &http.Server{ReadTimeout: timeout, WriteTimeout: timeout, Handler: http.HandlerFunc(waits)})
		conn := p.dial(t)
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n\r\nbody"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "answer" {
			t.Errorf("%q, %v", text, err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the request was ended: %v", err)
		}
	})
}
