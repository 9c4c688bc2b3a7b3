package dispatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestASilentNodesJobsMoveAtOnce(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 2)
		p, q := w.dispatch(), w.dispatch(request("req-2"))
		for _, one := range []struct{ err error }{{w.ack(p)}, {w.ack(q)}} {
			if one.err != nil {
				t.Fatal(one.err)
			}
		}
		w.pass(10*time.Second, "node-a")
		w.node("node-b", 2)
		// From here on only node-b speaks. The attempts' own deadline is not what saves the jobs.
		w.beat("node-a", w.sent.holding("node-a"))
		w.pass(4*time.Second, "node-b")
		if now := w.placed(p.Job); now.Node != "node-a" {
			t.Fatalf("moved too early: %+v", now)
		}
		w.pass(12*time.Second, "node-b")
		for _, id := range []core.JobID{p.Job, q.Job} {
			if now := w.placed(id); now.Node != "node-b" || now.Attempt != 2 {
				t.Errorf("a silent node's job is at %+v", now)
			}
		}
		// It comes back, still at it: it is told to stop, and counts until it does.
		if diff := cmp.Diff(2, len(w.beat("node-a", w.sent.holding("node-a")))); diff != "" {
			t.Errorf("cancels (-want +got):\n%s", diff)
		}
		if n := w.inFlight("node-a"); n != 2 {
			t.Errorf("%d slots of the returned node are taken, want 2", n)
		}
		w.beat("node-a", []store.ActiveJob{})
		w.wantFree("node-a")
	})
}

func TestOfflineMovesJobsAtOnce(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		w.node("node-b", 1)
		_, err := w.life.Heartbeat(w.t.Context(), nodes.Heartbeat{Node: "node-a", Patch: nodes.Patch{Health: core.HealthOffline}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := w.placed(p.Job); now.Node != "node-b" || now.Attempt != 2 {
			t.Errorf("after going offline: %+v", now)
		}
	})
}

func TestARestartedNodeLosesWhatItDoesNotList(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 3)
		kept, lost := w.dispatch(), w.dispatch(request("req-2"))
		if err := w.ack(lost); err != nil {
			t.Fatal(err)
		}
		w.node("node-b", 3)
		w.sent.drop(lost)
		a := store.Activity{Lists: true, Active: w.sent.holding("node-a")}
		before := w.job(kept.Job).Epoch
		if err := w.register("node-a", 3, a); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := w.placed(kept.Job); now != kept {
			t.Errorf("a job the node still has moved to %+v", now)
		}
		after := w.job(kept.Job).Epoch
		if after <= before {
			t.Errorf("the job is in epoch %d, was %d", after, before)
		}
		if now := w.placed(lost.Job); now.Node != "node-b" || now.Attempt != 2 {
			t.Errorf("a job the node lost is at %+v", now)
		}
		r := report(kept)
		r.Epoch = before
		wantCode(t, w.d.Ack(w.t.Context(), r), wire.StaleEpoch)
		r.Epoch = after
		if err := w.d.Ack(w.t.Context(), r); err != nil {
			t.Errorf("ACK in the new life: %v", err)
		}
		if err := w.done(kept); err != nil {
			t.Errorf("done in the new life: %v", err)
		}
		w.wantFree("node-a")
	})
}

func TestARestartDuringARetryKeepsTheJobFindable(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		w.pass(4*time.Second, "node-a")
		w.wantState(p.Job, core.StateRetrying, core.ReasonACKTimeout)
		if err := w.register("node-a", 1, store.Activity{Lists: true, Active: w.sent.holding("node-a")}); err != nil {
			t.Fatal(err)
		}
		leases, err := w.mem.Orphans(w.t.Context(), "node-a")
		if err != nil || len(leases) != 1 || leases[0].State == core.LeaseRevoked {
			t.Errorf("leases %v, %v: nobody could find the unfinished job", leases, err)
		}
		if err := w.done(p); err != nil {
			t.Errorf("its late result: %v", err)
		}
		w.wantState(p.Job, core.StateDone, "")
	})
}

func TestJobsOfAnEarlierLifeOfTheStore(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		// The scheduler has just started; the node is in the middle of something it was given before.
		stranger := []store.ActiveJob{{Job: "job-of-old", Attempt: 2}}
		if err := w.register("node-a", 2, store.Activity{Lists: true, Active: stranger}); err != nil {
			t.Fatal(err)
		}
		if n := w.inFlight("node-a"); n != 1 {
			t.Errorf("%d slots taken, want 1: the node is busy whoever sent it", n)
		}
		if cancel := w.beat("node-a", stranger); len(cancel) != 0 {
			t.Errorf("a young store cancelled %v", cancel)
		}
		wantCode(t, w.d.Done(w.t.Context(), report(w.placement("job-of-old", "node-a", 2)), nil), wire.NotFound)
		w.wantFree("node-a")

		time.Sleep(10 * time.Second)
		w.beat("node-a", stranger)
		time.Sleep(10 * time.Second)
		w.beat("node-a", stranger)
		time.Sleep(11 * time.Second) // old enough to know
		if cancel := w.beat("node-a", stranger); len(cancel) != 1 {
			t.Errorf("cancels %v, want the stranger", cancel)
		}
	})
}

func TestAnUnknownNodesHeartbeat(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		_, err := w.life.Heartbeat(w.t.Context(), nodes.Heartbeat{Node: "node-a", Patch: nodes.Patch{Health: core.HealthReady}})
		wantCode(t, err, wire.NotFound)
		slots, url := 1, "http://127.0.0.1:9/a"
		full := nodes.Patch{Semantic: core.LangSet{"en", "zh"}, MaxJobs: &slots, Callback: &url}
		if _, err = w.life.Heartbeat(w.t.Context(), nodes.Heartbeat{Node: "node-a", Patch: full}); err != nil {
			t.Fatalf("a full heartbeat: %v", err)
		}
		// It spoke as one that was known before and does not list: it may be busy with anything.
		wantCode(t, w.refused(), wire.AllCandidatesFullOrFailed)
		w.pass(16*time.Second, "node-a")
		w.dispatch()
	})
}

func TestALoweredMaximumOnlyShrinks(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 3)
		p := w.dispatch()
		w.dispatch(request("req-2"))
		one := 1
		if _, err := w.life.Heartbeat(w.t.Context(), nodes.Heartbeat{Node: "node-a", Patch: nodes.Patch{MaxJobs: &one}}); err != nil {
			t.Fatal(err)
		}
		wantCode(t, w.refused(request("req-3")), wire.AllCandidatesFullOrFailed)
		if err := w.done(p); err != nil {
			t.Fatal(err)
		}
		wantCode(t, w.refused(request("req-3")), wire.AllCandidatesFullOrFailed)
	})
}

// behind changes a node in the store without this instance's hearing of it.
func (w *world) behind(id core.NodeID, change func(*core.Node)) {
	w.t.Helper()
	status, err := w.mem.Node(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	next := *status.Node
	change(&next)
	if _, err := w.mem.Heartbeat(w.t.Context(), store.HeartbeatParams{Node: id, Declared: &next, Known: status.Node}); err != nil {
		w.t.Fatal(err)
	}
}

func TestAWithdrawnLanguageIsNotGrantedFromAnOldView(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 5)
		w.dispatch(request("warm"))
		w.deafen()
		w.behind("node-a", func(n *core.Node) { n.Capability.Semantic = core.NewLangSet("en", "de") })
		if e := w.refused(request("req-2")); e.Code != wire.AllCandidatesFullOrFailed && e.Code != wire.NoCapableNode {
			t.Errorf("refusal %+v", e)
		}
		if p := w.dispatch(request("req-3"), func(s *core.Spec) { s.Direction.Tgt = "de" }); p.Node != "node-a" {
			t.Errorf("the new language: %+v", p)
		}
	})
}

// TestAnOldViewIsNoReasonToRefuse: a node that has changed since it was chosen, but still suits, is asked
// again; also one that has begun another life.
func TestAnOldViewIsNoReasonToRefuse(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 5)
		w.dispatch(request("warm"))
		w.deafen()
		w.behind("node-a", func(n *core.Node) { n.Capability.Semantic = core.NewLangSet("en", "zh", "de") })
		w.dispatch(request("after-a-change"))
		declared := *w.fleet.Node("node-a").Declared()
		if _, err := w.mem.Register(w.t.Context(), store.RegisterParams{Node: declared, Load: core.UnknownLoad}); err != nil {
			t.Fatal(err)
		}
		w.dispatch(request("after-a-restart"))
	})
}

func TestAServiceThatIsMissingAfterAll(t *testing.T) {
	t.Parallel()
	with := func(p *nodes.Patch) { p.Services = []core.Service{{ID: "asr-x", Status: core.ServiceReady}} }
	needs := func(s *core.Spec) { s.Options.RequiredServices = []string{"asr-x"} }
	play(t, func(w *world) {
		w.node("node-a", 5, with)
		p := w.dispatch(needs)
		w.node("node-b", 5, with)
		err := w.life.ReportUnavailable(w.t.Context(), nodes.Unavailable{Node: "node-a", Service: "asr-x", Job: p.Job, Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := w.placed(p.Job); now.Node != "node-b" {
			t.Errorf("the job that failed for it is at %+v", now)
		}
		for i := range 4 {
			if p := w.dispatch(needs, request(fmt.Sprint("r", i))); p.Node != "node-b" {
				t.Errorf("a marked node got a job that requires the service")
			}
		}
		e := w.refused(needs, request("full"))
		if e.Reasons["SERVICE_MARKED_UNAVAILABLE"] != 1 {
			t.Errorf("refusal %+v", e)
		}
		if p := w.dispatch(request("plain")); p.Node != "node-a" {
			t.Errorf("a job that does not require the service: %+v", p)
		}
	})
}

func TestAFloodOfReportsIsHeldBack(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		u := nodes.Unavailable{Node: "node-a", Service: "asr-x"}
		for range 60 {
			if err := w.life.ReportUnavailable(w.t.Context(), u); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, w.life.ReportUnavailable(w.t.Context(), u), wire.RateLimited)
		u.Node = "node-x"
		wantCode(t, w.life.ReportUnavailable(w.t.Context(), u), wire.NotFound)
	})
}

// TestAListThatCrossesAResultTakesNoSlot: the heartbeat was written before the node knew that its result had
// arrived, and comes after it.
func TestAListThatCrossesAResultTakesNoSlot(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		if err := w.done(p); err != nil {
			t.Fatal(err)
		}
		if stop := w.beat("node-a", []store.ActiveJob{{Job: p.Job, Attempt: 1}}); len(stop) != 0 {
			t.Errorf("the node is told to stop what it has finished: %v", stop)
		}
		w.wantFree("node-a")
		w.dispatch(request("req-2"))
	})
}
