package server_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestHeartbeatUpdatesDeclaration: a heartbeat changes the fields that it has, and keeps the others.
func TestHeartbeatUpdatesDeclaration(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"region": "eu"})
	ts.post("/v1/node/heartbeat", object{"node_id": "n1"}).expectOK()
	ts.post("/v1/node/heartbeat", object{
		"node_id": "n1", "epoch": n.epoch, "hb_seq": 1, "health": "degraded", "max_concurrent_jobs": 7,
		"current_load": object{"gpu": 0.52, "cpu": 0.33}, "active": []object{},
	}).expectOK()
	s := ts.getNode("n1")
	gpu, cpu := 0.52, 0.33
	if s.Health != "degraded" || s.MaxConcurrentJobs != 7 || s.Region != "eu" ||
		!cmp.Equal(s.SemanticLangs, []string{"en", "zh"}) || !cmp.Equal(s.CurrentLoad, &wire.Load{GPU: &gpu, CPU: &cpu}) {
		t.Errorf("the node after a heartbeat: %+v", s)
	}
	ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.AllCandidatesFullOrFailed) // a degraded node gets no new jobs
	n.heartbeat(object{"health": "ready"})
	ts.dispatchAndReceive(dispatchBody(nil))
}

// TestOvertakenHeartbeatIsIgnored: a heartbeat with a lower hb_seq than an earlier one changes nothing.
func TestOvertakenHeartbeatIsIgnored(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	n.heartbeat(object{"hb_seq": 5, "max_concurrent_jobs": 5})
	n.heartbeat(object{"hb_seq": 4, "max_concurrent_jobs": 4})
	if got := ts.getNode("n1").MaxConcurrentJobs; got != 5 {
		t.Errorf("an overtaken heartbeat set the maximum to %d", got)
	}
}

// TestHeartbeatOfEarlierEpoch: a heartbeat of an earlier epoch is refused.
func TestHeartbeatOfEarlierEpoch(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	old := n.epoch
	n.register(nil)
	ts.post("/v1/node/heartbeat", object{"node_id": "n1", "epoch": old, "max_concurrent_jobs": 9}).expectError(wire.StaleEpoch)
	if got := ts.getNode("n1"); got.MaxConcurrentJobs != 2 || got.Epoch != n.epoch {
		t.Errorf("a heartbeat of an earlier epoch changed the node: %+v", got)
	}
	n.heartbeat(object{"epoch": n.epoch})
}

// TestHeartbeatOfUnknownNode: a complete heartbeat registers an unknown node; any other is refused.
func TestHeartbeatOfUnknownNode(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.newNode("n1")
	e := ts.post("/v1/node/heartbeat", object{"node_id": "n1", "health": "ready"}).expectError(wire.NotFound)
	if !strings.Contains(e.Detail, "register again") {
		t.Errorf("want a detail with what to do, got %q", e.Detail)
	}
	ts.get("/v1/nodes/n1").expectError(wire.NotFound)

	n.heartbeat(nodeDeclaration(object{"callback_url": n.srv.URL, "active": []object{}}))
	if s := ts.getNode("n1"); !s.Online || s.MaxConcurrentJobs != 2 {
		t.Errorf("a full heartbeat should have registered it: %+v", s)
	}
	ts.dispatchAndReceive(dispatchBody(nil)) // it lists its jobs, so it gets new ones at once
}

// TestNodeWithoutActiveListIsHeld: a node that was registered by a heartbeat without a list of jobs gets none, because it may still
// run earlier ones; explain agrees with dispatch.
func TestNodeWithoutActiveListIsHeld(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.newNode("n1")
	n.heartbeat(nodeDeclaration(object{"callback_url": n.srv.URL}))
	refusal := ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.AllCandidatesFullOrFailed)
	var x wire.ExplainResponse
	ts.post("/v1/dispatch/explain", dispatchBody(nil)).decode(&x)
	if x.Verdict != string(refusal.Code) {
		t.Errorf("dispatch answers %s (%v), explain %s: %s", refusal.Code, refusal.Reasons, x.Verdict, x.Detail)
	}
	n.heartbeat(object{"active": []object{}})
	ts.dispatchAndReceive(dispatchBody(nil))
}

// TestReregisterKeepsListedJobs: jobs that a node lists when it registers again stay with it in the new epoch.
func TestReregisterKeepsListedJobs(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	old := n.epoch
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.ack(d, nil).expectOK()

	r := n.register(object{"active": activeList(d)})
	if len(r.Cancel) != 0 {
		t.Errorf("it must not cancel its own job: %+v", r.Cancel)
	}
	n.done(d, object{"epoch": old}).expectError(wire.StaleEpoch)
	if s := ts.getNode("n1"); s.Running != 1 {
		t.Errorf("it has one job: %+v", s)
	}
	n.done(d, object{"epoch": n.epoch}).expectOK()
	expectAttempts(t, ts.getJob(d.JobID), wire.Attempt{AttemptID: 1, NodeID: "n1"})
	ts.expectNoDelivery()
}

// TestReregisterMovesUnlistedJobs: jobs that a node does not list when it registers again move to other nodes.
func TestReregisterMovesUnlistedJobs(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string]object{"absent": nil, "empty": {"active": []object{}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := startScheduler(t)
			a, b := ts.registerNode("a", nil), ts.registerNode("b", nil)
			d1, first := ts.dispatchAndReceive(dispatchBody(nil))
			first.ack(d1, nil).expectOK()
			first.register(changes)
			d2, second := ts.nextDelivery()
			if d2.JobID != d1.JobID || d2.AttemptID != 2 || second != first.other(a, b) {
				t.Fatalf("want attempt 2 on the other node, got %+v", d2.Assignment)
			}
			first.done(d1, nil).expectError(wire.StaleAttempt)
			second.done(d2, nil).expectOK()
			expectAttempts(t, ts.getJob(d1.JobID),
				wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "NODE_LOST"}, wire.Attempt{AttemptID: 2, NodeID: second.id})
			ts.eventually("the slots are free", func() bool {
				return ts.getNode("a").EffectiveLoad == 0 && ts.getNode("b").EffectiveLoad == 0
			})
		})
	}
}

// TestReregisterCancelsJobsOfOthers: a node that lists a job of another node must cancel it.
func TestReregisterCancelsJobsOfOthers(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("a", nil)
	ts.registerNode("b", nil)
	d1, first := ts.dispatchAndReceive(dispatchBody(nil))
	first.fail(d1, nil).expectOK()
	d2, second := ts.nextDelivery()
	r := first.register(object{"active": activeList(d1)})
	if diff := cmp.Diff([]wire.ActiveJob{{JobID: d1.JobID, AttemptID: 1}}, r.Cancel); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// As long as the node has the job, it takes a slot.
	if s := ts.getNode(first.id); s.EffectiveLoad != 1 {
		t.Errorf("want one slot taken, got %+v", s)
	}
	second.done(d2, nil).expectOK()
}

// TestJobOmittedTwiceIsMoved: a job that a node omits from two lists in a row moves to another node.
func TestJobOmittedTwiceIsMoved(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("a", nil)
	ts.registerNode("b", nil)
	d1, first := ts.dispatchAndReceive(dispatchBody(nil))
	first.ack(d1, nil).expectOK()
	first.heartbeat(object{"hb_seq": 1, "active": activeList()})
	first.heartbeat(object{"hb_seq": 1, "active": activeList()}) // repeated
	first.heartbeat(object{"hb_seq": 2, "active": activeList(d1)})
	first.heartbeat(object{"hb_seq": 3})
	first.heartbeat(object{"hb_seq": 4, "active": activeList()})
	if j := ts.getJob(d1.JobID); j.State != "ACKED" || j.AttemptID != 1 {
		t.Fatalf("one omission moved the job: %+v", j)
	}
	first.heartbeat(object{"hb_seq": 5, "active": activeList()})
	if d2, _ := ts.nextDelivery(); d2.AttemptID != 2 || d2.NodeID == first.id {
		t.Errorf("want attempt 2 on the other node, got %+v", d2.Assignment)
	}
}

// TestOfflineNodeLosesJobs: the jobs of a node that reports offline move at once.
func TestOfflineNodeLosesJobs(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	a, b := ts.registerNode("a", nil), ts.registerNode("b", nil)
	d1, first := ts.dispatchAndReceive(dispatchBody(nil))
	first.ack(d1, nil).expectOK()
	first.heartbeat(object{"health": "offline"})
	if s := ts.getNode(first.id); s.Online || s.Health != "offline" {
		t.Errorf("an offline node is not online: %+v", s)
	}
	d2, second := ts.nextDelivery()
	if second != first.other(a, b) || d2.AttemptID != 2 {
		t.Errorf("want attempt 2 on the other node, got %+v", d2.Assignment)
	}
	expectAttempts(t, ts.getJob(d1.JobID),
		wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "NODE_LOST"}, wire.Attempt{AttemptID: 2, NodeID: second.id})
}

// TestSilentNodeLosesJobs: the jobs of a node that was silent for its presence move.
func TestSilentNodeLosesJobs(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(c *config.Config) {
		c.Scheduler.Nodes.HeartbeatIntervalMS, c.Scheduler.Nodes.PresenceTTLMS = 600, 6000
		c.Scheduler.Dispatch.HeartbeatStaleMS = 6000
	})
	a, b := ts.registerNode("a", nil), ts.registerNode("b", nil)
	d1, first := ts.dispatchAndReceive(dispatchBody(nil))
	first.ack(d1, nil).expectOK()
	second := first.other(a, b)
	ts.eventually("the job is retried", func() bool {
		second.heartbeat(nil)
		return ts.getJob(d1.JobID).AttemptID == 2
	})
	expectAttempts(t, ts.getJob(d1.JobID),
		wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "NODE_LOST"}, wire.Attempt{AttemptID: 2, NodeID: second.id})
	if s := ts.getNode(first.id); s.Online {
		t.Errorf("a silent node is not online: %+v", s)
	}
	ts.eventually("its slot is free when the lease expires", func() bool { return ts.getNode(first.id).EffectiveLoad == 0 })
}

// TestDrainAndResume: a drained node gets no new jobs until it is resumed, and keeps those that it has.
func TestDrainAndResume(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))

	var s wire.Node
	ts.request("POST", "/v1/nodes/n1/drain", "", nil).decode(&s)
	if s.Health != "draining" || !s.Drained {
		t.Errorf("a drained node: %+v", s)
	}
	ts.request("POST", "/v1/nodes/n1/drain", "", nil).decode(&s)
	e := ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.AllCandidatesFullOrFailed)
	if diff := cmp.Diff(map[string]int{"DRAINED": 1}, e.Reasons); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	n.register(object{"active": activeList(d)})
	if s := ts.getNode("n1"); !s.Drained {
		t.Error("a registration ended the drain")
	}
	n.heartbeat(object{"health": "ready", "active": activeList(d)})
	ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.AllCandidatesFullOrFailed)
	n.ack(d, nil).expectOK()
	n.done(d, nil).expectOK()

	ts.request("POST", "/v1/nodes/n1/resume", "", nil).decode(&s)
	if s.Health != "ready" || s.Drained {
		t.Errorf("a resumed node: %+v", s)
	}
	ts.dispatchAndReceive(dispatchBody(nil))
}

// TestLoweredMaximum: a node whose maximum is lowered keeps its jobs, and gets new ones when they fit.
func TestLoweredMaximum(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", nil)
	d1, _ := ts.dispatchAndReceive(dispatchBody(nil))
	d2, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.ack(d1, nil).expectOK()
	n.ack(d2, nil).expectOK()
	n.heartbeat(object{"max_concurrent_jobs": 1, "active": activeList(d1, d2)})
	if s := ts.getNode("n1"); s.MaxConcurrentJobs != 1 || s.Running != 2 || s.EffectiveLoad != 2 {
		t.Errorf("it keeps what it has: %+v", s)
	}
	for _, d := range []delivery{d1, d2} {
		e := ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.AllCandidatesFullOrFailed)
		if e.Reasons["FULL"] != 1 {
			t.Errorf("want FULL, got %v", e.Reasons)
		}
		n.done(d, nil).expectOK()
	}
	ts.awaitFree("n1")
	ts.dispatchAndReceive(dispatchBody(nil))
	ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.AllCandidatesFullOrFailed)
}

// TestHeartbeatWithoutCallbackDoesNotRegister: a heartbeat without callback_url does not register a node, because it could never
// get a job.
func TestHeartbeatWithoutCallbackDoesNotRegister(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	body := object{
		"node_id": "node-123", "health": "ready", "current_load": object{"gpu": 0.52, "cpu": 0.33}, "semantic_langs": []string{"en", "zh"},
		"nmt_pairs": [][]string{{"en", "zh"}, {"zh", "en"}}, "tts_langs": []string{"en", "zh"}, "max_concurrent_jobs": 2,
	}
	for _, empty := range []object{body, body.with(object{"callback_url": ""})} {
		e := ts.post("/v1/node/heartbeat", empty).expectError(wire.NotFound)
		if !strings.Contains(e.Detail, "register again") {
			t.Errorf("want a detail with what to do, got %q", e.Detail)
		}
		ts.get("/v1/nodes/node-123").expectError(wire.NotFound)
	}
	// After a registration the same heartbeat is accepted.
	n := ts.registerNode("node-123", nil)
	ts.post("/v1/node/heartbeat", body).expectOK()
	if d, got := ts.dispatchAndReceive(dispatchBody(nil)); got != n {
		t.Errorf("delivered %+v", d)
	}
}

// TestRegisterWithoutCallbackWarns: a node without callback_url is registered with a warning that it gets no jobs.
func TestRegisterWithoutCallbackWarns(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	var r wire.RegisterResponse
	ts.post("/v1/node/register", nodeDeclaration(object{"node_id": "n1"})).decode(&r)
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "callback_url") {
		t.Errorf("the warnings of a node without callback_url are %q", r.Warnings)
	}
	e := ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.AllCandidatesFullOrFailed)
	if e.Reasons["NO_CALLBACK_URL"] != 1 {
		t.Errorf("%v", e.Reasons)
	}
	r = wire.RegisterResponse{}
	ts.post("/v1/node/register", nodeDeclaration(object{"node_id": "n1", "callback_url": ts.newNode("n2").srv.URL})).decode(&r)
	if len(r.Warnings) != 0 {
		t.Errorf("the warnings of a node with callback_url are %q", r.Warnings)
	}
}
