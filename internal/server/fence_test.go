package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// reports are the three things a node says of a job.
var reports = map[string]func(n *node, d delivery, changes obj) answer{"ack": (*node).ack, "done": (*node).done, "fail": (*node).fail}

// TestRepeatedReports sends everything twice, as a node does that lost the answer.
func TestRepeatedReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", nil)
	d, _ := w.begin(utterance(nil))
	n.ack(d, nil).ok()
	n.ack(d, nil).ok()
	if s := w.status(n.id); s.Running != 1 || s.Reserved != 0 {
		t.Errorf("a repeated ack took another slot: %+v", s)
	}
	n.done(d, obj{"result": obj{"text_tgt": "first"}}).ok()
	once := w.job(d.JobID)
	n.done(d, obj{"result": obj{"text_tgt": "second"}}).ok()
	n.ack(d, nil).ok()
	n.fail(d, nil).refused(wire.StaleAttempt)
	if diff := cmp.Diff(once, w.job(d.JobID)); diff != "" {
		t.Errorf("repeats changed a job that had ended: (-before +after)\n%s", diff)
	}
	w.nothing()
}

// TestRepeatedFail counts a failure once, also while the job waits for another node.
func TestRepeatedFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", nil)
	w.node("n2", obj{"current_load": obj{"cpu": 1}}) // the one that is waited for
	d, _ := w.begin(utterance(nil))
	n.fail(d, nil).ok()
	waiting := w.job(d.JobID)
	n.fail(d, nil).refused(wire.StaleAttempt)
	n.ack(d, nil).refused(wire.StaleAttempt)
	got := w.job(d.JobID)
	if got.State != "RETRYING" || got.AttemptID != 1 || got.Reason != "NODE_FAILED" {
		t.Errorf("want RETRYING after attempt 1, got %+v", got)
	}
	if diff := cmp.Diff(waiting.Attempts, got.Attempts); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	// Its own slot is free again: it asked for other work.
	if s := w.status(n.id); s.EffectiveLoad != 0 {
		t.Errorf("the slot is still taken: %+v", s)
	}
}

// TestStrangersAreFenced sends every report from everybody who does not hold the job. Nothing changes.
func TestStrangersAreFenced(t *testing.T) {
	t.Parallel()
	for name, say := range reports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, b := w.node("a", nil), w.node("b", nil)
			d1, first := w.begin(utterance(nil))
			second := first.other(a, b)

			say(second, d1, nil).refused(wire.NotHolder)
			say(first, d1, obj{"epoch": first.epoch - 1}).refused(wire.StaleEpoch)
			say(first, d1, obj{"epoch": first.epoch + 1}).refused(wire.StaleEpoch)
			say(first, d1, obj{"attempt_id": 2}).refused(wire.StaleAttempt)
			say(first, d1, obj{"job_id": "job-nobody-knows"}).refused(wire.NotFound)
			say(w.stranger("nobody"), d1, nil).refused(wire.NotHolder)
			if j := w.job(d1.JobID); j.State != "DISPATCHED" || len(j.Attempts) != 1 {
				t.Fatalf("a stranger changed the job: %+v", j)
			}

			first.fail(d1, nil).ok()
			d2, _ := w.next()
			second.ack(d2, nil).ok()
			before := w.job(d1.JobID)
			say(first, d1, nil).refused(wire.StaleAttempt) // late
			say(first, d2, nil).refused(wire.NotHolder)    // it heard of the retry and claims it
			if diff := cmp.Diff(before, w.job(d1.JobID)); diff != "" {
				t.Errorf("a late %s changed the job: (-before +after)\n%s", name, diff)
			}
			second.done(d2, nil).ok()
			w.nothing()
		})
	}
}
