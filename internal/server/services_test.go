package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
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

// reportUnavailable sends a report that a service is unavailable, and waits until it is marked.
func (ts *testScheduler) reportUnavailable(body object) {
	ts.t.Helper()
	ts.post("/v1/node/model_not_available", body).expectOK()
	n := ts.scheduler.Fleet.Node(core.NodeID(body["node_id"].(string)))
	service, _ := body["service_id"].(string)
	version, _ := body["version"].(string)
	ts.eventually("the service is marked", func() bool {
		now := ts.scheduler.Fleet.Now()
		undeclared := slices.ContainsFunc(n.UndeclaredMarks(now), func(m fleet.ServiceMark) bool { return m.Service == service && m.Version == version })
		return undeclared || slices.ContainsFunc(n.Declared().Services, func(s core.Service) bool {
			return s.ID == service && (version == "" || s.Version == version) && n.Marked(&s, now)
		})
	})
}

// TestMarkedServiceGatesJobs: a marked service counts as not ready, by the same rule.
func TestMarkedServiceGatesJobs(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"installed_services": append(allServices(), object{"service_id": "asr-2", "type": "asr", "status": "ready"})})
	mark := func(service string) {
		t.Helper()
		ts.reportUnavailable(object{"node_id": n.id, "service_id": service})
	}
	mark("never-declared")
	expectReasons(ts, dispatchBody(nil), map[string]int{})
	mark("asr-1")
	expectReasons(ts, dispatchBody(nil), map[string]int{}) // the other service of the type is ready
	expectReasons(ts, dispatchBody(object{"options": object{"required_services": []string{"asr-1"}}}), map[string]int{"SERVICE_MARKED_UNAVAILABLE": 1})
	mark("asr-2")
	expectReasons(ts, dispatchBody(nil), map[string]int{"ASR_SERVICE_NOT_READY": 1})
}

// TestMarkOfAVersion: a mark of a version makes only that version not ready.
func TestMarkOfAVersion(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", object{"installed_services": []object{
		{"service_id": "asr", "version": "1", "type": "asr", "status": "ready"}, {"service_id": "asr", "version": "2", "type": "asr", "status": "ready"},
	}})
	needs := dispatchBody(object{"options": object{"required_services": []string{"asr"}}})
	ts.reportUnavailable(object{"node_id": "n1", "service_id": "asr", "version": "1"})
	expectReasons(ts, needs, map[string]int{})
	ts.reportUnavailable(object{"node_id": "n1", "service_id": "asr", "version": "2"})
	expectReasons(ts, dispatchBody(nil), map[string]int{"ASR_SERVICE_NOT_READY": 1})
}

// TestMarkEndsWithAFreshReport: a heartbeat that repeats the declaration does not end a mark; one by which the service becomes ready
// does, and so does a registration.
func TestMarkEndsWithAFreshReport(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"installed_services": allServices()})
	marked := map[string]int{"NMT_SERVICE_NOT_READY": 1}
	ts.reportUnavailable(object{"node_id": "n1", "service_id": "nmt-1"})
	for _, same := range []object{
		{}, {"installed_services": allServices()}, {"capability_state": object{"nmt-1": "ready"}}, {"max_concurrent_jobs": 3}, {"capability_state": object{"asr-1": "error"}},
		{"capability_state": object{"asr-1": "ready"}},
	} {
		n.heartbeat(same)
		if reason := ts.explain(dispatchBody(nil)).Nodes[0].Reason; reason != "NMT_SERVICE_NOT_READY" && reason != "ASR_SERVICE_NOT_READY" {
			t.Errorf("after the heartbeat %v the node is rejected for %q", same, reason)
		}
	}
	expectReasons(ts, dispatchBody(nil), marked)
	n.heartbeat(object{"capability_state": object{"nmt-1": "installing"}})
	expectReasons(ts, dispatchBody(nil), marked)
	n.heartbeat(object{"capability_state": object{"nmt-1": "ready"}})
	expectReasons(ts, dispatchBody(nil), map[string]int{})
	ts.reportUnavailable(object{"node_id": "n1", "service_id": "nmt-1"})
	expectReasons(ts, dispatchBody(nil), marked)
	n.register(nil)
	expectReasons(ts, dispatchBody(nil), map[string]int{})
}

// TestExplainShowsMarks: each service that is marked, with its remaining time, also one that the node does not declare.
func TestExplainShowsMarks(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", object{"installed_services": append(allServices(), object{"service_id": "tone", "type": "tone", "status": "stopped"})})
	ts.reportUnavailable(object{"node_id": "n1", "service_id": "asr-1", "version": "1"})
	ts.reportUnavailable(object{"node_id": "n1", "service_id": "undeclared", "version": "7"})
	services := ts.explain(dispatchBody(nil)).Nodes[0].Services
	for i, s := range services {
		if s.MarkedMS < 0 || s.MarkedMS > 60_000 {
			t.Errorf("%s is marked for %d ms", s.ServiceID, s.MarkedMS)
		}
		services[i].MarkedMS = min(s.MarkedMS, 1)
	}
	want := []wire.ExplainService{
		{ServiceID: "asr-1", Version: "1", Type: "asr", Status: "ready", MarkedMS: 1}, {ServiceID: "tone", Type: "tone", Status: "stopped"}, {ServiceID: "undeclared", Version: "7", MarkedMS: 1},
	}
	if diff := cmp.Diff(want, services); diff != "" {
		t.Errorf("services (-want +got)\n%s", diff)
	}
}

// TestUnavailableServiceIsAnEvent: the first report of a service is in the event log, with its reason normalised.
func TestUnavailableServiceIsAnEvent(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	for _, id := range []string{"n1", "n2"} {
		ts.registerNode(id, object{"installed_services": allServices()})
		ts.reportUnavailable(object{"node_id": id, "service_id": "nmt-1", "version": "1", "reason": "the model file is MISSING"})
	}
	var list wire.EventList
	ts.eventually("the event is written", func() bool {
		ts.get("/v1/events?kind=service_unavailable").decode(&list)
		return len(list.Events) > 0
	})
	if len(list.Events) != 1 || list.Events[0].NodeID != "n1" || list.Events[0].Detail != "nmt-1@1: not_installed" {
		t.Errorf("events %+v", list.Events)
	}
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
	ts.reportUnavailable(object{
		"node_id": first.id, "service_id": "tone", "version": "2", "reason": "CHECKSUM", "job_id": d1.JobID, "attempt_id": 1,
	})
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
	ts.reportUnavailable(object{"node_id": first.id, "service_id": "tone", "job_id": d1.JobID, "attempt_id": 1})
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

// TestModelNotAvailableRateLimit: the reports of one node that mark services are limited, and accepted all the same; those of others
// are not affected.
func TestModelNotAvailableRateLimit(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(c *config.Config) { c.Scheduler.ModelNotAvailable.NodeRatePerMinute = 2 })
	ts.registerNode("a", nil)
	ts.registerNode("b", nil)
	ts.reportUnavailable(object{"node_id": "a", "service_id": "s1"})
	ts.reportUnavailable(object{"node_id": "a", "service_id": "s2"})
	ts.post("/v1/node/model_not_available", object{"node_id": "a", "service_id": "s3"}).expectOK()
	ts.reportUnavailable(object{"node_id": "b", "service_id": "s4"})
	ts.eventually("the report is counted as limited", func() bool {
		return strings.Contains(string(ts.get("/metrics").body), `scheduler_model_na_rate_limited_by_node_total{node_id="a"} 1`)
	})
	if marks, err := ts.scheduler.Store.Marked(t.Context(), "a"); err != nil || len(marks) != 2 {
		t.Errorf("marks %v, %v; want two", marks, err)
	}
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
