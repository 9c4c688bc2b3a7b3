package server_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// noTimes compares histories by who had the job and why it went on.
var noTimes = cmpopts.IgnoreFields(wire.Attempt{}, "StartedMS", "EndedMS")

// history wants a job's attempts to be these, each but a running one with an end.
func history(t *testing.T, j wire.Job, want ...wire.Attempt) {
	t.Helper()
	if diff := cmp.Diff(want, j.Attempts, noTimes); diff != "" {
		t.Errorf("the attempts of %s: (-want +got)\n%s", j.JobID, diff)
	}
	for i, a := range j.Attempts {
		over := i < len(j.Attempts)-1 || j.State == "DONE" || j.State == "FAILED" || j.State == "CANCELLED"
		if over != (a.EndedMS != 0) || a.StartedMS == 0 || a.EndedMS != 0 && a.EndedMS < a.StartedMS {
			t.Errorf("attempt %d of a job that is %s ran from %d to %d", a.AttemptID, j.State, a.StartedMS, a.EndedMS)
		}
	}
}

// TestFailedAttemptIsRetriedElsewhere takes a job through all its attempts, however a failure is said.
func TestFailedAttemptIsRetriedElsewhere(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(n *node, d delivery) answer{
		"fail": func(n *node, d delivery) answer { return n.fail(d, nil) },
		"done with status error": func(n *node, d delivery) answer {
			return n.done(d, obj{"status": "error", "reason": "MODEL_LOAD_FAILED"})
		},
		"done with a status nobody knows": func(n *node, d delivery) answer {
			return n.done(d, obj{"status": "kaput", "reason": "MODEL_LOAD_FAILED"})
		},
		"fail without an ack": func(n *node, d delivery) answer { return n.fail(d, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, b := w.node("a", nil), w.node("b", nil)

			d1, first := w.begin(utterance(nil))
			if name != "fail without an ack" {
				first.ack(d1, nil).ok()
			}
			give(first, d1).ok()
			d2, second := w.next()
			if d2.JobID != d1.JobID || d2.AttemptID != 2 || second != first.other(a, b) {
				t.Fatalf("want attempt 2 of %s on the other node, got attempt %d of %s on %s", d1.JobID, d2.AttemptID, d2.JobID, d2.NodeID)
			}
			second.ack(d2, nil).ok()
			second.done(d2, nil).ok()

			j := w.job(d1.JobID)
			if j.State != "DONE" || j.NodeID != second.id || j.AttemptID != 2 || j.Reason != "" {
				t.Errorf("want DONE by %s in attempt 2, got %+v", second.id, j)
			}
			history(t, j,
				wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "NODE_FAILED"},
				wire.Attempt{AttemptID: 2, NodeID: second.id})
			for _, n := range []*node{a, b} {
				if s := w.status(n.id); s.EffectiveLoad != 0 {
					t.Errorf("%s still has a slot taken: %+v", n.id, s)
				}
			}
		})
	}
}

// TestAllAttemptsFail ends a job when its retries are used up, and says why.
func TestAllAttemptsFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		w.node(id, nil)
	}
	var want []wire.Attempt
	d, n := w.begin(utterance(nil))
	for attempt := 1; ; attempt++ {
		if d.AttemptID != attempt {
			t.Fatalf("want attempt %d, got %d", attempt, d.AttemptID)
		}
		n.fail(d, obj{"reason": "OUT_OF_MEMORY"}).ok()
		want = append(want, wire.Attempt{AttemptID: attempt, NodeID: n.id, Reason: "NODE_FAILED"})
		if attempt == 3 {
			break
		}
		d, n = w.next()
	}
	j := w.reaches(d.JobID, "FAILED")
	if j.Reason != "MAX_RETRY_EXCEEDED" || j.Detail != "OUT_OF_MEMORY" || j.NodeID != n.id || j.AttemptID != 3 {
		t.Errorf("want MAX_RETRY_EXCEEDED with the node's own word, got %+v", j)
	}
	history(t, j, want...)
	w.nothing()
}

// TestBusyNodeCostsNoAttempt lets the node be the last gate, before and after it took the job.
func TestBusyNodeCostsNoAttempt(t *testing.T) {
	t.Parallel()
	t.Run("refuses the delivery", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		a, b := w.node("a", nil), w.node("b", nil)
		for _, n := range []*node{a, b} {
			n.answers(func(rw http.ResponseWriter, _ *http.Request) {
				for _, n := range []*node{a, b} {
					n.answers(nil) // only the first to be asked is busy
				}
				http.Error(rw, `{"error":"NODE_BUSY","detail":"no room"}`, http.StatusServiceUnavailable)
			})
		}
		p := w.placed(utterance(nil))
		d1, first := w.next()
		d2, second := w.next()
		if d2.AttemptID != 1 || first == second || p.NodeID != second.id || p.AttemptID != 1 {
			t.Errorf("want attempt 1 on the other node, got %+v after %+v; the caller was told %+v", d2.Assignment, d1.Assignment, p)
		}
		history(t, w.job(p.JobID),
			wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "NODE_BUSY"}, wire.Attempt{AttemptID: 1, NodeID: second.id})
	})
	t.Run("gives it back", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		a, b := w.node("a", nil), w.node("b", nil)
		d1, first := w.begin(utterance(nil))
		first.fail(d1, obj{"reason": "NODE_BUSY"}).ok()
		d2, second := w.next()
		if d2.AttemptID != 1 || second != first.other(a, b) {
			t.Errorf("want attempt 1 on the other node, got %+v", d2.Assignment)
		}
	})
}

// brief makes a node's confirmation due soon.
func brief(c *config.Config) { c.Scheduler.Dispatch.ACKTimeoutMS = 500 }

// TestAckTimeout gives a job to another node when the first does not confirm it.
func TestAckTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brief)
	a, b := w.node("a", nil), w.node("b", nil)
	for _, n := range []*node{a, b} {
		// The second confirms from within the delivery, so that no scheduling of this test can make it late.
		n.answers(func(http.ResponseWriter, *http.Request) {
			for _, n := range []*node{a, b} {
				n.answers(func(http.ResponseWriter, *http.Request) {
					var list wire.JobList
					w.get("/v1/jobs").into(&list)
					j := list.Jobs[0]
					w.post("/v1/job/ack", obj{"job_id": j.JobID, "attempt_id": j.AttemptID, "node_id": j.NodeID}).ok()
				})
			}
		})
	}
	d1, first := w.begin(utterance(nil))
	d2, second := w.next()
	if d2.JobID != d1.JobID || d2.AttemptID != 2 || second != first.other(a, b) {
		t.Fatalf("want attempt 2 on the other node, got %+v after %+v", d2.Assignment, d1.Assignment)
	}
	j := w.reaches(d1.JobID, "ACKED")
	history(t, j, wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "ACK_TIMEOUT"}, wire.Attempt{AttemptID: 2, NodeID: second.id})
	if j.Reason != "ACK_TIMEOUT" {
		t.Errorf("the job should say why it moved, not %q", j.Reason)
	}

	// The job may have arrived all the same: the slot is kept until the node says that it does not have it.
	if s := w.status(first.id); s.EffectiveLoad != 1 {
		t.Errorf("the slot of the silent node was freed too early: %+v", s)
	}
	if diff := cmp.Diff([]wire.ActiveJob{{JobID: d1.JobID, AttemptID: 1}}, first.beat(obj{"active": active(d1)}).Cancel); diff != "" {
		t.Errorf("the node should be told to stop: (-want +got)\n%s", diff)
	}
	first.beat(obj{"active": active()})
	if s := w.status(first.id); s.EffectiveLoad != 0 {
		t.Errorf("the node does not have the job and its slot is still taken: %+v", s)
	}
}

// TestDeadNodeIsSkipped delivers to another node when nobody listens at the first.
func TestDeadNodeIsSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("dead", nil).srv.Close()
	w.node("alive", nil)
	for range 8 {
		d, n := w.begin(utterance(nil))
		if n.id != "alive" || d.AttemptID != 1 {
			t.Errorf("want attempt 1 on the node that lives, got %+v", d.Assignment)
		}
		n.done(d, nil).ok()
	}
	if s := w.status("dead"); s.EffectiveLoad != 0 {
		t.Errorf("a refused connection should free the slot at once: %+v", s)
	}
}
