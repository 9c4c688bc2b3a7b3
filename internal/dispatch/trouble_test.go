package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// reasons lists how a job's attempts ended.
func reasons(j *core.Job) []core.Reason {
	var list []core.Reason
	for _, a := range j.History {
		list = append(list, a.Reason)
	}
	return list
}

func TestNoACKInTime(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.node("node-b", 1)
		first := w.dispatch()
		w.pass(3*time.Second, "node-a", "node-b")

		second := w.placed(first.Job)
		if second.Node == first.Node || second.Attempt != 2 {
			t.Fatalf("after an ACK timeout: %+v, was %+v", second, first)
		}
		// The first node may have the job: its slot stays taken until it says otherwise, and it is told.
		if n := w.inFlight(string(first.Node)); n != 1 {
			t.Errorf("%d slots of the old node are taken, want 1", n)
		}
		if diff := cmp.Diff([]store.ActiveJob{{Job: first.Job, Attempt: 1}}, w.beat(string(first.Node), w.sent.holding(string(first.Node)))); diff != "" {
			t.Errorf("cancels (-want +got):\n%s", diff)
		}
		wantCode(t, w.ack(first), wire.StaleAttempt)
		if err := w.ack(second); err != nil {
			t.Fatal(err)
		}
		wantCode(t, w.done(first), wire.StaleAttempt)
		w.wantFree(string(first.Node)) // it said that it is through with it
		w.wantState(first.Job, core.StateAcked, core.ReasonACKTimeout)
		if err := w.done(second); err != nil {
			t.Fatal(err)
		}
		w.wantState(first.Job, core.StateDone, "")
		w.wantFree("node-a", "node-b")
		if diff := cmp.Diff([]core.Reason{core.ReasonACKTimeout, ""}, reasons(w.job(first.Job))); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	})
}

func TestANodeThatDoesNotACKIsSetAside(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 10)
		w.node("node-b", 10)
		p := w.dispatch(func(s *core.Spec) { s.Options.PreferredNode = "node-a" })
		w.pass(3*time.Second, "node-a", "node-b")
		if now := w.placed(p.Job); now.Node != "node-b" {
			t.Fatalf("moved to %s", now.Node)
		}
		for i := range 9 {
			if p := w.dispatch(request(string(rune('a' + i)))); p.Node != "node-b" {
				t.Errorf("a node that was set aside got a job")
			}
		}
		// Node-b is full now: being set aside is a preference, and yields.
		if p := w.dispatch(request("last")); p.Node != "node-a" {
			t.Errorf("placed on %s, want node-a", p.Node)
		}
	})
}

func TestAFailureIsRetriedElsewhereUntilTriesRunOut(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		for _, id := range []string{"node-a", "node-b", "node-c", "node-d"} {
			w.node(id, 1)
		}
		p := w.dispatch()
		seen := map[core.NodeID]bool{}
		for attempt := 1; attempt <= 3; attempt++ {
			p = w.placed(p.Job)
			if p.Attempt != attempt || seen[p.Node] {
				t.Fatalf("attempt %d on %s, seen %v", p.Attempt, p.Node, seen)
			}
			seen[p.Node] = true
			if err := w.ack(p); err != nil {
				t.Fatal(err)
			}
			if err := w.fail(p, core.ReasonNodeFailed); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if attempt < 3 {
				wantCode(t, w.fail(p, core.ReasonNodeFailed), wire.StaleAttempt)
			}
		}
		w.wantState(p.Job, core.StateFailed, core.ReasonMaxRetry)
		w.wantFree("node-a", "node-b", "node-c", "node-d")
		if again := w.dispatch(); again.Job != p.Job {
			t.Errorf("a repeat of a failed job: %+v", again)
		}
	})
}

func TestABusyNodeCostsNoAttempt(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		for _, id := range []string{"node-a", "node-b", "node-c"} {
			w.node(id, 1)
			w.sent.fails(id, dispatch.ErrBusy)
		}
		e := w.refused()
		if e.Code != wire.AllCandidatesFullOrFailed || e.RetryAfter == 0 {
			t.Errorf("all busy: %+v", e)
		}
		w.wantFree("node-a", "node-b", "node-c")
		w.sent.fails("node-b", nil)
		p := w.dispatch() // a refusal is not remembered
		if p.Node != "node-b" || p.Attempt != 1 {
			t.Errorf("placed %+v, want node-b in its first attempt", p)
		}
		w.wantFree("node-a", "node-c")
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
	})
}

func TestABusyNodeMaySayItLater(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.node("node-b", 1)
		p := w.dispatch()
		if err := w.fail(p, core.ReasonNodeBusy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		now := w.placed(p.Job)
		if now.Node == p.Node || now.Attempt != 1 {
			t.Errorf("after NODE_BUSY: %+v, want the first attempt on another node", now)
		}
		wantCode(t, w.done(p), wire.NotHolder)
		w.wantFree(string(p.Node))
	})
}

func TestADeliveryThatMayHaveArrivedIsAnACKTimeout(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"broken": errLost, "hanging": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.node("node-a", 1)
				w.node("node-b", 1)
				w.sent.fails("node-a", err)
				p := w.dispatch(func(s *core.Spec) { s.Options.PreferredNode = "node-a" })
				if p.Node != "node-b" || p.Attempt != 2 {
					t.Errorf("placed %+v, want node-b in the second attempt", p)
				}
				if n := w.inFlight("node-a"); n != 1 {
					t.Errorf("%d slots of node-a are taken, want 1: it may have the job", n)
				}
			})
		})
	}
}

func TestNoNodeEverConfirms(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		for _, id := range []string{"node-a", "node-b", "node-c"} {
			w.node(id, 1)
			w.sent.fails(id, errLost)
		}
		// Any of them may have had it: the job was placed, and its record says how it ended.
		p := w.dispatch()
		w.wantState(p.Job, core.StateFailed, core.ReasonMaxRetry)
		if again := w.dispatch(); again != p {
			t.Errorf("the repeat: %+v, want %+v", again, p)
		}
	})
}

func TestAnAttemptThatTakesTooLong(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.node("node-b", 1)
		first := w.dispatch()
		if err := w.ack(first); err != nil {
			t.Fatal(err)
		}
		w.pass(16*time.Second, "node-a", "node-b")
		second := w.placed(first.Job)
		if second.Attempt != 2 || second.Node == first.Node {
			t.Fatalf("after the attempt's time: %+v", second)
		}
		if err := w.ack(second); err != nil {
			t.Fatal(err)
		}
		w.pass(15*time.Second, "node-a", "node-b")
		w.wantState(first.Job, core.StateFailed, core.ReasonDeadline)
		wantCode(t, w.done(second), wire.StaleAttempt)
		wantCode(t, w.done(first), wire.StaleAttempt)
		w.wantFree("node-a", "node-b")
		if w.d.InFlight() != 0 {
			t.Errorf("%d flights left", w.d.InFlight())
		}
	})
}

func TestARetryWaitsForASlot(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.node("node-b", 1)
		p := w.dispatch(func(s *core.Spec) { s.Options.PreferredNode = "node-a" })
		other := w.dispatch(request("other"))
		if err := w.ack(other); err != nil {
			t.Fatal(err)
		}
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		if err := w.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		w.pass(8*time.Second, "node-a", "node-b")
		w.wantState(p.Job, core.StateRetrying, core.ReasonNodeFailed)
		w.wantFree("node-a") // the failed attempt holds no slot while the job waits
		if err := w.done(other); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second, "node-a", "node-b")
		if now := w.placed(p.Job); now.Node != "node-b" || now.Attempt != 2 {
			t.Errorf("after a slot came free: %+v", now)
		}
	})
}

func TestALateResultIsTakenWhileNobodyElseHasTheJob(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		w.pass(5*time.Second, "node-a")
		w.wantState(p.Job, core.StateRetrying, core.ReasonACKTimeout)
		if err := w.done(p); err != nil {
			t.Fatalf("a late result: %v", err)
		}
		w.wantState(p.Job, core.StateDone, "")
		w.pass(2*time.Second, "node-a")
		w.wantFree("node-a")
	})
}

func TestNobodyElseCanEver(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		w.pass(31*time.Second, "node-a")
		w.wantState(p.Job, core.StateFailed, core.ReasonDeadline)
		w.sent.drop(p)
		w.pass(2*time.Second, "node-a")
		w.wantFree("node-a")
	})
}

func TestStrictMeansThatNodeOrNobody(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.node("node-b", 1)
		strict := func(s *core.Spec) { s.Options.PreferredNode, s.Options.Strict = "node-a", true }
		p := w.dispatch(strict)
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		if err := w.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantState(p.Job, core.StateFailed, core.ReasonNodeFailed)
		w.sent.fails("node-a", dispatch.ErrBusy)
		wantCode(t, w.refused(strict, request("req-2")), wire.AllCandidatesFullOrFailed)
		w.wantFree("node-a", "node-b")
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 2)
		p := w.dispatch()
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			job, cancelled, err := w.d.Cancel(w.t.Context(), p.Job)
			if err != nil || !cancelled || job.State != core.StateCancelled {
				t.Fatalf("cancel: %v %v %v", job.State, cancelled, err)
			}
		}
		if n := w.inFlight("node-a"); n != 1 {
			t.Errorf("%d slots taken, want 1: the node is still at it", n)
		}
		if diff := cmp.Diff([]store.ActiveJob{{Job: p.Job, Attempt: 1}}, w.beat("node-a", w.sent.holding("node-a"))); diff != "" {
			t.Errorf("cancels (-want +got):\n%s", diff)
		}
		w.sent.drop(p)
		w.beat("node-a", w.sent.holding("node-a"))
		w.wantFree("node-a")
		wantCode(t, w.done(p), wire.StaleAttempt)
		w.wantState(p.Job, core.StateCancelled, core.ReasonCancelled)

		q := w.dispatch(request("req-2"))
		if err := w.done(q); err != nil {
			t.Fatal(err)
		}
		if job, cancelled, err := w.d.Cancel(w.t.Context(), q.Job); err != nil || cancelled || job.State != core.StateDone {
			t.Errorf("cancel of a done job: %v %v %v", job.State, cancelled, err)
		}
		_, _, err := w.d.Cancel(w.t.Context(), "job-unknown")
		wantCode(t, err, wire.NotFound)
	})
}

func TestCancelOfARetry(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		if err := w.fail(p, core.ReasonModelNotAvailable); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second, "node-a")
		w.wantState(p.Job, core.StateRetrying, core.ReasonModelNotAvailable)
		if _, cancelled, err := w.d.Cancel(w.t.Context(), p.Job); err != nil || !cancelled {
			t.Fatalf("cancel: %v %v", cancelled, err)
		}
		w.node("node-b", 1)
		w.pass(3*time.Second, "node-a", "node-b")
		w.wantState(p.Job, core.StateCancelled, core.ReasonCancelled)
		w.wantFree("node-a", "node-b")
		if w.d.InFlight() != 0 {
			t.Errorf("%d flights left", w.d.InFlight())
		}
	})
}

func TestFencing(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch()
		foreign, future, old := p, p, report(p)
		foreign.Node, future.Attempt = "node-z", 9
		old.Epoch = 1
		unknown := p
		unknown.Job = "job-unknown"
		for _, say := range []func(dispatch.Report) error{
			func(r dispatch.Report) error { return w.d.Ack(w.t.Context(), r) },
			func(r dispatch.Report) error { return w.d.Done(w.t.Context(), r, nil) },
			func(r dispatch.Report) error { return w.d.Fail(w.t.Context(), r, core.ReasonNodeFailed, "") },
		} {
			wantCode(t, say(report(foreign)), wire.NotHolder)
			wantCode(t, say(report(future)), wire.StaleAttempt)
			wantCode(t, say(old), wire.StaleEpoch)
			wantCode(t, say(report(unknown)), wire.NotFound)
		}
		w.wantState(p.Job, core.StateDispatched, "")
		if n := w.inFlight("node-a"); n != 1 {
			t.Errorf("%d slots taken after forged messages, want 1", n)
		}
		if err := w.ack(p); err != nil {
			t.Errorf("the holder's own ACK: %v", err)
		}
	})
}
