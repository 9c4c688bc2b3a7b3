package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// allServices are one service of each type, ready.
func allServices() []object {
	var list []object
	for _, kind := range []string{"asr", "semantic", "nmt", "tts"} {
		list = append(list, object{"service_id": kind + "-1", "version": "1", "type": kind, "status": "ready"})
	}
	return list
}

// expectReasons wants dispatch and explain to have the same reasons against the only node; none: the node gets the job.
func expectReasons(ts *testScheduler, body object, want map[string]int) {
	ts.t.Helper()
	var x wire.ExplainResponse
	ts.post("/v1/dispatch/explain", body).decode(&x)
	if diff := cmp.Diff(want, x.Reasons); diff != "" {
		ts.t.Errorf("explain (-want +got)\n%s", diff)
	}
	if len(want) == 0 {
		d, n := ts.dispatchAndReceive(body)
		n.done(d, nil).expectOK()
		return
	}
	if e := ts.post("/v1/dispatch/f2f", body).expectError(wire.AllCandidatesFullOrFailed); !cmp.Equal(e.Reasons, want) {
		ts.t.Errorf("dispatch answers %v, want %v", e.Reasons, want)
	}
}

// TestServiceStatusGatesJobs: a node that declares services of a type that a job needs must have one of them ready.
func TestServiceStatusGatesJobs(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"installed_services": allServices()})
	plain, spoken := dispatchBody(nil), dispatchBody(object{"options": object{"require_tts": true}})
	expectReasons(ts, plain, map[string]int{})
	for _, c := range []struct{ service, status, reason string }{
		{"asr-1", "downloading", "ASR_SERVICE_NOT_READY"},
		{"semantic-1", "verifying", "SEMANTIC_SERVICE_NOT_READY"},
		{"nmt-1", "error", "NMT_SERVICE_NOT_READY"},
	} {
		n.heartbeat(object{"capability_state": object{c.service: c.status}})
		expectReasons(ts, plain, map[string]int{c.reason: 1})
		n.heartbeat(object{}) // an absent field is unchanged
		expectReasons(ts, plain, map[string]int{c.reason: 1})
		n.heartbeat(object{"capability_state": object{c.service: "ready"}})
		expectReasons(ts, plain, map[string]int{})
	}
	n.heartbeat(object{"capability_state": object{"tts-1": "stopped", "unknown": "error"}})
	expectReasons(ts, plain, map[string]int{})
	expectReasons(ts, spoken, map[string]int{"TTS_SERVICE_NOT_READY": 1})
	// A second ready service of the type is enough; and a new list has the status of its services.
	n.heartbeat(object{"installed_services": append(allServices(), object{"service_id": "tts-2", "type": "tts", "status": "ready"}), "capability_state": object{"tts-1": "error"}})
	expectReasons(ts, spoken, map[string]int{})
	n.heartbeat(object{"installed_services": allServices(), "capability_state": object{"tts-1": "error"}})
	expectReasons(ts, spoken, map[string]int{"TTS_SERVICE_NOT_READY": 1})
	n.heartbeat(object{"installed_services": allServices()})
	expectReasons(ts, spoken, map[string]int{})
	for _, s := range ts.getNode("n1").InstalledServices {
		if s.Status != "ready" {
			t.Errorf("%+v", s)
		}
	}
}

// TestMarkedServiceGatesJobs: a marked service counts as not ready, by the same rule.
func TestMarkedServiceGatesJobs(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"installed_services": append(allServices(), object{"service_id": "asr-2", "type": "asr", "status": "ready"})})
	mark := func(service string) {
		t.Helper()
		ts.post("/v1/node/model_not_available", object{"node_id": n.id, "service_id": service}).expectOK()
	}
	mark("never-declared")
	expectReasons(ts, dispatchBody(nil), map[string]int{})
	mark("asr-1")
	expectReasons(ts, dispatchBody(nil), map[string]int{}) // the other service of the type is ready
	expectReasons(ts, dispatchBody(object{"options": object{"required_services": []string{"asr-1"}}}), map[string]int{"SERVICE_MARKED_UNAVAILABLE": 1})
	mark("asr-2")
	expectReasons(ts, dispatchBody(nil), map[string]int{"ASR_SERVICE_NOT_READY": 1})
}

// TestCapabilityStateAtRegistration: capability_state takes precedence over installed_services, over HTTP and over a socket.
func TestCapabilityStateAtRegistration(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.newNode("n1")
	declared := nodeDeclaration(object{"node_id": "n1", "callback_url": n.srv.URL, "installed_services": allServices(), "capability_state": object{"nmt-1": "installing"}})
	var r wire.RegisterResponse
	ts.post("/v1/node/register", declared).decode(&r)
	expectReasons(ts, dispatchBody(nil), map[string]int{"NMT_SERVICE_NOT_READY": 1})

	s := ts.connect("/ws/node")
	s.send(declared.with(object{"type": "node_register", "callback_url": nil, "active": []object{}}))
	s.readUntil("node_register_ack")
	expectReasons(ts, dispatchBody(nil), map[string]int{"NMT_SERVICE_NOT_READY": 1})
	s.send(object{"type": "node_heartbeat", "active": []object{}, "capability_state": object{"nmt-1": "ready"}})
	ts.eventually("the service is ready", func() bool {
		var x wire.ExplainResponse
		ts.post("/v1/dispatch/explain", dispatchBody(nil)).decode(&x)
		return len(x.Reasons) == 0
	})
	for _, bad := range []object{{"nmt-1": "fine"}, {"": "ready"}, {"nmt-1": 1}} {
		e := ts.post("/v1/node/heartbeat", object{"node_id": "n1", "capability_state": bad}).expectError(wire.InvalidRequest)
		if e.Field == "" {
			t.Errorf("%v: %+v", bad, e)
		}
	}
}

// TestModelNotAvailableMovesJob: the job that failed because of a missing service moves, and the node gets no further jobs that
// require the service.
func TestModelNotAvailableMovesJob(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	has := object{"installed_services": []object{{"service_id": "tone", "version": "2", "status": "ready"}}, "max_concurrent_jobs": 10}
	a, b := ts.registerNode("a", has), ts.registerNode("b", has)
	needs := dispatchBody(object{"options": object{"required_services": []string{"tone"}}})
	d1, first := ts.dispatchAndReceive(needs)
	second := first.other(a, b)
	ts.post("/v1/node/model_not_available", object{
		"node_id": first.id, "service_id": "tone", "version": "2", "reason": "CHECKSUM", "job_id": d1.JobID, "attempt_id": 1,
	}).expectOK()
	d2, got := ts.nextDelivery()
	if got != second || d2.AttemptID != 2 {
		t.Errorf("want attempt 2 on the other node, got %+v", d2.Assignment)
	}
	j := ts.getJob(d1.JobID)
	expectAttempts(t, j, wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "MODEL_NOT_AVAILABLE"}, wire.Attempt{AttemptID: 2, NodeID: second.id})
	for range 5 {
		if _, n := ts.dispatchAndReceive(needs); n != second {
			t.Errorf("%s reported the service as unavailable and was chosen again", n.id)
		}
	}
	// Jobs that do not require the service may still go there.
	if _, n := ts.dispatchAndReceive(dispatchBody(object{"options": object{"preferred_node_id": first.id, "strict": true}})); n != first {
		t.Errorf("want %s, got %s", first.id, n.id)
	}
}

// TestModelNotAvailableAfterJobMoved: the service is marked although the job has moved, because the mark is about the node.
func TestModelNotAvailableAfterJobMoved(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	has := object{"installed_services": []object{{"service_id": "tone", "version": "2", "status": "ready"}}}
	a, b := ts.registerNode("a", has), ts.registerNode("b", has)
	needs := dispatchBody(object{"options": object{"required_services": []string{"tone"}}})
	d1, first := ts.dispatchAndReceive(needs)
	first.fail(d1, nil).expectOK()
	d2, second := ts.nextDelivery()
	ts.post("/v1/node/model_not_available", object{"node_id": first.id, "service_id": "tone", "job_id": d1.JobID, "attempt_id": 1}).expectOK()
	if second != first.other(a, b) || ts.getJob(d1.JobID).AttemptID != d2.AttemptID {
		t.Errorf("the job moved again: %+v", ts.getJob(d1.JobID))
	}
	second.done(d2, nil).expectOK()
	for range 5 {
		d, n := ts.dispatchAndReceive(needs)
		if n != second {
			t.Errorf("%s reported the service as unavailable and was chosen again", n.id)
		}
		n.done(d, nil).expectOK()
	}
}

// TestModelNotAvailableRateLimit: the reports of one node are limited; those of others are not affected.
func TestModelNotAvailableRateLimit(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(c *config.Config) { c.Scheduler.ModelNotAvailable.NodeRatePerMinute = 2 })
	ts.registerNode("a", nil)
	ts.registerNode("b", nil)
	report := func(node string) response {
		return ts.post("/v1/node/model_not_available", object{"node_id": node, "service_id": "s"})
	}
	report("a").expectOK()
	report("a").expectOK()
	flood := report("a")
	if e := flood.expectError(wire.RateLimited); e.RetryAfter != 60 || flood.header.Get("Retry-After") != "60" {
		t.Errorf("want Retry-After: 60, got %+v and %q", e, flood.header.Get("Retry-After"))
	}
	report("b").expectOK()
}

// TestModelNotAvailableIsFenced: a report about a job of another node is refused, and marks nothing.
func TestModelNotAvailableIsFenced(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	a, b := ts.registerNode("a", nil), ts.registerNode("b", nil)
	d, first := ts.dispatchAndReceive(dispatchBody(nil))
	body := object{"node_id": first.other(a, b).id, "service_id": "s", "job_id": d.JobID, "attempt_id": 1}
	ts.post("/v1/node/model_not_available", body).expectError(wire.NotHolder)
	ts.post("/v1/node/model_not_available", body.with(object{"node_id": first.id, "attempt_id": 2})).expectError(wire.StaleAttempt)
	ts.post("/v1/node/model_not_available", body.with(object{"job_id": "job-unknown"})).expectError(wire.NotFound)
	ts.post("/v1/node/model_not_available", body.with(object{"node_id": "unknown"})).expectError(wire.NotFound)
	if j := ts.getJob(d.JobID); j.State != "DISPATCHED" || len(j.Attempts) != 1 {
		t.Errorf("a fenced report changed the job: %+v", j)
	}
	for _, n := range []*callbackNode{a, b} {
		if marks, err := ts.scheduler.Store.Marked(t.Context(), core.NodeID(n.id)); err != nil || len(marks) != 0 {
			t.Errorf("a refused report left marks: %v, %v", marks, err)
		}
	}
}
