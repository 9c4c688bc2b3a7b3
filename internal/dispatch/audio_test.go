package dispatch_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// spoken makes a job part of a conversation.
func spoken(s *core.Spec) { s.Utterance = core.Utterance{Turn: 1, AudioMS: 600} }

// ledger of outcomes: what was told, and how often telling fails first.
type outcomes struct {
	mu    sync.Mutex
	fails int
	told  []string
}

func (o *outcomes) AudioWanted(context.Context, *core.Job) {}

func (o *outcomes) NotifyEnded(context.Context, core.InstanceID, core.JobID) {}

func (o *outcomes) JobEnded(_ context.Context, job *core.Job) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fails > 0 {
		o.fails--
		return store.ErrDown
	}
	o.told = append(o.told, job.State.String()+" "+string(job.Reason))
	return nil
}

// want compares what was told. An outcome may be told twice: whoever finds the slot of an ended job tells it again.
func (o *outcomes) want(t *testing.T, want ...string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if diff := cmp.Diff(want, slices.Compact(slices.Clone(o.told))); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func playSpoken(t *testing.T, fn func(w *world, o *outcomes)) {
	t.Helper()
	t.Parallel()
	playWith(t, func(c *dispatch.Config) { c.AudioGrace = time.Minute }, func(w *world) {
		fn(w, &w.outcomes)
	})
}

// TestAnOutcomeIsToldBeforeTheSlotIsFree, and again when it could not be.
func TestAnOutcomeIsToldBeforeTheSlotIsFree(t *testing.T) {
	playSpoken(t, func(w *world, o *outcomes) {
		w.node("node-a", 1)
		p := w.dispatch(spoken)
		o.fails = 2
		for range 2 {
			if err := w.done(p); err == nil {
				t.Fatal("a result was accepted that nobody could be told")
			}
			if n := w.inFlight("node-a"); n != 1 {
				t.Fatal("the slot is free although nobody was told")
			}
		}
		if err := w.done(p); err != nil {
			t.Fatal(err)
		}
		o.want(t, "DONE ")
		w.wantFree("node-a")
	})
}

func TestOutcomesOfJobsThatFail(t *testing.T) {
	playSpoken(t, func(w *world, o *outcomes) {
		w.node("node-a", 1)
		p := w.dispatch(spoken)
		o.fails = 3
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		w.pass(40*time.Second, "node-a") // it never brings a result, and there is no other node
		o.want(t, "FAILED DEADLINE_EXCEEDED")
		w.sent.drop(p)
		w.pass(2*time.Second, "node-a")

		p = w.dispatch(spoken, request("req-2"))
		if _, _, err := w.d.Cancel(t.Context(), p.Job); err != nil {
			t.Fatal(err)
		}
		o.want(t, "FAILED DEADLINE_EXCEEDED", "CANCELLED CANCELLED")

		w.sent.drop(p)
		w.pass(10*time.Second, "node-a")
		w.dispatch(request("req-3")) // no part of a conversation
		w.pass(40*time.Second, "node-a")
		o.want(t, "FAILED DEADLINE_EXCEEDED", "CANCELLED CANCELLED")
	})
}

// TestSomebodyElseTells: the instance that decided died before it could.
func TestSomebodyElseTells(t *testing.T) {
	playSpoken(t, func(w *world, o *outcomes) {
		w.node("node-a", 1)
		p := w.dispatch(spoken)
		if _, err := w.mem.Apply(t.Context(), store.ApplyParams{
			Job: p.Job, Event: core.EventFail, AnyHolder: true, Reason: core.ReasonMaxRetry,
		}); err != nil {
			t.Fatal(err)
		}
		w.sent.drop(p)
		w.pass(15*time.Second, "node-a")
		o.want(t, "FAILED MAX_RETRY_EXCEEDED")
		w.wantFree("node-a")
	})
}

// TestLostSound: a job whose sound is gone waits for it, is taken on when it is back, and fails when it is not.
func TestLostSound(t *testing.T) {
	playSpoken(t, func(w *world, o *outcomes) {
		w.node("node-a", 1)
		w.node("node-b", 1)
		for _, id := range []string{"node-a", "node-b"} {
			w.sent.fails(id, dispatch.ErrNoAudio)
		}
		p, err := w.d.Dispatch(t.Context(), dispatch.Request{Spec: spec(spoken)})
		if err != nil {
			t.Fatal(err)
		}
		waits := func(id core.JobID) {
			t.Helper()
			if j := w.job(id); j.State != core.StateRetrying || j.Reason != core.ReasonAudioLost {
				t.Fatalf("%s %s, want it to wait for its sound", j.State, j.Reason)
			}
		}
		waits(p.Job)
		w.wantFree("node-a", "node-b")
		w.pass(45*time.Second, "node-a", "node-b") // longer than a job may take
		waits(p.Job)
		o.want(t)

		for _, id := range []string{"node-a", "node-b"} {
			w.sent.fails(id, nil)
		}
		known, err := w.d.ResumeWithAudio(t.Context(), p.Job)
		if err != nil || !known {
			t.Fatal(known, err)
		}
		synctest.Wait()
		now := w.placed(p.Job)
		if err := w.ack(now); err != nil {
			t.Fatal(err)
		}
		if err := w.done(now); err != nil {
			t.Fatal(err)
		}
		o.want(t, "DONE ")
		w.wantFree("node-a", "node-b")

		for _, id := range []string{"node-a", "node-b"} {
			w.sent.fails(id, dispatch.ErrNoAudio)
		}
		p, err = w.d.Dispatch(t.Context(), dispatch.Request{Spec: spec(spoken, request("req-2"))})
		if err != nil {
			t.Fatal(err)
		}
		w.pass(70*time.Second, "node-a", "node-b")
		w.wantState(p.Job, core.StateFailed, core.ReasonAudioLost)
		o.want(t, "DONE ", "FAILED AUDIO_LOST")
		w.wantFree("node-a", "node-b")
		if known, err := w.d.ResumeWithAudio(t.Context(), p.Job); !known || err != nil {
			t.Error(known, err)
		}
		if known, err := w.d.ResumeWithAudio(t.Context(), "job-none"); known || err != nil {
			t.Error(known, err)
		}
		if w.d.InFlight() != 0 {
			t.Errorf("%d flights left", w.d.InFlight())
		}
	})
}

// TestLostSoundInAFleetOfOne: the only node never had the job, so it is as good as any other when the sound is back.
func TestLostSoundInAFleetOfOne(t *testing.T) {
	playSpoken(t, func(w *world, _ *outcomes) {
		w.node("node-a", 1)
		w.sent.fails("node-a", dispatch.ErrNoAudio)
		p, err := w.d.Dispatch(t.Context(), dispatch.Request{Spec: spec(spoken)})
		if err != nil {
			t.Fatal(err)
		}
		w.sent.fails("node-a", nil)
		if known, err := w.d.ResumeWithAudio(t.Context(), p.Job); err != nil || !known {
			t.Fatal(known, err)
		}
		synctest.Wait()
		w.pass(time.Second, "node-a")
		if j := w.job(p.Job); j.State != core.StateDispatched {
			t.Errorf("%s %s, a second after its sound was back, with the only node free", j.State, j.Reason)
		}
	})
}

// TestTheOnlyNode is asked again when it certainly does not have the job: there is nobody else.
func TestTheOnlyNode(t *testing.T) {
	for name, c := range map[string]struct {
		reason core.Reason
		again  bool
	}{
		"was busy":          {core.ReasonNodeBusy, true},
		"gave the job up":   {core.ReasonNodeFailed, true},
		"lacks the service": {core.ReasonModelNotAvailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			playSpoken(t, func(w *world, _ *outcomes) {
				w.node("node-a", 1)
				p, err := w.d.Dispatch(t.Context(), dispatch.Request{Spec: spec(spoken), UntilPlaced: true})
				if err != nil {
					t.Fatal(err)
				}
				first := w.job(p.Job)
				if err := w.d.Fail(t.Context(), dispatch.Report{Job: p.Job, Holder: first.Holder}, c.reason, ""); err != nil {
					t.Fatal(err)
				}
				w.sent.drop(p)
				w.pass(2*time.Second, "node-a")
				j := w.job(p.Job)
				if again := j.State == core.StateDispatched && j.Token != first.Token; again != c.again {
					t.Errorf("%s, attempt %d: asked again %v, want %v", j.State, j.Attempt, again, c.again)
				}
			})
		})
	}
}
