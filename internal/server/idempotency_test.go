package server_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestOneRequestOneJob sends one request from 64 callers at once: one job, one delivery, 64 equal answers.
func TestConcurrentDuplicateRequests(t *testing.T) {
	t.Parallel()
	const callers = 64
	ts := startScheduler(t)
	// The delivery is held until the job's answer is awaited by many; a second one would be seen meanwhile.
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

// TestRepeatedRequest answers the same in every state of the job.
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
		// A signature in the query is made anew at each try.
		ts.post("/v1/dispatch/f2f", body.with(object{"audio_ref": "https://audio/1?sig=b"})).expectBody(same)
		ts.expectNoDelivery()
	}
	again()
	n.ack(d, nil).expectOK()
	again()
	n.done(d, nil).expectOK()
	again()
	ts.request("POST", "/v1/nodes/n1/drain", "", nil)
	again() // nobody could take it now, but it was taken
}

// TestRepeatedRequestAfterRetry names whoever has the job now.
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

// TestOtherContent refuses a request id that was used for something else, whatever differs.
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

// TestRefusalIsNotRemembered lets the same request succeed once there is room.
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

// reports are the three things a node says of a job.
var reportCalls = map[string]func(n *callbackNode, d delivery, changes object) response{"ack": (*callbackNode).ack, "done": (*callbackNode).done, "fail": (*callbackNode).fail}

// TestRepeatedReports sends everything twice, as a node does that lost the answer.
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

// TestRepeatedFail counts a failure once, also while the job waits for another node.
func TestRepeatedFailCountsOnce(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	ts.registerNode("n2", object{"current_load": object{"cpu": 1}}) // the one that is waited for
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
	// Its own slot is free again: it asked for other work.
	if s := ts.getNode(n.id); s.EffectiveLoad != 0 {
		t.Errorf("the slot is still taken: %+v", s)
	}
}

// TestStrangersAreFenced sends every report from everybody who does not hold the job. Nothing changes.
func TestReportsOfOtherNodesAreFenced(t *testing.T) {
	t.Parallel()
	for name, say := range reportCalls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := startScheduler(t)
			a, b := ts.registerNode("a", nil), ts.registerNode("b", nil)
			d1, first := ts.dispatchAndReceive(dispatchBody(nil))
			second := first.other(a, b)

			say(second, d1, nil).expectError(wire.NotHolder)
			say(first, d1, object{"epoch": first.epoch - 1}).expectError(wire.StaleEpoch)
			say(first, d1, object{"epoch": first.epoch + 1}).expectError(wire.StaleEpoch)
			say(first, d1, object{"attempt_id": 2}).expectError(wire.StaleAttempt)
			say(first, d1, object{"job_id": "job-nobody-knows"}).expectError(wire.NotFound)
			say(ts.newNode("nobody"), d1, nil).expectError(wire.NotHolder)
			if j := ts.getJob(d1.JobID); j.State != "DISPATCHED" || len(j.Attempts) != 1 {
				t.Fatalf("a stranger changed the job: %+v", j)
			}

			first.fail(d1, nil).expectOK()
			d2, _ := ts.nextDelivery()
			second.ack(d2, nil).expectOK()
			before := ts.getJob(d1.JobID)
			say(first, d1, nil).expectError(wire.StaleAttempt) // late
			say(first, d2, nil).expectError(wire.NotHolder)    // it heard of the retry and claims it
			if diff := cmp.Diff(before, ts.getJob(d1.JobID)); diff != "" {
				t.Errorf("a late %s changed the job: (-before +after)\n%s", name, diff)
			}
			second.done(d2, nil).expectOK()
			ts.expectNoDelivery()
		})
	}
}
