package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestNothingIsGrantedAfterTheFence: whatever the store would grant.
func TestNothingIsGrantedAfterTheFence(t *testing.T) {
	t.Parallel()
	var until fenceTime
	runWith(t, func(c *dispatch.Config) { c.Fence = until.get }, func(h *harness) {
		h.addNode("node-a", 2)
		if e := h.dispatchRefused(); e.Code != wire.SchedulerDependencyDown {
			t.Errorf("before the first presence: %v", e)
		}
		until.set(time.Now().Add(time.Second))
		h.dispatch(withRequestID("req-1"))
		time.Sleep(2 * time.Second)
		if e := h.dispatchRefused(withRequestID("req-2")); e.Code != wire.SchedulerDependencyDown {
			t.Errorf("after the fence: %v", e)
		}
		until.set(time.Now().Add(time.Second))
		h.dispatch(withRequestID("req-2"))
	})
}

func TestFailedCreateDoesNotAffectRepeatedRequest(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 2)
		h.store.failNext(true, "create", 1)
		h.store.failNext(true, "apply", 2)
		wantCode(t, h.dispatchRefused(), wire.SchedulerDependencyDown)
		// Until the first is failed its record may or may not exist: the request gets no other answer.
		wantCode(t, h.dispatchRefused(), wire.SchedulerDependencyDown)
		time.Sleep(time.Second)
		p := h.dispatch()
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		h.wantState(p.Job, core.StateAcked, "")
		if n := h.inFlight("node-a"); n != 1 {
			t.Errorf("%d slots taken, want 1", n)
		}
		if err := h.done(p); err != nil {
			t.Error(err)
		}
	})
}

func TestRepeatedRequestOfFailedJob(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		for _, id := range []string{"node-a", "node-b", "node-c"} {
			h.addNode(id, 1)
		}
		p := h.dispatch()
		h.advance(10*time.Second, "node-a", "node-b", "node-c")
		h.wantState(p.Job, core.StateFailed, core.ReasonMaxRetry)
		if again := h.dispatch(); again.Job != p.Job {
			t.Errorf("the same request: %+v, want job %s", again, p.Job)
		}
	})
}

func TestHangingStoreIsRefusedInTime(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		hanging := &hangingStore{Store: h.mem}
		hanging.on.Store(true)
		h.store.Store = hanging
		for name, change := range map[string]func(*core.Spec){
			"plain":             func(*core.Spec) {},
			"a preferred node":  func(s *core.Spec) { s.Options.PreferredNodeID = new("node-away") },
			"no capable node":   func(s *core.Spec) { s.Direction.Tgt = "de" },
			"the same, at once": func(*core.Spec) {},
		} {
			began := time.Now()
			wantCode(t, h.dispatchRefused(withRequestID("r-"+fmt.Sprint(len(name))), change), wire.SchedulerDependencyDown)
			if took := time.Since(began); took > 500*time.Millisecond {
				t.Errorf("%s: refused after %v", name, took)
			}
		}
		hanging.on.Store(false)
		h.advance(16*time.Second, "node-a")
		h.dispatch()
	})
}

func TestJobFromDispatchToResult(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch(func(s *core.Spec) { s.Options.RequiredModels = nil })
		if p.Node != "node-a" || p.Attempt != 1 {
			t.Errorf("placed %+v", p)
		}
		sent := h.transport.deliveries()
		if len(sent) != 1 {
			t.Fatalf("%d deliveries, want 1", len(sent))
		}
		want := wire.Assignment{
			JobID: string(p.Job), AttemptID: 1, NodeID: "node-a", Epoch: sent[0].Epoch, SessionID: "session-1",
			SrcLang: "en", TgtLang: "zh", AudioRef: "blob://a",
			DeadlineMS: time.Now().Add(timing.Attempt).UnixMilli(), TimeoutMS: timing.Attempt.Milliseconds(),
		}
		if diff := cmp.Diff(want, sent[0]); diff != "" {
			t.Errorf("assignment (-want +got):\n%s", diff)
		}
		h.wantState(p.Job, core.StateDispatched, "")
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		h.wantState(p.Job, core.StateAcked, "")
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		h.wantState(p.Job, core.StateDone, "")
		if j := h.job(p.Job); string(j.Result) != `{"text_tgt":"x"}` {
			t.Errorf("result %s", j.Result)
		}
		h.wantFree("node-a")
		if h.dispatcher.InFlight() != 0 {
			t.Errorf("%d jobs in flight, want none", h.dispatcher.InFlight())
		}
	})
}

func TestRefusalsHaveReasons(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		wantCode(t, h.dispatchRefused(), wire.NoCapableNode)
		h.addNode("node-a", 1)
		e := h.dispatchRefused(func(s *core.Spec) { s.Direction.Tgt = "de" })
		if e.Code != wire.NoCapableNode || e.Detail != "No node supports semantic(en) + nmt(en->de)." {
			t.Errorf("refusal %+v", e)
		}
		e = h.dispatchRefused(func(s *core.Spec) { s.Options.RequiredModels = []string{"m"} })
		if e.Code != wire.NoCapableNode || e.Reasons["MODEL_MISSING"] != 1 {
			t.Errorf("refusal %+v", e)
		}
		h.dispatch()
		e = h.dispatchRefused(withRequestID("req-2"))
		if e.Code != wire.AllCandidatesFullOrFailed || e.Reasons["FULL"] != 1 || e.RetryAfter == 0 {
			t.Errorf("refusal %+v", e)
		}
		if _, err := h.dispatcher.Job(h.t.Context(), core.JobIDFor("", "req-2")); err == nil {
			t.Error("a refused job has a record")
		}
	})
}

func TestSameRequestGivesSameJob(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		for i := range 8 {
			h.addNode(fmt.Sprint("node-", i), 8)
		}
		const callers = 64
		got := make([]dispatch.Placement, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				p, err := h.dispatcher.Dispatch(h.t.Context(), dispatch.Request{Spec: spec()})
				if err != nil {
					t.Errorf("dispatch: %v", err)
				}
				got[i] = p
			})
		}
		wg.Wait()
		if n := len(slices.Compact(got)); n != 1 {
			t.Errorf("%d different placements", n)
		}
		if n := len(h.transport.deliveries()); n != 1 {
			t.Errorf("%d deliveries, want 1", n)
		}
		first := got[0]
		if again := h.dispatch(); again != first {
			t.Errorf("repeat while in flight: %+v, want %+v", again, first)
		}
		wantCode(t, h.dispatchRefused(func(s *core.Spec) { s.AudioRef = "blob://b" }), wire.RequestMismatch)
		if err := h.done(first); err != nil {
			t.Fatal(err)
		}
		if again := h.dispatch(); again != first {
			t.Errorf("repeat after the end: %+v, want %+v", again, first)
		}
		wantCode(t, h.dispatchRefused(func(s *core.Spec) { s.Direction = core.Direction{Src: "zh", Tgt: "en"} }), wire.RequestMismatch)
		if again := h.dispatch(func(s *core.Spec) { s.AudioRef = "blob://a?sig=another" }); again != first {
			t.Errorf("repeat with another signature: %+v, want %+v", again, first)
		}
		if n := len(h.transport.deliveries()); n != 1 {
			t.Errorf("%d deliveries, want 1", n)
		}
		for i := range 8 {
			h.wantFree(fmt.Sprint("node-", i))
		}
		time.Sleep(timing.Retention)
		h.advance(0)
		for i := range 8 {
			h.heartbeat(fmt.Sprint("node-", i), []store.ActiveJob{})
		}
		if other := h.dispatch(func(s *core.Spec) { s.AudioRef = "blob://b" }); other.Job != first.Job {
			t.Errorf("the request id is not free after the retention time: %+v", other)
		}
	})
}

func TestExistingRecordAnswersInsteadOfRefusal(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		first := h.dispatch()
		other := dispatch.New(dispatch.Config{Instance: "i-other", DecideWithin: time.Second, ACKTimeout: time.Second,
			AttemptTimeout: timing.Attempt, JobTimeout: timing.Job},
			h.store, h.fleet, h.picker, h.transport, nil, h.metrics, h.log)
		defer other.Close()
		// The other instance finds no free slot, but the job exists.
		p, err := other.Dispatch(h.t.Context(), dispatch.Request{Spec: spec()})
		if err != nil || p != first {
			t.Errorf("the same request at another instance: %+v, %v; want %+v", p, err, first)
		}
		// If it finds a free slot, it releases it.
		h.addNode("node-b", 1)
		p, err = other.Dispatch(h.t.Context(), dispatch.Request{Spec: spec()})
		if err != nil || p != first {
			t.Errorf("the same request at another instance: %+v, %v; want %+v", p, err, first)
		}
		h.wantFree("node-b")
	})
}

func TestDrainWaitsForInFlightJobs(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 2)
		p := h.dispatch()
		drained := make(chan int)
		go func() { drained <- h.dispatcher.Drain(h.t.Context()) }()
		synctest.Wait()
		wantCode(t, h.dispatchRefused(withRequestID("req-2")), wire.AllCandidatesFullOrFailed)
		if again := h.dispatch(); again != p {
			t.Errorf("repeat while draining: %+v, want %+v", again, p)
		}
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		if left := <-drained; left != 0 {
			t.Errorf("%d jobs left", left)
		}
	})
}

// TestStoreFailureDuringDispatchIsARefusal fails each step of a dispatch, before the step or
// after it was made, and expects a refusal and, once the store is back, no effect.
func TestStoreFailureDuringDispatchIsARefusal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, operation string
		down            bool
	}{
		{"reserve fails", "reserve", true},
		{"the reply to reserve is lost", "reserve", false},
		{"create fails", "create", true},
		{"the reply to create is lost", "create", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("node-a", 1)
				h.store.failNext(c.down, c.operation, 1)
				wantCode(t, h.dispatchRefused(), wire.SchedulerDependencyDown)
				h.advance(time.Second, "node-a")
				h.wantFree("node-a")
				if n := len(h.transport.deliveries()); n != 0 {
					t.Errorf("%d deliveries of a refused job", n)
				}
				p := h.dispatch() // the same request, now that the store is back
				if err := h.ack(p); err != nil {
					t.Fatal(err)
				}
				if err := h.done(p); err != nil {
					t.Fatal(err)
				}
				h.wantState(p.Job, core.StateDone, "")
			})
		})
	}
}

func TestNoRefusalWhileTheRecordCannotBeRead(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.store.failNext(true, "get", 1)
		wantCode(t, h.dispatchRefused(), wire.SchedulerDependencyDown)
		wantCode(t, h.dispatchRefused(), wire.NoCapableNode)
	})
}

func TestReleaseIsRetried(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{true, false} {
		runTest(t, func(h *harness) {
			h.addNode("node-a", 1)
			p := h.dispatch()
			h.store.failNext(down, "release", 3)
			if err := h.done(p); err != nil {
				t.Fatalf("a failed release failed the report: %v", err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			h.wantFree("node-a")
		})
	}
}

// TestCallerDoesNotWaitForRetry: the job is accepted by then, and continues without the caller.
func TestCallerDoesNotWaitForRetry(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.transport.failWith("node-a", errLost)
		began := time.Now()
		p := h.dispatch()
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the caller waited for %v", took)
		}
		h.wantState(p.Job, core.StateRetrying, core.ReasonDeliveryUnknown)
		if again := h.dispatch(); again != p {
			t.Errorf("repeat: %+v, want %+v", again, p)
		}

		h.addNode("node-b", 1)
		h.advance(2*time.Second, "node-a", "node-b")
		second := h.placementOf(p.Job)
		if second.Node != "node-b" || second.Attempt != 2 {
			t.Fatalf("placed at %+v, want the second attempt on node-b", second)
		}
		if err := h.done(second); err != nil {
			t.Fatal(err)
		}
		h.wantState(p.Job, core.StateDone, "")
	})
}

// TestDrainHandsOffRetries: another instance takes the retry over.
func TestDrainHandsOffRetries(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		if err := h.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if left := h.dispatcher.Drain(ctx); left != 0 || time.Since(began) > 2*time.Second {
			t.Errorf("%d jobs left after %v", left, time.Since(began))
		}
		h.wantState(p.Job, core.StateRetrying, core.ReasonNodeFailed)
		take := store.ApplyParams{Job: p.Job, Event: core.EventTakeover, AnyHolder: true, Owner: "i-other.1", RetryFor: time.Second}
		if a, err := h.mem.Apply(h.t.Context(), take); err != nil || a.Outcome != store.Decided {
			t.Errorf("another instance cannot take it over: %s, %v", a.Outcome, err)
		}
	})
}

// While an instance leaves, it refuses new requests and still dispatches utterances of its sessions.
func TestLeavingDispatcherServesItsSessions(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 4)
		h.dispatcher.Leave()
		if e := h.dispatchRefused(); e.Code != wire.AllCandidatesFullOrFailed {
			t.Errorf("%v", e)
		}
		p := h.dispatch(withRequestID("u-1"), func(s *core.Spec) { s.Utterance.Turn = 1 })
		if diff := cmp.Diff(core.NodeID("node-a"), p.Node); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
