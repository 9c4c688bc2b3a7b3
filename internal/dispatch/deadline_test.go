package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
)

// patient asks, as a session does, for a job that is seen through once it was accepted. It does not wait for it.
func (w *world) patient(change ...func(*core.Spec)) core.JobID {
	w.t.Helper()
	s := spec(change...)
	go func() { _, _ = w.d.Dispatch(w.t.Context(), dispatch.Request{Spec: s, UntilPlaced: true}) }()
	synctest.Wait()
	return s.Job()
}

// TestPreferredNodeYieldsOnceAccepted: a preference that cannot be met any more does not keep an accepted job from others.
func TestPreferredNodeYieldsOnceAccepted(t *testing.T) {
	t.Parallel()
	for name, withdraw := range map[string]func(w *world){
		"withdrew the language": func(w *world) {
			_, err := w.life.Heartbeat(t.Context(), nodes.Heartbeat{Node: "a", Patch: nodes.Patch{Semantic: core.LangSet{"fr", "de"}}})
			if err != nil {
				t.Error(err)
			}
		},
		"is not registered any more": func(w *world) { w.remove("a") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.node("a", 1)
				w.sent.fails("a", dispatch.ErrBusy)
				job := w.patient(func(s *core.Spec) { s.Options.PreferredNode = "a" })
				time.Sleep(100 * time.Millisecond)
				w.wantState(job, core.StateRetrying, core.ReasonNodeBusy)
				withdraw(w)
				time.Sleep(2 * time.Second) // until the busy node would be asked again
				w.node("b", 1)
				time.Sleep(time.Second)
				synctest.Wait()
				if now := w.placed(job); now.Node != "b" {
					t.Errorf("the job is at %+v, want it on b", now)
				}
			})
		})
	}
}

// TestDeadlineAfterTakeover: a job ends within its own time, counted from its creation, whoever sees it through.
func TestDeadlineAfterTakeover(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		gone := w.other()
		p, err := gone.Dispatch(t.Context(), dispatch.Request{Spec: spec()})
		if err != nil {
			t.Fatal(err)
		}
		if err := gone.Ack(t.Context(), report(p)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w.pass(12*time.Second, "node-a") // within its first attempt
		gone.Close()
		if err := w.d.TakeOverJobs(t.Context(), "i-other"); err != nil {
			t.Fatal(err)
		}
		for !w.job(p.Job).State.Terminal() {
			w.pass(time.Second, "node-a")
			if took := time.Since(began); took > timing.Job+time.Second {
				t.Fatalf("the job has not ended after %s; it has %s: %+v", took, timing.Job, w.job(p.Job))
			}
		}
		w.wantState(p.Job, core.StateFailed, core.ReasonDeadline)
	})
}
