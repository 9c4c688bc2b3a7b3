package dispatch_test

import (
	"context"
	"fmt"
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

// Each of these was once a way to break a promise.

func TestALostNodeThatReturnsWithItsJobKeepsTheSlot(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		time.Sleep(5 * time.Second)
		p := w.dispatch()
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11500 * time.Millisecond) // cut off; its jobs are to be moved, and there is nobody else
		synctest.Wait()
		w.wantState(p.Job, core.StateRetrying, core.ReasonNodeLost)
		w.beat("node-a", w.sent.holding("node-a")) // back, and still at it
		w.node("node-b", 1)
		time.Sleep(time.Second)
		synctest.Wait()
		if now := w.placed(p.Job); now.Node != "node-b" {
			t.Fatalf("the job is at %+v", now)
		}
		if n := w.inFlight("node-a"); n != 1 {
			t.Errorf("%d slots taken on a node that lists a job, want 1", n)
		}
		wantCode(t, w.refused(request("req-2")), wire.AllCandidatesFullOrFailed)
	})
}

// meddler lets something happen at a certain moment of a dispatch.
type meddler struct {
	store.Store
	beforeCreate, afterCreate, afterMove func()
}

func (m *meddler) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	once(&m.beforeCreate)
	job, created, err := m.Store.Create(ctx, p)
	once(&m.afterCreate)
	return job, created, err
}

func (m *meddler) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	a, err := m.Store.Apply(ctx, p)
	if p.Event == core.EventMove {
		once(&m.afterMove)
	}
	return a, err
}

func once(f *func()) {
	if do := *f; do != nil {
		*f = nil
		do()
	}
}

func TestARegistrationWhileAJobIsOnItsWayFreesNothing(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"before the record", "after the record", "during the delivery"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.node("node-a", 1)
				m := &meddler{Store: w.mem}
				again := func() {
					if err := w.register("node-a", 1, store.Activity{Lists: true}); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
					synctest.Wait()
				}
				switch moment {
				case "before the record":
					m.beforeCreate = again
				case "after the record":
					m.afterCreate = again
				default:
					w.sent.hook = func(*wire.Assignment) { again() }
				}
				w.store.Store = m
				p := w.dispatch()
				w.sent.hook = nil
				w.wantState(p.Job, core.StateDispatched, "")
				if n := w.inFlight("node-a"); n != 1 {
					t.Errorf("%d slots taken, want 1", n)
				}
				wantCode(t, w.refused(request("req-2")), wire.AllCandidatesFullOrFailed)
				if err := w.ack(p); err != nil {
					t.Errorf("the node that has it may confirm it: %v", err)
				}
				if err := w.done(p); err != nil {
					t.Error(err)
				}
				w.wantFree("node-a")
			})
		})
	}
}

func TestABusyNodeDoesNotUndoAnAcceptedJob(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		if err := w.fail(p, core.ReasonNodeBusy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantState(p.Job, core.StateRetrying, core.ReasonNodeBusy)
		if again := w.dispatch(); again != p {
			t.Errorf("the same request: %+v, want %+v", again, p)
		}
		w.pass(31*time.Second, "node-a")
		w.wantState(p.Job, core.StateFailed, core.ReasonDeadline)
	})
}

func TestClearingUpLeavesTheRepeatAlone(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 2)
		w.store.breakNext(true, "create", 1)
		w.store.breakNext(true, "apply", 2)
		wantCode(t, w.refused(), wire.SchedulerDependencyDown)
		// While the first is still being cleared up its record may or may not stand: nobody is told either.
		wantCode(t, w.refused(), wire.SchedulerDependencyDown)
		time.Sleep(time.Second)
		p := w.dispatch()
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantState(p.Job, core.StateAcked, "")
		if n := w.inFlight("node-a"); n != 1 {
			t.Errorf("%d slots taken, want 1", n)
		}
		if err := w.done(p); err != nil {
			t.Error(err)
		}
	})
}

func TestARepeatOfAPlacedJobIsToldWhereItWas(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		for _, id := range []string{"node-a", "node-b", "node-c"} {
			w.node(id, 1)
		}
		p := w.dispatch()
		w.pass(10*time.Second, "node-a", "node-b", "node-c")
		w.wantState(p.Job, core.StateFailed, core.ReasonMaxRetry)
		if again := w.dispatch(); again.Job != p.Job {
			t.Errorf("the same request: %+v, want job %s", again, p.Job)
		}
	})
}

// hanging is a store that does not answer until its caller gives up.
type hanging struct {
	store.Store
	on atomic.Bool
}

func (h *hanging) wait(ctx context.Context) error {
	if h.on.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (h *hanging) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	if err := h.wait(ctx); err != nil {
		return store.Reservation{}, err
	}
	return h.Store.Reserve(ctx, p)
}

func (h *hanging) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	return h.Store.Get(ctx, id)
}

func (h *hanging) Node(ctx context.Context, id core.NodeID) (store.NodeStatus, error) {
	if err := h.wait(ctx); err != nil {
		return store.NodeStatus{}, err
	}
	return h.Store.Node(ctx, id)
}

func (h *hanging) Release(ctx context.Context, p store.ReleaseParams) error {
	if h.on.Load() {
		return store.ErrDown
	}
	return h.Store.Release(ctx, p)
}

func TestAStoreThatHangsIsDownWithinItsTime(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		h := &hanging{Store: w.mem}
		h.on.Store(true)
		w.store.Store = h
		for name, change := range map[string]func(*core.Spec){
			"plain":             func(*core.Spec) {},
			"a preferred node":  func(s *core.Spec) { s.Options.PreferredNode = "node-away" },
			"no capable node":   func(s *core.Spec) { s.Direction.Tgt = "de" },
			"the same, at once": func(*core.Spec) {},
		} {
			began := time.Now()
			wantCode(t, w.refused(request("r-"+fmt.Sprint(len(name))), change), wire.SchedulerDependencyDown)
			if took := time.Since(began); took > 500*time.Millisecond {
				t.Errorf("%s: refused after %v", name, took)
			}
		}
		h.on.Store(false)
		w.pass(16*time.Second, "node-a")
		w.dispatch()
	})
}

func TestARestartDuringARetryDoesNotStopIt(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		w.pass(3*time.Second, "node-a")
		w.wantState(p.Job, core.StateRetrying, core.ReasonACKTimeout)
		if err := w.register("node-a", 1, store.Activity{Lists: true, Active: w.sent.holding("node-a")}); err != nil {
			t.Fatal(err)
		}
		w.node("node-b", 1)
		w.pass(2*time.Second, "node-a", "node-b")
		if now := w.placed(p.Job); now.Node != "node-b" || now.Attempt != 2 {
			t.Errorf("with a free node at hand the job is at %+v", now)
		}
	})
}

func TestAnOlderMoveDoesNotHideANewerOne(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		m := &meddler{Store: w.mem}
		w.store.Store = m
		p := w.dispatch()
		m.afterMove = func() { // the job was just given to node-b, which is lost before anybody has noted it
			w.node("node-c", 1)
			leases, err := w.mem.Orphans(w.t.Context(), "node-b")
			if err != nil || len(leases) != 1 {
				t.Errorf("leases of node-b: %v, %v", leases, err)
			}
			leases[0].Young = false
			w.d.MoveOrphans(leases)
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		w.node("node-b", 1)
		w.pass(3*time.Second, "node-a", "node-b")
		w.pass(3*time.Second, "node-a", "node-b", "node-c")
		if now := w.job(p.Job); now.Attempt < 3 {
			t.Fatalf("the job is in attempt %d: the test did not do what it should", now.Attempt)
		}
		// Attempt 3 on node-c was never confirmed either: its own timer must have ended it by now.
		if now := w.job(p.Job); now.Attempt == 3 && now.State == core.StateDispatched {
			t.Errorf("attempt 3 has no timer: %+v", now.History)
		}
	})
}

func TestAPreferredNodeThatBecameIncapableDoesNotBindARetry(t *testing.T) {
	t.Parallel()
	prefer := func(s *core.Spec) { s.Options.PreferredNode = "node-p" }
	play(t, func(w *world) {
		w.node("node-p", 1)
		w.node("node-b", 1)
		w.dispatch(request("fill"), prefer)
		p := w.dispatch(prefer)
		w.node("node-c", 1)
		w.node("node-p", 1, func(patch *nodes.Patch) { patch.Semantic = core.LangSet{"de", "fr"} })
		if err := w.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := w.placed(p.Job); now.Node != "node-c" {
			t.Errorf("the retry is at %+v, want node-c", now)
		}
	})
}

func TestADeliveryThatIsAnsweredLateAfterItsACK(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.node("node-b", 1)
		w.sent.fails("node-a", context.DeadlineExceeded)
		w.sent.fails("node-b", context.DeadlineExceeded)
		go func() {
			time.Sleep(100 * time.Millisecond)
			jobs, err := w.mem.List(w.t.Context(), store.ListParams{})
			if err != nil || len(jobs) != 1 {
				t.Errorf("jobs %v, %v", jobs, err)
				return
			}
			if err := w.d.Ack(w.t.Context(), dispatch.Report{Job: jobs[0].ID, Holder: jobs[0].Holder}); err != nil {
				t.Error(err)
			}
		}()
		p := w.dispatch()
		w.wantState(p.Job, core.StateAcked, "")
		if p.Attempt != 1 {
			t.Errorf("placed %+v: a confirmed attempt was given up", p)
		}
	})
}

func TestANodeThatCountsAnewIsHeardAgain(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		beat := func(seq uint64) {
			if _, err := w.life.Heartbeat(w.t.Context(), nodes.Heartbeat{Node: "node-a", Seq: seq}); err != nil {
				t.Fatal(err)
			}
		}
		beat(500)
		for seq := uint64(1); seq < 25; seq++ { // another process under the same name
			time.Sleep(time.Second)
			beat(seq)
		}
		status, err := w.mem.Node(w.t.Context(), "node-a")
		if err != nil || status.Age > time.Second {
			t.Errorf("age %v, %v after 24 heartbeats in time", status.Age, err)
		}
	})
}

func TestAHeartbeatThatDoesNotMentionHealthLeavesIt(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.deafen()
		w.behind("node-a", func(n *core.Node) { n.Health = core.HealthDraining })
		w.beat("node-a", nil)
		status, err := w.mem.Node(w.t.Context(), "node-a")
		if err != nil || status.Node.Health != core.HealthDraining {
			t.Errorf("health %v, %v, want draining", status.Node.Health, err)
		}
	})
}

func TestExplainFindsAPreferredNodeBeyondItsList(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		for i := range 12 {
			w.node(fmt.Sprintf("node-%02d", i), 1)
		}
		x, err := w.d.Explain(w.t.Context(), spec(func(s *core.Spec) { s.Options.PreferredNode = "node-11" }), 10)
		if err != nil || x.Verdict != "" || !x.Truncated {
			t.Errorf("verdict %q %q truncated %v, %v", x.Verdict, x.Detail, x.Truncated, err)
		}
	})
}

func TestASilentNodeIsAwayNotIncapable(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		time.Sleep(17 * time.Second)
		synctest.Wait()
		if w.fleet.Node("node-a") != nil {
			t.Fatal("a silent node is still in view")
		}
		e := w.refused()
		if e.Code != wire.AllCandidatesFullOrFailed || e.Reasons["HEARTBEAT_STALE"] != 1 {
			t.Errorf("refusal %+v", e)
		}
		x, err := w.d.Explain(w.t.Context(), spec(), 10)
		if err != nil || x.Verdict != wire.AllCandidatesFullOrFailed || len(x.Nodes) != 1 || x.Nodes[0].Reason != core.ReasonStale {
			t.Errorf("explanation %+v, %v", x, err)
		}
		wantCode(t, w.refused(func(s *core.Spec) { s.Direction.Tgt = "de" }), wire.NoCapableNode)
		w.beat("node-a", []store.ActiveJob{})
		w.dispatch()
	})
}
