package server_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestConcurrentDuplicateRequests: one request from 64 concurrent callers makes one job and one delivery, and all answers are
// equal.
func TestConcurrentDuplicateRequests(t *testing.T) {
	t.Parallel()
	const callers = 64
	ts := startScheduler(t)
	// The delivery blocks while many callers wait for the answer; a second delivery would show meanwhile.
	hold := make(chan struct{})
	for _, id := range []string{"a", "b", "c"} {
		ts.registerNode(id, nil).setAnswer(func(http.ResponseWriter, *http.Request) { <-hold })
	}
	body := dispatchBody(object{"request_id": "req-1", "audio_ref": "blob://1"})
	answers := make([]response, callers)
	var ready, asked sync.WaitGroup
	start := make(chan struct{})
	for i := range callers {
		ready.Add(1)
		asked.Go(func() {
			ready.Done()
			<-start
			answers[i] = ts.post("/v1/dispatch/f2f", body)
		})
	}
	ready.Wait()
	close(start)
	d, n := ts.nextDelivery()
	close(hold)
	asked.Wait()

	for _, a := range answers {
		a.expectBody(object{"job_id": d.JobID, "node_id": n.id, "attempt_id": 1})
	}
	ts.expectNoDelivery()
	var list wire.JobList
	ts.get("/v1/jobs").decode(&list)
	if len(list.Jobs) != 1 || list.Jobs[0].RequestID != "req-1" {
		t.Errorf("want one job of req-1, got %+v", list.Jobs)
	}
	if s := ts.getNode(n.id); s.EffectiveLoad != 1 {
		t.Errorf("want one slot taken, got %+v", s)
	}
}

// TestRepeatedRequestReturnsSameJob: a repeated request has the same answer in every state of the job.
func TestRepeatedRequestReturnsSameJob(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"max_concurrent_jobs": 1})
	body := dispatchBody(object{"request_id": "req-1", "audio_ref": "https://audio/1?sig=a"})
	d, _ := ts.dispatchAndReceive(body)
	same := object{"job_id": d.JobID, "node_id": "n1", "attempt_id": 1}
	again := func() {
		t.Helper()
		ts.post("/v1/dispatch/f2f", body).expectBody(same)
		// A client signs the URL again for each try.
		ts.post("/v1/dispatch/f2f", body.with(object{"audio_ref": "https://audio/1?sig=b"})).expectBody(same)
		ts.expectNoDelivery()
	}
	again()
	n.ack(d, nil).expectOK()
	again()
	n.done(d, nil).expectOK()
	again()
	ts.request("POST", "/v1/nodes/n1/drain", "", nil)
	again() // no node could take it now, but one did before
}

// TestRepeatedRequestAfterRetry: the answer names the node that holds the job now.
func TestRepeatedRequestAfterRetry(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("a", nil)
	ts.registerNode("b", nil)
	body := dispatchBody(object{"request_id": "req-1"})
	d, n := ts.dispatchAndReceive(body)
	n.fail(d, nil).expectOK()
	d2, second := ts.nextDelivery()
	ts.post("/v1/dispatch/f2f", body).expectBody(object{"job_id": d.JobID, "node_id": second.id, "attempt_id": 2})
	second.done(d2, nil).expectOK()
}

// TestRequestIDWithOtherContent: a request id that was used with other content is refused, for every field that differs.
func TestRequestIDWithOtherContent(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", object{"max_concurrent_jobs": 100})
	body := dispatchBody(object{"request_id": "req-1", "audio_ref": "blob://1"})
	d, _ := ts.dispatchAndReceive(body)
	before := ts.getJob(d.JobID)
	for name, change := range map[string]object{
		"session":   {"session_id": "room-999"},
		"source":    {"src_lang": "de"},
		"target":    {"src_lang": "zh", "tgt_lang": "en"},
		"audio":     {"audio_ref": "blob://2"},
		"tts":       {"options": object{"require_tts": true}},
		"services":  {"options": object{"required_services": []string{"s"}}},
		"models":    {"options": object{"required_models": []string{"m"}}},
		"features":  {"options": object{"features": []string{"f"}}},
		"preferred": {"options": object{"preferred_node_id": "n1"}},
		"region":    {"options": object{"region": "eu"}},
	} {
		e := ts.post("/v1/dispatch/f2f", body.with(change)).expectError(wire.RequestMismatch)
		if e.Field != "request_id" || e.JobID != d.JobID {
			t.Errorf("%s: want the field and the job named, got %+v", name, e)
		}
	}
	if diff := cmp.Diff(before, ts.getJob(d.JobID)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	ts.expectNoDelivery()

	other := ts.dispatch(body.with(object{"tenant_id": "acme"}))
	if other.JobID == d.JobID {
		t.Error("two tenants share a job because they chose the same request_id")
	}
}

// TestRefusedRequestMaySucceedLater: a refused request succeeds when it is repeated and there is a free slot.
func TestRefusedRequestMaySucceedLater(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	body := dispatchBody(object{"request_id": "req-1"})
	ts.post("/v1/dispatch/f2f", body).expectError(wire.NoCapableNode)
	n := ts.registerNode("n1", nil)
	busy := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTooManyRequests) }
	n.setAnswer(busy)
	ts.post("/v1/dispatch/f2f", body).expectError(wire.AllCandidatesFullOrFailed)
	ts.nextDelivery()
	n.setAnswer(nil)
	ts.dispatchAndReceive(body)
}

// reportCalls are the three reports of a node about a job.
var reportCalls = map[string]func(n *callbackNode, d delivery, changes object) response{"ack": (*callbackNode).ack, "done": (*callbackNode).done, "fail": (*callbackNode).fail}

// TestRepeatedReportsAreIdempotent: a report that is repeated because its answer was lost changes nothing.
func TestRepeatedReportsAreIdempotent(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.ack(d, nil).expectOK()
	n.ack(d, nil).expectOK()
	if s := ts.getNode(n.id); s.Running != 1 || s.Reserved != 0 {
		t.Errorf("a repeated ack took another slot: %+v", s)
	}
	n.done(d, object{"result": object{"text_tgt": "first"}}).expectOK()
	once := ts.getJob(d.JobID)
	n.done(d, object{"result": object{"text_tgt": "second"}}).expectOK()
	n.ack(d, nil).expectOK()
	n.fail(d, nil).expectError(wire.StaleAttempt)
	if diff := cmp.Diff(once, ts.getJob(d.JobID)); diff != "" {
		t.Errorf("repeats changed a job that had ended: (-before +after)\n%s", diff)
	}
	ts.expectNoDelivery()
}

// TestRepeatedFailCountsOnce: a repeated failure counts once, also while the job waits for another node.
func TestRepeatedFailCountsOnce(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	ts.registerNode("n2", object{"current_load": object{"cpu": 1}}) // the job waits for this one
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.fail(d, nil).expectOK()
	waiting := ts.getJob(d.JobID)
	n.fail(d, nil).expectError(wire.StaleAttempt)
	n.ack(d, nil).expectError(wire.StaleAttempt)
	got := ts.getJob(d.JobID)
	if got.State != "RETRYING" || got.AttemptID != 1 || got.Reason != "NODE_FAILED" {
		t.Errorf("want RETRYING after attempt 1, got %+v", got)
	}
	if diff := cmp.Diff(waiting.Attempts, got.Attempts); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	// The node's slot is free again.
	if s := ts.getNode(n.id); s.EffectiveLoad != 0 {
		t.Errorf("the slot is still taken: %+v", s)
	}
}

// TestReportsOfOtherNodesAreFenced: reports from anyone but the holder of the job are refused and change nothing.
func TestReportsOfOtherNodesAreFenced(t *testing.T) {
	t.Parallel()
	for name, report := range reportCalls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := startScheduler(t)
			a, b := ts.registerNode("a", nil), ts.registerNode("b", nil)
			d1, first := ts.dispatchAndReceive(dispatchBody(nil))
			second := first.other(a, b)

			report(second, d1, nil).expectError(wire.NotHolder)
			report(first, d1, object{"epoch": first.epoch - 1}).expectError(wire.StaleEpoch)
			report(first, d1, object{"epoch": first.epoch + 1}).expectError(wire.StaleEpoch)
			report(first, d1, object{"attempt_id": 2}).expectError(wire.StaleAttempt)
			report(first, d1, object{"job_id": "job-unknown"}).expectError(wire.NotFound)
			report(ts.newNode("unknown"), d1, nil).expectError(wire.NotHolder)
			if j := ts.getJob(d1.JobID); j.State != "DISPATCHED" || len(j.Attempts) != 1 {
				t.Fatalf("a fenced report changed the job: %+v", j)
			}

			first.fail(d1, nil).expectOK()
			d2, _ := ts.nextDelivery()
			second.ack(d2, nil).expectOK()
			before := ts.getJob(d1.JobID)
			report(first, d1, nil).expectError(wire.StaleAttempt) // late
			report(first, d2, nil).expectError(wire.NotHolder)    // the first node claims the attempt of the second
			if diff := cmp.Diff(before, ts.getJob(d1.JobID)); diff != "" {
				t.Errorf("a late %s changed the job: (-before +after)\n%s", name, diff)
			}
			second.done(d2, nil).expectOK()
			ts.expectNoDelivery()
		})
	}
}
