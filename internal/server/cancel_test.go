package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// cancel is POST /v1/jobs/{id}/cancel.
func (w *world) cancel(id string) wire.CancelResponse {
	w.t.Helper()
	var c wire.CancelResponse
	w.ask("POST", "/v1/jobs/"+id+"/cancel", "", nil).into(&c)
	return c
}

// TestCancel ends a job for its caller at once, and keeps its slot until the node has let go of it.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{"max_concurrent_jobs": 1})
	d, _ := w.begin(utterance(nil))
	n.ack(d, nil).ok()

	c := w.cancel(d.JobID)
	if !c.OK || !c.Cancelled || c.Job.State != "CANCELLED" || c.Job.Reason != "CANCELLED" {
		t.Errorf("the answer: %+v", c)
	}
	if diff := cmp.Diff(c, w.cancel(d.JobID)); diff != "" {
		t.Errorf("cancelled again: (-first +second)\n%s", diff)
	}
	if diff := cmp.Diff(c.Job, w.job(d.JobID)); diff != "" {
		t.Errorf("(-answer +job)\n%s", diff)
	}

	stop := []wire.ActiveJob{{JobID: d.JobID, AttemptID: 1}}
	for range 2 {
		if s := w.status("n1"); s.EffectiveLoad != 1 {
			t.Errorf("the node still has the job: %+v", s)
		}
		w.post("/v1/dispatch/f2f", utterance(nil)).refused(wire.AllCandidatesFullOrFailed)
		if diff := cmp.Diff(stop, n.beat(obj{"active": active(d)}).Cancel); diff != "" {
			t.Errorf("what the node should stop: (-want +got)\n%s", diff)
		}
	}
	n.beat(obj{"active": active()})
	if s := w.status("n1"); s.EffectiveLoad != 0 {
		t.Errorf("the node has stopped: %+v", s)
	}
	w.begin(utterance(nil))
	n.done(d, nil).refused(wire.StaleAttempt)
	history(t, w.job(d.JobID), wire.Attempt{AttemptID: 1, NodeID: "n1", Reason: "CANCELLED"})
}

// TestLateResultOfCancelledJob changes nothing, but frees the slot: the node has said that it is done.
func TestLateResultOfCancelledJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", nil)
	d, _ := w.begin(utterance(nil))
	n.ack(d, nil).ok()
	c := w.cancel(d.JobID)
	n.done(d, obj{"result": obj{"text_tgt": "too late"}}).refused(wire.StaleAttempt)
	if diff := cmp.Diff(c.Job, w.job(d.JobID)); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	if s := w.status("n1"); s.EffectiveLoad != 0 {
		t.Errorf("want the slot free, got %+v", s)
	}
}

// TestCancelOfEndedJob says that it ended otherwise.
func TestCancelOfEndedJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", nil)
	d, _ := w.begin(utterance(nil))
	n.done(d, nil).ok()
	if c := w.cancel(d.JobID); !c.OK || c.Cancelled || c.Job.State != "DONE" {
		t.Errorf("the answer: %+v", c)
	}
}

// TestCancelOfWaitingJob stops the search for another node.
func TestCancelOfWaitingJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", nil)
	w.node("n2", obj{"health": "degraded"}) // the one that is waited for
	d, _ := w.begin(utterance(nil))
	n.fail(d, nil).ok()
	if c := w.cancel(d.JobID); !c.Cancelled {
		t.Errorf("the answer: %+v", c)
	}
	if s := w.status("n1"); s.EffectiveLoad != 0 {
		t.Errorf("nobody has the job: %+v", s)
	}
	w.eventually("nothing is in flight", func() bool { return w.s.Jobs.InFlight() == 0 })
	w.nothing()
}
