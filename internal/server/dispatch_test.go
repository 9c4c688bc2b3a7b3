package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestNoCapableNodeDetail: the detail of NO_CAPABLE_NODE lists the requirements, as in the contract.
func TestNoCapableNodeDetail(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", nil)
	for want, body := range map[string]object{
		"No node supports semantic(de) + nmt(de->zh).":                dispatchBody(object{"src_lang": "de"}),
		"No node supports semantic(en) + nmt(en->fr).":                dispatchBody(object{"tgt_lang": "fr"}),
		"No node supports semantic(en) + nmt(en->zh-TW).":             dispatchBody(object{"tgt_lang": "zh-TW"}),
		"No node supports semantic(en) + nmt(en->zh) + model(m).":     dispatchBody(object{"options": object{"required_models": []string{"m"}}}),
		"No node supports semantic(en) + nmt(en->zh) + service(s).":   dispatchBody(object{"options": object{"required_services": []string{"s"}}}),
		"No node supports semantic(en) + nmt(en->zh) + feature(f).":   dispatchBody(object{"options": object{"features": []string{"f"}}}),
		"No node supports semantic(en) + nmt(en->zh) + region(mars).": dispatchBody(object{"options": object{"region": "mars"}}),
	} {
		a := ts.post("/v1/dispatch/f2f", body)
		if e := a.expectError(wire.NoCapableNode); e.Detail != want {
			t.Errorf("want %q, got %q", want, e.Detail)
		}
	}
	ts.expectNoDelivery()
}

// TestAllNodesFull: the refusal counts the reasons and has Retry-After.
func TestAllNodesFull(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("a", object{"max_concurrent_jobs": 1})
	ts.registerNode("b", object{"max_concurrent_jobs": 1})
	ts.registerNode("c", object{"max_concurrent_jobs": 0})
	ts.dispatchAndReceive(dispatchBody(nil))
	ts.dispatchAndReceive(dispatchBody(nil))
	a := ts.post("/v1/dispatch/f2f", dispatchBody(nil))
	e := a.expectError(wire.AllCandidatesFullOrFailed)
	if diff := cmp.Diff(map[string]int{"FULL": 2, "NO_CAPACITY": 1}, e.Reasons); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if a.header.Get("Retry-After") != "1" || e.RetryAfter != 1 || e.RetryAfterMS != 1000 {
		t.Errorf("Retry-After: %q and %d", a.header.Get("Retry-After"), e.RetryAfter)
	}
	ts.expectNoDelivery()
}

// TestAllNodesRefuse: a dispatch is refused when every node refuses the delivery.
func TestAllNodesRefuse(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	for _, id := range []string{"a", "b"} {
		ts.registerNode(id, nil).setAnswer(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadRequest) })
	}
	a := ts.post("/v1/dispatch/f2f", dispatchBody(nil))
	a.expectError(wire.AllCandidatesFullOrFailed)
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	for _, id := range []string{"a", "b"} {
		if s := ts.getNode(id); s.EffectiveLoad != 0 {
			t.Errorf("%s still has a slot taken: %+v", id, s)
		}
	}
}

// preferring is a dispatch that prefers a node.
func preferring(id string, strict bool) object {
	return dispatchBody(object{"options": object{"preferred_node_id": id, "strict": strict}})
}

// TestPreferredNode: a job goes to the preferred node, and to another when that is full, unless the preference is strict.
func TestPreferredNode(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("a", object{"max_concurrent_jobs": 1})
	ts.registerNode("b", object{"max_concurrent_jobs": 100})
	ts.registerNode("german", object{"semantic_langs": []string{"de"}, "nmt_pairs": nil})

	for _, strict := range []bool{false, true} {
		d, n := ts.dispatchAndReceive(preferring("a", strict))
		if n.id != "a" {
			t.Errorf("strict %t: want a, got %s", strict, n.id)
		}
		if _, n := ts.dispatchAndReceive(preferring("a", false)); n.id != "b" {
			t.Errorf("a is full: want b, got %s", n.id)
		}
		refusal := ts.post("/v1/dispatch/f2f", preferring("a", true))
		if e := refusal.expectError(wire.AllCandidatesFullOrFailed); e.Reasons["FULL"] != 1 || refusal.header.Get("Retry-After") == "" {
			t.Errorf("strict and full: %+v", e)
		}
		n.done(d, nil).expectOK()

		for _, id := range []string{"german", "unknown"} {
			e := ts.post("/v1/dispatch/f2f", preferring(id, strict)).expectError(wire.PreferredNodeNotCapable)
			if e.Field != "options.preferred_node_id" || !strings.Contains(e.Detail, id) {
				t.Errorf("want the field and the node named, got %+v", e)
			}
		}
	}
	ts.request("POST", "/v1/nodes/a/drain", "", nil)
	if _, n := ts.dispatchAndReceive(preferring("a", false)); n.id != "b" {
		t.Errorf("a is drained: want b, got %s", n.id)
	}
	ts.post("/v1/dispatch/f2f", preferring("a", true)).expectError(wire.AllCandidatesFullOrFailed)
	ts.expectNoDelivery()
}

// TestStrictJobIsNotMoved: a job that may only run on one node is not retried on another.
func TestStrictJobIsNotMoved(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("a", nil)
	ts.registerNode("b", nil)
	d, _ := ts.dispatchAndReceive(preferring("a", true))
	n.fail(d, nil).expectOK()
	if j := ts.awaitJobState(d.JobID, "FAILED"); j.Reason != "NODE_FAILED" || j.Detail != "MODEL_LOAD_FAILED" {
		t.Errorf("want the node's own failure as the reason, got %+v", j)
	}
	ts.expectNoDelivery()
}

// ignoreTimes compares attempts without their times.
var ignoreTimes = cmpopts.IgnoreFields(wire.Attempt{}, "StartedMS", "EndedMS")

// expectAttempts wants a job's attempts to be these, and all but a running one to have ended.
func expectAttempts(t *testing.T, j wire.Job, want ...wire.Attempt) {
	t.Helper()
	if diff := cmp.Diff(want, j.Attempts, ignoreTimes); diff != "" {
		t.Errorf("the attempts of %s: (-want +got)\n%s", j.JobID, diff)
	}
	for i, a := range j.Attempts {
		over := i < len(j.Attempts)-1 || j.State == "DONE" || j.State == "FAILED" || j.State == "CANCELLED"
		if over != (a.EndedMS != 0) || a.StartedMS == 0 || a.EndedMS != 0 && a.EndedMS < a.StartedMS {
			t.Errorf("attempt %d of a job that is %s ran from %d to %d", a.AttemptID, j.State, a.StartedMS, a.EndedMS)
		}
	}
}

// TestFailedAttemptIsRetriedOnAnotherNode: a failed attempt is retried on another node, in whatever form the failure is reported.
func TestFailedAttemptIsRetriedOnAnotherNode(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]func(n *callbackNode, d delivery) response{
		"fail": func(n *callbackNode, d delivery) response { return n.fail(d, nil) },
		"done with status error": func(n *callbackNode, d delivery) response {
			return n.done(d, object{"status": "error", "reason": "MODEL_LOAD_FAILED"})
		},
		"done with an unknown status": func(n *callbackNode, d delivery) response {
			return n.done(d, object{"status": "kaput", "reason": "MODEL_LOAD_FAILED"})
		},
		"fail without an ack": func(n *callbackNode, d delivery) response { return n.fail(d, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := startScheduler(t)
			a, b := ts.registerNode("a", nil), ts.registerNode("b", nil)

			d1, first := ts.dispatchAndReceive(dispatchBody(nil))
			if name != "fail without an ack" {
				first.ack(d1, nil).expectOK()
			}
			report(first, d1).expectOK()
			d2, second := ts.nextDelivery()
			if d2.JobID != d1.JobID || d2.AttemptID != 2 || second != first.other(a, b) {
				t.Fatalf("want attempt 2 of %s on the other node, got attempt %d of %s on %s", d1.JobID, d2.AttemptID, d2.JobID, d2.NodeID)
			}
			second.ack(d2, nil).expectOK()
			second.done(d2, nil).expectOK()

			j := ts.getJob(d1.JobID)
			if j.State != "DONE" || j.NodeID != second.id || j.AttemptID != 2 || j.Reason != "" {
				t.Errorf("want DONE by %s in attempt 2, got %+v", second.id, j)
			}
			expectAttempts(t, j,
				wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "NODE_FAILED"},
				wire.Attempt{AttemptID: 2, NodeID: second.id})
			ts.awaitFree("a")
			ts.awaitFree("b")
		})
	}
}

// TestAllAttemptsFail: a job fails with MAX_RETRY_EXCEEDED when its retries are used up.
func TestAllAttemptsFail(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		ts.registerNode(id, nil)
	}
	var want []wire.Attempt
	d, n := ts.dispatchAndReceive(dispatchBody(nil))
	for attempt := 1; ; attempt++ {
		if d.AttemptID != attempt {
			t.Fatalf("want attempt %d, got %d", attempt, d.AttemptID)
		}
		n.fail(d, object{"reason": "OUT_OF_MEMORY"}).expectOK()
		want = append(want, wire.Attempt{AttemptID: attempt, NodeID: n.id, Reason: "NODE_FAILED"})
		if attempt == 3 {
			break
		}
		d, n = ts.nextDelivery()
	}
	j := ts.awaitJobState(d.JobID, "FAILED")
	if j.Reason != "MAX_RETRY_EXCEEDED" || j.Detail != "OUT_OF_MEMORY" || j.NodeID != n.id || j.AttemptID != 3 {
		t.Errorf("want MAX_RETRY_EXCEEDED with the node's reason as detail, got %+v", j)
	}
	expectAttempts(t, j, want...)
	ts.expectNoDelivery()
}

// TestBusyNodeCostsNoAttempt: NODE_BUSY moves the job without a new attempt, whether the node refuses the delivery or reports it
// later.
func TestBusyNodeCostsNoAttempt(t *testing.T) {
	t.Parallel()
	t.Run("refuses the delivery", func(t *testing.T) {
		t.Parallel()
		ts := startScheduler(t)
		a, b := ts.registerNode("a", nil), ts.registerNode("b", nil)
		for _, n := range []*callbackNode{a, b} {
			n.setAnswer(func(rw http.ResponseWriter, _ *http.Request) {
				for _, n := range []*callbackNode{a, b} {
					n.setAnswer(nil) // only the first delivery is refused
				}
				http.Error(rw, `{"error":"NODE_BUSY","detail":"no room"}`, http.StatusServiceUnavailable)
			})
		}
		p := ts.dispatch(dispatchBody(nil))
		d1, first := ts.nextDelivery()
		d2, second := ts.nextDelivery()
		if d2.AttemptID != 1 || first == second || p.NodeID != second.id || p.AttemptID != 1 {
			t.Errorf("want attempt 1 on the other node, got %+v after %+v; the caller's answer is %+v", d2.Assignment, d1.Assignment, p)
		}
		expectAttempts(t, ts.getJob(p.JobID),
			wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "NODE_BUSY"}, wire.Attempt{AttemptID: 1, NodeID: second.id})
	})
	t.Run("reports it later", func(t *testing.T) {
		t.Parallel()
		ts := startScheduler(t)
		a, b := ts.registerNode("a", nil), ts.registerNode("b", nil)
		d1, first := ts.dispatchAndReceive(dispatchBody(nil))
		first.fail(d1, object{"reason": "NODE_BUSY"}).expectOK()
		d2, second := ts.nextDelivery()
		if d2.AttemptID != 1 || second != first.other(a, b) {
			t.Errorf("want attempt 1 on the other node, got %+v", d2.Assignment)
		}
	})
}

// shortACKTimeout sets an ACK timeout for which a test can wait, and which is longer than a busy machine needs for an acknowledgement.
func shortACKTimeout(c *config.Config) { c.Scheduler.Dispatch.ACKTimeoutMS = 5000 }

// TestRetryAfterAckTimeout: a job that is not acknowledged in time is retried on another node. The slot of the first is kept until
// the node stops listing the job.
func TestRetryAfterAckTimeout(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, shortACKTimeout)
	a, b := ts.registerNode("a", nil), ts.registerNode("b", nil)
	for _, n := range []*callbackNode{a, b} {
		// The second acknowledges within the delivery, so that a slow test cannot make it late.
		n.setAnswer(func(http.ResponseWriter, *http.Request) {
			for _, n := range []*callbackNode{a, b} {
				n.setAnswer(func(http.ResponseWriter, *http.Request) {
					var list wire.JobList
					ts.get("/v1/jobs").decode(&list)
					j := list.Jobs[0]
					ts.post("/v1/job/ack", object{"job_id": j.JobID, "attempt_id": j.AttemptID, "node_id": j.NodeID}).expectOK()
				})
			}
		})
	}
	d1, first := ts.dispatchAndReceive(dispatchBody(nil))
	d2, second := ts.nextDelivery()
	if d2.JobID != d1.JobID || d2.AttemptID != 2 || second != first.other(a, b) {
		t.Fatalf("want attempt 2 on the other node, got %+v after %+v", d2.Assignment, d1.Assignment)
	}
	j := ts.awaitJobState(d1.JobID, "ACKED")
	expectAttempts(t, j, wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "ACK_TIMEOUT"}, wire.Attempt{AttemptID: 2, NodeID: second.id})
	if j.Reason != "ACK_TIMEOUT" {
		t.Errorf("want the reason why the job moved, got %q", j.Reason)
	}

	// The delivery may have arrived: the slot is kept until the node does not list the job.
	if s := ts.getNode(first.id); s.EffectiveLoad != 1 {
		t.Errorf("the slot of the first node was released too early: %+v", s)
	}
	if diff := cmp.Diff([]wire.ActiveJob{{JobID: d1.JobID, AttemptID: 1}}, first.heartbeat(object{"active": activeList(d1)}).Cancel); diff != "" {
		t.Errorf("jobs to cancel: (-want +got)\n%s", diff)
	}
	first.heartbeat(object{"active": activeList()})
	if s := ts.getNode(first.id); s.EffectiveLoad != 0 {
		t.Errorf("the node does not list the job, and its slot is still taken: %+v", s)
	}
}

// TestUnreachableNodeIsSkipped: a job is delivered to another node when the first refuses the connection.
func TestUnreachableNodeIsSkipped(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("unreachable", object{"callback_url": "http://127.0.0.1:1/jobs"}) // where nothing listens
	ts.registerNode("reachable", nil)
	for range 8 {
		d, n := ts.dispatchAndReceive(dispatchBody(nil))
		if n.id != "reachable" || d.AttemptID != 1 {
			t.Errorf("want attempt 1 on the reachable node, got %+v", d.Assignment)
		}
		n.done(d, nil).expectOK()
	}
	if s := ts.getNode("unreachable"); s.EffectiveLoad != 0 {
		t.Errorf("a refused connection must release the slot at once: %+v", s)
	}
}
