package server_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestHeartbeat takes over what a node says anew and keeps what it leaves out.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{"region": "eu"})
	w.post("/v1/node/heartbeat", obj{"node_id": "n1"}).ok()
	w.post("/v1/node/heartbeat", obj{
		"node_id": "n1", "epoch": n.epoch, "hb_seq": 1, "health": "degraded", "max_concurrent_jobs": 7,
		"current_load": obj{"gpu": 0.52, "cpu": 0.33}, "active": []obj{},
	}).ok()
	s := w.status("n1")
	gpu, cpu := 0.52, 0.33
	if s.Health != "degraded" || s.MaxConcurrentJobs != 7 || s.Region != "eu" ||
		!cmp.Equal(s.SemanticLangs, []string{"en", "zh"}) || !cmp.Equal(s.CurrentLoad, &wire.Load{GPU: &gpu, CPU: &cpu}) {
		t.Errorf("the node after a heartbeat: %+v", s)
	}
	w.post("/v1/dispatch/f2f", utterance(nil)).refused(wire.AllCandidatesFullOrFailed) // degraded gets nothing new
	n.beat(obj{"health": "ready"})
	w.begin(utterance(nil))
}

// TestOvertakenHeartbeat ignores one that a later one has overtaken.
func TestOvertakenHeartbeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", nil)
	n.beat(obj{"hb_seq": 5, "max_concurrent_jobs": 5})
	n.beat(obj{"hb_seq": 4, "max_concurrent_jobs": 4})
	if got := w.status("n1").MaxConcurrentJobs; got != 5 {
		t.Errorf("an overtaken heartbeat set the maximum to %d", got)
	}
}

// TestHeartbeatOfAnotherLife refuses an epoch that is not the node's.
func TestHeartbeatOfAnotherLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", nil)
	old := n.epoch
	n.register(nil)
	w.post("/v1/node/heartbeat", obj{"node_id": "n1", "epoch": old, "max_concurrent_jobs": 9}).refused(wire.StaleEpoch)
	if got := w.status("n1"); got.MaxConcurrentJobs != 2 || got.Epoch != n.epoch {
		t.Errorf("a heartbeat of an old life changed the node: %+v", got)
	}
	n.beat(obj{"epoch": n.epoch})
}

// TestHeartbeatOfUnknownNode registers whoever says enough, and asks the others to.
func TestHeartbeatOfUnknownNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.stranger("n1")
	e := w.post("/v1/node/heartbeat", obj{"node_id": "n1", "health": "ready"}).refused(wire.NotFound)
	if !strings.Contains(e.Detail, "register again") {
		t.Errorf("the node should be told what to do, not %q", e.Detail)
	}
	w.get("/v1/nodes/n1").refused(wire.NotFound)

	n.beat(capable(obj{"callback_url": n.srv.URL, "active": []obj{}}))
	if s := w.status("n1"); !s.Online || s.MaxConcurrentJobs != 2 {
		t.Errorf("a full heartbeat should have registered it: %+v", s)
	}
	w.begin(utterance(nil)) // it lists what it has, so it can be given work at once
}

// TestReturningNodeThatNeverLists is given nothing while it may still run what an earlier life of the
// scheduler gave it, and explain says the same as dispatch.
func TestReturningNodeThatNeverLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.stranger("n1")
	n.beat(capable(obj{"callback_url": n.srv.URL}))
	refusal := w.post("/v1/dispatch/f2f", utterance(nil)).refused(wire.AllCandidatesFullOrFailed)
	var x wire.ExplainResponse
	w.post("/v1/dispatch/explain", utterance(nil)).into(&x)
	if x.Verdict != string(refusal.Code) {
		t.Errorf("dispatch says %s (%v), explain says %s: %s", refusal.Code, refusal.Reasons, x.Verdict, x.Detail)
	}
	n.beat(obj{"active": []obj{}})
	w.begin(utterance(nil))
}

// TestRegisterAgainWithActive keeps the jobs the node lists, in its new life.
func TestRegisterAgainWithActive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", nil)
	old := n.epoch
	d, _ := w.begin(utterance(nil))
	n.ack(d, nil).ok()

	r := n.register(obj{"active": active(d)})
	if len(r.Cancel) != 0 {
		t.Errorf("it was told to stop its own job: %+v", r.Cancel)
	}
	n.done(d, obj{"epoch": old}).refused(wire.StaleEpoch)
	if s := w.status("n1"); s.Running != 1 {
		t.Errorf("it has one job: %+v", s)
	}
	n.done(d, obj{"epoch": n.epoch}).ok()
	history(t, w.job(d.JobID), wire.Attempt{AttemptID: 1, NodeID: "n1"})
	w.nothing()
}

// TestRegisterAgainWithoutActive gives its jobs to others: a new life does not know them.
func TestRegisterAgainWithoutActive(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]obj{"absent": nil, "empty": {"active": []obj{}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, b := w.node("a", nil), w.node("b", nil)
			d1, first := w.begin(utterance(nil))
			first.ack(d1, nil).ok()
			first.register(said)
			d2, second := w.next()
			if d2.JobID != d1.JobID || d2.AttemptID != 2 || second != first.other(a, b) {
				t.Fatalf("want attempt 2 on the other node, got %+v", d2.Assignment)
			}
			first.done(d1, nil).refused(wire.StaleAttempt)
			second.done(d2, nil).ok()
			history(t, w.job(d1.JobID),
				wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "NODE_LOST"}, wire.Attempt{AttemptID: 2, NodeID: second.id})
			w.eventually("the slots are free", func() bool {
				return w.status("a").EffectiveLoad == 0 && w.status("b").EffectiveLoad == 0
			})
		})
	}
}

// TestRegisterAgainWithWhatIsNotItsOwn is told to stop what was given to somebody else meanwhile.
func TestRegisterAgainWithWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("a", nil)
	w.node("b", nil)
	d1, first := w.begin(utterance(nil))
	first.fail(d1, nil).ok()
	d2, second := w.next()
	r := first.register(obj{"active": active(d1)})
	if diff := cmp.Diff([]wire.ActiveJob{{JobID: d1.JobID, AttemptID: 1}}, r.Cancel); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// As long as it has the job, the job takes a slot: nobody oversells a node because it is wrong.
	if s := w.status(first.id); s.EffectiveLoad != 1 {
		t.Errorf("want one slot taken, got %+v", s)
	}
	second.done(d2, nil).ok()
}

// TestOmittedJob is moved when a node leaves it out of two lists in a row, not one.
func TestOmittedJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("a", nil)
	w.node("b", nil)
	d1, first := w.begin(utterance(nil))
	first.ack(d1, nil).ok()
	first.beat(obj{"hb_seq": 1, "active": active()})
	first.beat(obj{"hb_seq": 1, "active": active()}) // the same one again
	first.beat(obj{"hb_seq": 2, "active": active(d1)})
	first.beat(obj{"hb_seq": 3})
	first.beat(obj{"hb_seq": 4, "active": active()})
	if j := w.job(d1.JobID); j.State != "ACKED" || j.AttemptID != 1 {
		t.Fatalf("one omission moved the job: %+v", j)
	}
	first.beat(obj{"hb_seq": 5, "active": active()})
	if d2, _ := w.next(); d2.AttemptID != 2 || d2.NodeID == first.id {
		t.Errorf("want attempt 2 on the other node, got %+v", d2.Assignment)
	}
}

// TestOfflineNode loses its jobs at once.
func TestOfflineNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.node("a", nil), w.node("b", nil)
	d1, first := w.begin(utterance(nil))
	first.ack(d1, nil).ok()
	first.beat(obj{"health": "offline"})
	if s := w.status(first.id); s.Online || s.Health != "offline" {
		t.Errorf("an offline node is not online: %+v", s)
	}
	d2, second := w.next()
	if second != first.other(a, b) || d2.AttemptID != 2 {
		t.Errorf("want attempt 2 on the other node, got %+v", d2.Assignment)
	}
	history(t, w.job(d1.JobID),
		wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "NODE_LOST"}, wire.Attempt{AttemptID: 2, NodeID: second.id})
}

// TestSilentNode loses its jobs when it has not been heard for its presence.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) {
		c.Scheduler.Nodes.HeartbeatIntervalMS, c.Scheduler.Nodes.PresenceTTLMS = 300, 1500
		c.Scheduler.Dispatch.HeartbeatStaleMS = 1500
	})
	a, b := w.node("a", nil), w.node("b", nil)
	d1, first := w.begin(utterance(nil))
	first.ack(d1, nil).ok()
	second := first.other(a, b)
	w.eventually("the job is retried", func() bool {
		second.beat(nil)
		return w.job(d1.JobID).AttemptID == 2
	})
	history(t, w.job(d1.JobID),
		wire.Attempt{AttemptID: 1, NodeID: first.id, Reason: "NODE_LOST"}, wire.Attempt{AttemptID: 2, NodeID: second.id})
	if s := w.status(first.id); s.Online {
		t.Errorf("a silent node is not online: %+v", s)
	}
	w.eventually("its slot is free when the lease lapses", func() bool { return w.status(first.id).EffectiveLoad == 0 })
}

// TestDrain gives a node nothing new until it is resumed, and leaves it what it has.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", nil)
	d, _ := w.begin(utterance(nil))

	var s wire.Node
	w.ask("POST", "/v1/nodes/n1/drain", "", nil).into(&s)
	if s.Health != "draining" || !s.Drained {
		t.Errorf("a drained node: %+v", s)
	}
	w.ask("POST", "/v1/nodes/n1/drain", "", nil).into(&s)
	e := w.post("/v1/dispatch/f2f", utterance(nil)).refused(wire.AllCandidatesFullOrFailed)
	if diff := cmp.Diff(map[string]int{"DRAINED": 1}, e.Reasons); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	n.register(obj{"active": active(d)})
	if s := w.status("n1"); !s.Drained {
		t.Error("a registration took the operator's wish back")
	}
	n.beat(obj{"health": "ready", "active": active(d)})
	w.post("/v1/dispatch/f2f", utterance(nil)).refused(wire.AllCandidatesFullOrFailed)
	n.ack(d, nil).ok()
	n.done(d, nil).ok()

	w.ask("POST", "/v1/nodes/n1/resume", "", nil).into(&s)
	if s.Health != "ready" || s.Drained {
		t.Errorf("a resumed node: %+v", s)
	}
	w.begin(utterance(nil))
}

// TestMaximumLowered lets leases only shrink until they fit.
func TestMaximumLowered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", nil)
	d1, _ := w.begin(utterance(nil))
	d2, _ := w.begin(utterance(nil))
	n.ack(d1, nil).ok()
	n.ack(d2, nil).ok()
	n.beat(obj{"max_concurrent_jobs": 1, "active": active(d1, d2)})
	if s := w.status("n1"); s.MaxConcurrentJobs != 1 || s.Running != 2 || s.EffectiveLoad != 2 {
		t.Errorf("it keeps what it has: %+v", s)
	}
	for _, d := range []delivery{d1, d2} {
		e := w.post("/v1/dispatch/f2f", utterance(nil)).refused(wire.AllCandidatesFullOrFailed)
		if e.Reasons["FULL"] != 1 {
			t.Errorf("want FULL, got %v", e.Reasons)
		}
		n.done(d, nil).ok()
	}
	w.begin(utterance(nil))
	w.post("/v1/dispatch/f2f", utterance(nil)).refused(wire.AllCandidatesFullOrFailed)
}
