package dispatch_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestALifeWithoutTrouble(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch(func(s *core.Spec) { s.Options.RequiredModels = nil })
		if p.Node != "node-a" || p.Attempt != 1 {
			t.Errorf("placed %+v", p)
		}
		sent := w.sent.deliveries()
		if len(sent) != 1 {
			t.Fatalf("%d deliveries, want 1", len(sent))
		}
		want := wire.Assignment{
			JobID: string(p.Job), AttemptID: 1, NodeID: "node-a", Epoch: sent[0].Epoch, SessionID: "room-1",
			SrcLang: "en", TgtLang: "zh", AudioRef: "blob://a",
			DeadlineMS: time.Now().Add(timing.Attempt).UnixMilli(), TimeoutMS: timing.Attempt.Milliseconds(),
		}
		if diff := cmp.Diff(want, sent[0]); diff != "" {
			t.Errorf("assignment (-want +got):\n%s", diff)
		}
		w.wantState(p.Job, core.StateDispatched, "")
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		w.wantState(p.Job, core.StateAcked, "")
		if err := w.done(p); err != nil {
			t.Fatal(err)
		}
		w.wantState(p.Job, core.StateDone, "")
		if j := w.job(p.Job); string(j.Result) != `{"text_tgt":"x"}` {
			t.Errorf("result %s", j.Result)
		}
		w.wantFree("node-a")
		if w.d.InFlight() != 0 {
			t.Errorf("%d flights left", w.d.InFlight())
		}
	})
}

func TestAResultMayOvertakeItsACK(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		if err := w.done(p); err != nil {
			t.Fatal(err)
		}
		if err := w.ack(p); err != nil {
			t.Errorf("the ACK of a job that is done: %v", err)
		}
		w.wantState(p.Job, core.StateDone, "")
		w.wantFree("node-a")
	})
}

func TestRefusalsSayWhy(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		wantCode(t, w.refused(), wire.NoCapableNode)
		w.node("node-a", 1)
		e := w.refused(func(s *core.Spec) { s.Direction.Tgt = "de" })
		if e.Code != wire.NoCapableNode || e.Detail != "No node supports semantic(en) + nmt(en->de)." {
			t.Errorf("refusal %+v", e)
		}
		e = w.refused(func(s *core.Spec) { s.Options.RequiredModels = []string{"m"} })
		if e.Code != wire.NoCapableNode || e.Reasons["MODEL_MISSING"] != 1 {
			t.Errorf("refusal %+v", e)
		}
		w.dispatch()
		e = w.refused(request("req-2"))
		if e.Code != wire.AllCandidatesFullOrFailed || e.Reasons["FULL"] != 1 || e.RetryAfter == 0 {
			t.Errorf("refusal %+v", e)
		}
		if _, err := w.d.Job(w.t.Context(), core.JobIDFor("", "req-2")); err == nil {
			t.Error("a refusal before a record was remembered")
		}
	})
}

// TestNobodyIsRefusedWhileASlotIsFree fills a fleet that is much larger than the sample and expects every
// last slot to be used before anybody is refused.
func TestNobodyIsRefusedWhileASlotIsFree(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		const fleet = 500
		for i := range fleet {
			w.node(fmt.Sprintf("node-%03d", i), 1)
		}
		for i := range fleet {
			w.dispatch(request(fmt.Sprint("req-", i)))
		}
		e := w.refused(request("one-too-many"))
		if e.Code != wire.AllCandidatesFullOrFailed || e.Reasons["FULL"] != fleet {
			t.Errorf("refusal %+v", e)
		}
	})
}

func TestTheSameRequestGivesTheSameJob(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		for i := range 8 {
			w.node(fmt.Sprint("node-", i), 8)
		}
		const callers = 64
		got := make([]dispatch.Placement, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				p, err := w.d.Dispatch(w.t.Context(), dispatch.Request{Spec: spec()})
				if err != nil {
					t.Errorf("dispatch: %v", err)
				}
				got[i] = p
			})
		}
		wg.Wait()
		if n := len(slices.Compact(got)); n != 1 {
			t.Errorf("%d different answers", n)
		}
		if n := len(w.sent.deliveries()); n != 1 {
			t.Errorf("%d deliveries, want 1", n)
		}
		first := got[0]
		if again := w.dispatch(); again != first {
			t.Errorf("a repeat in flight: %+v, want %+v", again, first)
		}
		wantCode(t, w.refused(func(s *core.Spec) { s.AudioRef = "blob://b" }), wire.RequestMismatch)
		if err := w.done(first); err != nil {
			t.Fatal(err)
		}
		if again := w.dispatch(); again != first {
			t.Errorf("a repeat after the end: %+v, want %+v", again, first)
		}
		wantCode(t, w.refused(func(s *core.Spec) { s.Direction = core.Direction{Src: "zh", Tgt: "en"} }), wire.RequestMismatch)
		if again := w.dispatch(func(s *core.Spec) { s.AudioRef = "blob://a?sig=another" }); again != first {
			t.Errorf("a repeat with another signature: %+v, want %+v", again, first)
		}
		if n := len(w.sent.deliveries()); n != 1 {
			t.Errorf("%d deliveries, want 1", n)
		}
		for i := range 8 {
			w.wantFree(fmt.Sprint("node-", i))
		}
		time.Sleep(timing.Retention)
		w.pass(0)
		for i := range 8 {
			w.beat(fmt.Sprint("node-", i), []store.ActiveJob{})
		}
		if other := w.dispatch(func(s *core.Spec) { s.AudioRef = "blob://b" }); other.Job != first.Job {
			t.Errorf("after its lease the request id is free again: %+v", other)
		}
	})
}

func TestARecordThatExistsIsTheAnswerToARefusal(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		first := w.dispatch()
		other := dispatch.New(dispatch.Config{Instance: "i-other", DecideWithin: time.Second, ACKTimeout: time.Second, AttemptTimeout: timing.Attempt, JobTimeout: timing.Job},
			w.store, w.fleet, w.pick, w.sent, nil, w.m, w.log)
		defer other.Close()
		// The other instance finds no free slot; but the job exists.
		p, err := other.Dispatch(w.t.Context(), dispatch.Request{Spec: spec()})
		if err != nil || p != first {
			t.Errorf("the same request at another instance: %+v, %v; want %+v", p, err, first)
		}
		// Nor does it keep a slot when it finds one.
		w.node("node-b", 1)
		p, err = other.Dispatch(w.t.Context(), dispatch.Request{Spec: spec()})
		if err != nil || p != first {
			t.Errorf("the same request at another instance: %+v, %v; want %+v", p, err, first)
		}
		w.wantFree("node-b")
	})
}

func TestPreferredNode(t *testing.T) {
	t.Parallel()
	prefer := func(id core.NodeID, strict bool) func(*core.Spec) {
		return func(s *core.Spec) { s.Options.PreferredNode, s.Options.Strict = id, strict }
	}
	play(t, func(w *world) {
		for i := range 20 {
			w.node(fmt.Sprint("node-", i), 2)
		}
		w.node("german", 1, func(p *nodes.Patch) { p.Semantic = core.LangSet{"de"} })
		if p := w.dispatch(request("r1"), prefer("node-7", false)); p.Node != "node-7" {
			t.Errorf("placed on %s, want node-7", p.Node)
		}
		if p := w.dispatch(request("r2"), prefer("node-7", true)); p.Node != "node-7" {
			t.Errorf("placed on %s, want node-7", p.Node)
		}
		if p := w.dispatch(request("r3"), prefer("node-7", false)); p.Node == "node-7" {
			t.Error("a full preferred node was oversold")
		}
		e := w.refused(request("r4"), prefer("node-7", true))
		if e.Code != wire.AllCandidatesFullOrFailed || e.Reasons["FULL"] != 1 {
			t.Errorf("strict and full: %+v", e)
		}
		wantCode(t, w.refused(request("r5"), prefer("german", false)), wire.PreferredNodeNotCapable)
		wantCode(t, w.refused(request("r6"), prefer("nobody", false)), wire.PreferredNodeNotCapable)
		w.beat("node-9", nil)
		if _, err := w.life.Drain(w.t.Context(), "node-9", true); err != nil {
			t.Fatal(err)
		}
		if p := w.dispatch(request("r7"), prefer("node-9", false)); p.Node == "node-9" {
			t.Error("a drained preferred node was granted")
		}
		wantCode(t, w.refused(request("r8"), prefer("node-9", true)), wire.AllCandidatesFullOrFailed)
	})
}

func TestAPreferredNodeThatIsAwayIsNotIncapable(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.node("node-b", 1)
		w.pass(20*time.Second, "node-b") // node-a falls silent
		if p := w.dispatch(func(s *core.Spec) { s.Options.PreferredNode = "node-a" }); p.Node != "node-b" {
			t.Errorf("placed on %s, want node-b", p.Node)
		}
	})
}

func TestSpread(t *testing.T) {
	t.Parallel()
	playWith(t, func(c *dispatch.Config) { c.SpreadWindow = 30 * time.Second }, func(w *world) {
		w.node("node-a", 100)
		w.node("node-b", 100)
		var last core.NodeID
		for i := range 40 {
			p := w.dispatch(request(fmt.Sprint("req-", i)))
			if p.Node == last {
				t.Fatalf("utterance %d went to %s again", i, last)
			}
			last = p.Node
		}
		if _, err := w.life.Drain(w.t.Context(), "node-a", true); err != nil {
			t.Fatal(err)
		}
		for i := range 5 { // with nobody else there the preference yields
			if p := w.dispatch(request(fmt.Sprint("alone-", i))); p.Node != "node-b" {
				t.Errorf("placed on %s, want node-b", p.Node)
			}
		}
	})
}

func TestDrainOfTheInstance(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 2)
		p := w.dispatch()
		drained := make(chan int)
		go func() { drained <- w.d.Drain(w.t.Context()) }()
		synctest.Wait()
		wantCode(t, w.refused(request("req-2")), wire.AllCandidatesFullOrFailed)
		if again := w.dispatch(); again != p {
			t.Errorf("a repeat while draining: %+v, want %+v", again, p)
		}
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		if err := w.done(p); err != nil {
			t.Fatal(err)
		}
		if left := <-drained; left != 0 {
			t.Errorf("%d jobs left", left)
		}
	})
}
