package server_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestModelNotAvailable moves the job that failed for it and sends no more of its kind to the node.
func TestModelNotAvailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	has := obj{"installed_services": []obj{{"service_id": "tone", "version": "2", "status": "ready"}}, "max_concurrent_jobs": 10}
	a, b := w.node("a", has), w.node("b", has)
	needs := utterance(obj{"options": obj{"required_services": []string{"tone"}}})
	d1, first := w.begin(needs)
	second := first.other(a, b)
	w.post("/v1/node/model_not_available", obj{
		"node_id": first.id, "service_id": "tone", "version": "2", "reason": "CHECKSUM", "job_id": d1.JobID, "attempt_id": 1,
	}).ok()
	d2, got := w.next()
	if got != second || d2.AttemptID != 2 {
		t.Errorf("want attempt 2 on the other node, got %+v", d2.Assignment)
	}
	j := w.job(d1.JobID)
	history(t, j, wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "MODEL_NOT_AVAILABLE"}, wire.Attempt{AttemptID: 2, NodeID: second.id})
	for range 5 {
		if _, n := w.begin(needs); n != second {
			t.Errorf("%s said that it does not have the service and was chosen again", n.id)
		}
	}
	// What does not need the service may still go there.
	if _, n := w.begin(utterance(obj{"options": obj{"preferred_node_id": first.id, "strict": true}})); n != first {
		t.Errorf("want %s, got %s", first.id, n.id)
	}
}

// TestModelNotAvailableAfterItsJobMoved marks the service all the same: the mark is about the node.
func TestModelNotAvailableAfterItsJobMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	has := obj{"installed_services": []obj{{"service_id": "tone", "version": "2", "status": "ready"}}}
	a, b := w.node("a", has), w.node("b", has)
	needs := utterance(obj{"options": obj{"required_services": []string{"tone"}}})
	d1, first := w.begin(needs)
	first.fail(d1, nil).ok()
	d2, second := w.next()
	w.post("/v1/node/model_not_available", obj{"node_id": first.id, "service_id": "tone", "job_id": d1.JobID, "attempt_id": 1}).ok()
	if second != first.other(a, b) || w.job(d1.JobID).AttemptID != d2.AttemptID {
		t.Errorf("the job moved again: %+v", w.job(d1.JobID))
	}
	second.done(d2, nil).ok()
	for range 5 {
		d, n := w.begin(needs)
		if n != second {
			t.Errorf("%s said that it does not have the service and was chosen again", n.id)
		}
		n.done(d, nil).ok()
	}
}

// TestModelNotAvailableFlood holds back a node that repeats itself too often.
func TestModelNotAvailableFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.Scheduler.ModelNotAvailable.NodeRatePerMinute = 2 })
	w.node("a", nil)
	w.node("b", nil)
	say := func(node string) answer {
		return w.post("/v1/node/model_not_available", obj{"node_id": node, "service_id": "s"})
	}
	say("a").ok()
	say("a").ok()
	flood := say("a")
	if e := flood.refused(wire.RateLimited); e.RetryAfter != 60 || flood.header.Get("Retry-After") != "60" {
		t.Errorf("want Retry-After: 60, got %+v and %q", e, flood.header.Get("Retry-After"))
	}
	say("b").ok()
}

// TestModelNotAvailableOfAnothersJob is fenced like any other word about a job.
func TestModelNotAvailableOfAnothersJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.node("a", nil), w.node("b", nil)
	d, first := w.begin(utterance(nil))
	say := obj{"node_id": first.other(a, b).id, "service_id": "s", "job_id": d.JobID, "attempt_id": 1}
	w.post("/v1/node/model_not_available", say).refused(wire.NotHolder)
	w.post("/v1/node/model_not_available", say.with(obj{"node_id": first.id, "attempt_id": 2})).refused(wire.StaleAttempt)
	w.post("/v1/node/model_not_available", say.with(obj{"job_id": "job-nobody-knows"})).refused(wire.NotFound)
	w.post("/v1/node/model_not_available", say.with(obj{"node_id": "nobody"})).refused(wire.NotFound)
	if j := w.job(d.JobID); j.State != "DISPATCHED" || len(j.Attempts) != 1 {
		t.Errorf("a stranger changed the job: %+v", j)
	}
	for _, n := range []*node{a, b} {
		if marks, err := w.s.Store.Marked(t.Context(), core.NodeID(n.id)); err != nil || len(marks) != 0 {
			t.Errorf("a report that was refused left marks: %v, %v", marks, err)
		}
	}
}
