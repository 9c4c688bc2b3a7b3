package dispatch_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestRetryAvoidsNodesOfAnInstanceThatMissedACKs: if a node that is connected to another instance does not acknowledge a job,
// the next attempt goes to a node of a third instance, if there is one.
func TestRetryAvoidsNodesOfAnInstanceThatMissedACKs(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		ownedBy := func(owner core.InstanceID) func(*core.Change) {
			return func(p *core.Change) { p.Owner = owner }
		}
		for i := range 8 {
			h.addNode(fmt.Sprint("node-", i), 1, ownedBy("i-mute"))
		}
		p := h.dispatch()
		h.addNode("node-z", 1, ownedBy("i-other"))
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if now := h.job(p.Job); now.Attempt != 2 || now.Node != "node-z" {
			t.Errorf("attempt %d is on %s", now.Attempt, now.Node)
		}
	})
}

func TestRetryIgnoresIncapablePreferredNode(t *testing.T) {
	t.Parallel()
	prefer := func(s *core.Spec) { s.Options.PreferredNodeID = new("node-p") }
	runTest(t, func(h *harness) {
		h.addNode("node-p", 1)
		h.addNode("node-b", 1)
		h.dispatch(withRequestID("fill"), prefer)
		p := h.dispatch(prefer)
		h.addNode("node-c", 1)
		h.addNode("node-p", 1, func(patch *core.Change) { patch.Semantic = core.LangSet{"de", "fr"} })
		if err := h.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := h.placementOf(p.Job); now.Node != "node-c" {
			t.Errorf("the retry is at %+v, want node-c", now)
		}
	})
}

func TestExplainFindsPreferredNodeBeyondItsLimit(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		for i := range 12 {
			h.addNode(fmt.Sprintf("node-%02d", i), 1)
		}
		x, err := h.dispatcher.Explain(h.t.Context(),
			dispatch.ExplainParams{Spec: spec(func(s *core.Spec) { s.Options.PreferredNodeID = new("node-11") }), Limit: 10})
		if err != nil || x.Verdict != "" || !x.Truncated {
			t.Errorf("verdict %q %q truncated %v, %v", x.Verdict, x.Detail, x.Truncated, err)
		}
	})
}

func TestSilentNodeIsStaleNotIncapable(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		time.Sleep(17 * time.Second)
		synctest.Wait()
		if h.fleet.Node("node-a") != nil {
			t.Fatal("a silent node is still in the fleet")
		}
		e := h.dispatchRefused()
		if e.Code != wire.AllCandidatesFullOrFailed || e.Reasons["HEARTBEAT_STALE"] != 1 {
			t.Errorf("refusal %+v", e)
		}
		x, err := h.dispatcher.Explain(h.t.Context(), dispatch.ExplainParams{Spec: spec(), Limit: 10})
		if err != nil || x.Verdict != wire.AllCandidatesFullOrFailed || len(x.Nodes) != 1 || x.Nodes[0].Reason != core.ReasonStale {
			t.Errorf("explanation %+v, %v", x, err)
		}
		wantCode(t, h.dispatchRefused(func(s *core.Spec) { s.Direction.Tgt = "de" }), wire.NoCapableNode)
		h.heartbeat("node-a", []store.ActiveJob{})
		h.dispatch()
	})
}

// TestOutageIsNamed: while the store takes no writes no heartbeat is recorded, so that every node looks silent. The refusals name the
// store.
func TestOutageIsNamed(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	runWith(t, func(c *dispatch.Config) { c.StoreReachable = func() bool { return !down.Load() } }, func(h *harness) {
		h.addNode("node-a", 1)
		time.Sleep(17 * time.Second)
		synctest.Wait()
		wantCode(t, h.dispatchRefused(), wire.AllCandidatesFullOrFailed)
		down.Store(true)
		wantCode(t, h.dispatchRefused(), wire.SchedulerDependencyDown)
		x, err := h.dispatcher.Explain(h.t.Context(), dispatch.ExplainParams{Spec: spec(), Limit: 10})
		if err != nil || x.Verdict != wire.SchedulerDependencyDown {
			t.Errorf("explanation %+v, %v", x, err)
		}
		wantCode(t, h.dispatchRefused(func(s *core.Spec) { s.Direction.Tgt = "de" }), wire.NoCapableNode)
		down.Store(false)
		h.heartbeat("node-a", []store.ActiveJob{})
		h.dispatch()
	})
}

// TestManyRefusalsShareProbes: all requests to a full fleet are refused, but each does not probe every node on its own. Otherwise
// a fleet that is full for a moment would cost the store more than one that is not, and would not recover.
func TestManyRefusalsShareProbes(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		const size, requests = 20, 200
		for i := range size {
			h.addNode(fmt.Sprintf("n%d", i), 1)
			h.dispatch(func(s *core.Spec) { s.Request = core.RequestID(fmt.Sprint("first", i)) })
		}
		slow := &slowProbeStore{Store: h.store}
		d := dispatch.New(dispatch.Config{
			Instance: "i-other", DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second,
			AttemptTimeout: timing.Attempt, JobTimeout: timing.Job, MaxRetry: 2,
		}, slow, h.fleet, h.picker, h.transport, nil, h.metrics, h.log)
		defer d.Close()
		var all sync.WaitGroup
		var refused atomic.Int64
		for i := range requests {
			all.Go(func() {
				_, err := d.Dispatch(t.Context(),
					dispatch.Request{Spec: spec(func(s *core.Spec) { s.Request = core.RequestID(fmt.Sprint("more", i)) })})
				if err != nil {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if refused.Load() != requests {
			t.Errorf("%d of %d requests were refused by a full fleet", refused.Load(), requests)
		}
		if limit := int64(3 * size); slow.probed.Load() > limit {
			t.Errorf("%d nodes were probed, want at most %d", slow.probed.Load(), limit)
		}
	})
}

// TestSlotsBeingReservedAreNotChosen: a selection does not choose a slot that another one is reserving. Otherwise a slow store
// would be asked more often for each job the slower it is.
func TestSlotsBeingReservedAreNotChosen(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		const nodes, slots = 10, 2
		for i := range nodes {
			h.addNode(fmt.Sprint("node-", i), slots)
		}
		slow := &slowReserveStore{Store: h.store.Store}
		h.store.Store = slow
		var all sync.WaitGroup
		for i := range nodes * slots {
			all.Go(func() { h.dispatch(withRequestID(fmt.Sprint("req-", i))) })
			synctest.Wait() // its reservation is under way
		}
		all.Wait()
		if got := slow.reserved.Load(); got != nodes*slots {
			t.Errorf("%d reservations for %d jobs", got, nodes*slots)
		}
		for n := range h.fleet.All() {
			if inFlight, _ := h.fleet.InFlight(n, h.fleet.Now()); inFlight != slots || h.fleet.Utilization(n, h.fleet.Now()) != 1 {
				t.Errorf("%s has %d jobs in flight, utilization %v, after the store has answered", n.ID(), inFlight,
					h.fleet.Utilization(n, h.fleet.Now()))
			}
		}
	})
}

// TestPreferenceIsDroppedForRecordedJob: a preference that can no longer be met does not keep a recorded job from other nodes.
func TestPreferenceIsDroppedForRecordedJob(t *testing.T) {
	t.Parallel()
	for name, withdraw := range map[string]func(h *harness){
		"withdrew the language": func(h *harness) {
			_, err := h.registry.Heartbeat(t.Context(), nodes.Heartbeat{Node: "a", Change: core.Change{Declaration: core.Declaration{Capability: core.Capability{Semantic: core.LangSet{"fr", "de"}}}}})
			if err != nil {
				t.Error(err)
			}
		},
		"was removed": func(h *harness) { h.removeNode("a") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("a", 1)
				h.transport.failWith("a", dispatch.ErrBusy)
				job := h.dispatchUntilPlaced(func(s *core.Spec) { s.Options.PreferredNodeID = new("a") })
				time.Sleep(100 * time.Millisecond)
				h.wantState(job, core.StateRetrying, core.ReasonNodeBusy)
				withdraw(h)
				time.Sleep(2 * time.Second) // until the busy node would be tried again
				h.addNode("b", 1)
				time.Sleep(time.Second)
				synctest.Wait()
				if now := h.placementOf(job); now.Node != "b" {
					t.Errorf("the job is at %+v, want node b", now)
				}
			})
		})
	}
}

// TestNoRefusalWhileASlotIsFree fills a fleet that is much larger than the sample and expects every
// slot to be used before a request is refused.
func TestNoRefusalWhileASlotIsFree(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		const fleet = 500
		for i := range fleet {
			h.addNode(fmt.Sprintf("node-%03d", i), 1)
		}
		for i := range fleet {
			h.dispatch(withRequestID(fmt.Sprint("req-", i)))
		}
		e := h.dispatchRefused(withRequestID("req-more"))
		if e.Code != wire.AllCandidatesFullOrFailed || e.Reasons["FULL"] != fleet {
			t.Errorf("refusal %+v", e)
		}
	})
}

func TestPreferredNode(t *testing.T) {
	t.Parallel()
	prefer := func(id string, strict bool) func(*core.Spec) {
		return func(s *core.Spec) { s.Options.PreferredNodeID, s.Options.Strict = &id, strict }
	}
	runTest(t, func(h *harness) {
		for i := range 20 {
			h.addNode(fmt.Sprint("node-", i), 2)
		}
		h.addNode("german", 1, func(p *core.Change) { p.Semantic = core.LangSet{"de"} })
		if p := h.dispatch(withRequestID("r1"), prefer("node-7", false)); p.Node != "node-7" {
			t.Errorf("placed on %s, want node-7", p.Node)
		}
		if p := h.dispatch(withRequestID("r2"), prefer("node-7", true)); p.Node != "node-7" {
			t.Errorf("placed on %s, want node-7", p.Node)
		}
		if p := h.dispatch(withRequestID("r3"), prefer("node-7", false)); p.Node == "node-7" {
			t.Error("a full preferred node got a job")
		}
		e := h.dispatchRefused(withRequestID("r4"), prefer("node-7", true))
		if e.Code != wire.AllCandidatesFullOrFailed || e.Reasons["FULL"] != 1 {
			t.Errorf("strict and full: %+v", e)
		}
		wantCode(t, h.dispatchRefused(withRequestID("r5"), prefer("german", false)), wire.PreferredNodeNotCapable)
		wantCode(t, h.dispatchRefused(withRequestID("r6"), prefer("node-x", false)), wire.PreferredNodeNotCapable)
		h.heartbeat("node-9", nil)
		if _, err := h.registry.Drain(h.t.Context(), "node-9", true); err != nil {
			t.Fatal(err)
		}
		if p := h.dispatch(withRequestID("r7"), prefer("node-9", false)); p.Node == "node-9" {
			t.Error("a drained preferred node got a job")
		}
		wantCode(t, h.dispatchRefused(withRequestID("r8"), prefer("node-9", true)), wire.AllCandidatesFullOrFailed)
	})
}

func TestSilentPreferredNodeIsNotIncapable(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		h.advance(20*time.Second, "node-b") // node-a is silent
		if p := h.dispatch(func(s *core.Spec) { s.Options.PreferredNodeID = new("node-a") }); p.Node != "node-b" {
			t.Errorf("placed on %s, want node-b", p.Node)
		}
	})
}

func TestLoweredMaxJobs(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 3)
		p := h.dispatch()
		h.dispatch(withRequestID("req-2"))
		one := 1
		if _, err := h.registry.Heartbeat(h.t.Context(), nodes.Heartbeat{Node: "node-a", Change: core.Change{Declaration: core.Declaration{MaxJobs: one}}}); err != nil {
			t.Fatal(err)
		}
		wantCode(t, h.dispatchRefused(withRequestID("req-3")), wire.AllCandidatesFullOrFailed)
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		wantCode(t, h.dispatchRefused(withRequestID("req-3")), wire.AllCandidatesFullOrFailed)
	})
}

func TestWithdrawnLanguageIsNotGrantedFromStaleFleet(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 5)
		h.dispatch(withRequestID("warm"))
		h.stopFollower()
		h.changeInStore("node-a", func(n *core.Node) { n.Semantic = core.NewLangSet("en", "de") })
		if e := h.dispatchRefused(withRequestID("req-2")); e.Code != wire.AllCandidatesFullOrFailed && e.Code != wire.NoCapableNode {
			t.Errorf("refusal %+v", e)
		}
		if p := h.dispatch(withRequestID("req-3"), func(s *core.Spec) { s.Direction.Tgt = "de" }); p.Node != "node-a" {
			t.Errorf("the new language: %+v", p)
		}
	})
}

// TestChangedNodeIsReservedAgain: a node that has changed since it was chosen, but still passes the filters, is reserved
// again; also one that has registered again.
func TestChangedNodeIsReservedAgain(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 5)
		h.dispatch(withRequestID("warm"))
		h.stopFollower()
		h.changeInStore("node-a", func(n *core.Node) { n.Semantic = core.NewLangSet("en", "zh", "de") })
		h.dispatch(withRequestID("after-a-change"))
		declared := *h.fleet.Node("node-a").Declared()
		if _, err := h.mem.Register(h.t.Context(), store.RegisterParams{Node: declared, Load: core.UnknownLoad}); err != nil {
			t.Fatal(err)
		}
		h.dispatch(withRequestID("after-a-restart"))
	})
}

// TestNoRefusalFromPartialFleet: an instance that has not read the whole fleet cannot say that no node can do a job. Slots that
// it finds it grants.
func TestNoRefusalFromPartialFleet(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.stopFollower() // which would complete the fleet
		h.fleet.SetPartial(true)
		if e := h.dispatchRefused(); e.Code != wire.SchedulerDependencyDown || e.RetryAfterMS == 0 {
			t.Errorf("refused with %s, retry_after_ms %d", e.Code, e.RetryAfterMS)
		}
		h.addNode("node-a", 1)
		h.dispatch(withRequestID("r1"))
		h.fleet.SetPartial(false)
		if e := h.dispatchRefused(withRequestID("r2")); e.Code != wire.AllCandidatesFullOrFailed {
			t.Errorf("refused with %s", e.Code)
		}
	})
}

func TestNodeThatMissesACKIsSetAside(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 10)
		h.addNode("node-b", 10)
		p := h.dispatch(func(s *core.Spec) { s.Options.PreferredNodeID = new("node-a") })
		h.advance(3*time.Second, "node-a", "node-b")
		if now := h.placementOf(p.Job); now.Node != "node-b" {
			t.Fatalf("moved to %s", now.Node)
		}
		for i := range 9 {
			if p := h.dispatch(withRequestID(string(rune('a' + i)))); p.Node != "node-b" {
				t.Errorf("a node that was set aside got a job")
			}
		}
		// Node-b is full now: a node that is set aside is chosen rather than a refusal.
		if p := h.dispatch(withRequestID("last")); p.Node != "node-a" {
			t.Errorf("placed on %s, want node-a", p.Node)
		}
	})
}
