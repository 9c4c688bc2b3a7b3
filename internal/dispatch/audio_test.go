package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
)

func runSession(t *testing.T, fn func(h *harness, o *fakeOutcomes)) {
	t.Helper()
	t.Parallel()
	runWith(t, func(c *dispatch.Config) { c.AudioGrace = time.Minute }, func(h *harness) {
		fn(h, &h.outcomes)
	})
}

// TestOutcomeIsReportedBeforeTheSlotIsReleased: if the report fails, the result is refused and can be repeated.
func TestOutcomeIsReportedBeforeTheSlotIsReleased(t *testing.T) {
	runSession(t, func(h *harness, o *fakeOutcomes) {
		h.addNode("node-a", 1)
		p := h.dispatch(ofSession)
		o.fails = 2
		for range 2 {
			if err := h.done(p); err == nil {
				t.Fatal("a result was accepted although its outcome could not be reported")
			}
			if n := h.inFlight("node-a"); n != 1 {
				t.Fatal("the slot is free although the outcome was not reported")
			}
		}
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		o.wantReported(t, "DONE ")
		h.wantFree("node-a")
	})
}

func TestOutcomesOfFailedAndCancelledJobsAreReported(t *testing.T) {
	runSession(t, func(h *harness, o *fakeOutcomes) {
		h.addNode("node-a", 1)
		p := h.dispatch(ofSession)
		o.fails = 3
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		h.advance(40*time.Second, "node-a") // no result, and no other node
		o.wantReported(t, "FAILED DEADLINE_EXCEEDED")
		h.transport.drop(p)
		h.advance(2*time.Second, "node-a")

		p = h.dispatch(ofSession, withRequestID("req-2"))
		if _, _, err := h.dispatcher.Cancel(t.Context(), p.Job); err != nil {
			t.Fatal(err)
		}
		o.wantReported(t, "FAILED DEADLINE_EXCEEDED", "CANCELLED CANCELLED")

		h.transport.drop(p)
		h.advance(10*time.Second, "node-a")
		h.dispatch(withRequestID("req-3")) // not of a session
		h.advance(40*time.Second, "node-a")
		o.wantReported(t, "FAILED DEADLINE_EXCEEDED", "CANCELLED CANCELLED")
	})
}

// TestOutcomeIsReportedByAnotherInstance: the instance that decided the outcome died before it could report it.
func TestOutcomeIsReportedByAnotherInstance(t *testing.T) {
	runSession(t, func(h *harness, o *fakeOutcomes) {
		h.addNode("node-a", 1)
		p := h.dispatch(ofSession)
		if _, err := h.mem.Apply(t.Context(), store.ApplyParams{
			Job: p.Job, Event: core.EventFail, AnyHolder: true, Reason: core.ReasonMaxRetry,
		}); err != nil {
			t.Fatal(err)
		}
		h.transport.drop(p)
		h.advance(15*time.Second, "node-a")
		o.wantReported(t, "FAILED MAX_RETRY_EXCEEDED")
		h.wantFree("node-a")
	})
}

// TestJobWaitsForLostAudio: a job whose audio was lost waits for it, is resumed when it is back, and fails if it does not come.
func TestJobWaitsForLostAudio(t *testing.T) {
	runSession(t, func(h *harness, o *fakeOutcomes) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		for _, id := range []string{"node-a", "node-b"} {
			h.transport.failWith(id, dispatch.ErrNoAudio)
		}
		p, err := h.dispatcher.Dispatch(t.Context(), dispatch.Request{Spec: spec(ofSession)})
		if err != nil {
			t.Fatal(err)
		}
		waits := func(id core.JobID) {
			t.Helper()
			if j := h.job(id); j.State != core.StateRetrying || j.Reason != core.ReasonAudioLost {
				t.Fatalf("%s %s, want it to wait for its audio", j.State, j.Reason)
			}
		}
		waits(p.Job)
		h.wantFree("node-a", "node-b")
		h.advance(45*time.Second, "node-a", "node-b") // longer than the job timeout
		waits(p.Job)
		o.wantReported(t)

		for _, id := range []string{"node-a", "node-b"} {
			h.transport.failWith(id, nil)
		}
		known, err := h.dispatcher.ResumeWithAudio(t.Context(), p.Job)
		if err != nil || !known {
			t.Fatal(known, err)
		}
		synctest.Wait()
		now := h.placementOf(p.Job)
		if err := h.ack(now); err != nil {
			t.Fatal(err)
		}
		if err := h.done(now); err != nil {
			t.Fatal(err)
		}
		o.wantReported(t, "DONE ")
		h.wantFree("node-a", "node-b")

		for _, id := range []string{"node-a", "node-b"} {
			h.transport.failWith(id, dispatch.ErrNoAudio)
		}
		p, err = h.dispatcher.Dispatch(t.Context(), dispatch.Request{Spec: spec(ofSession, withRequestID("req-2"))})
		if err != nil {
			t.Fatal(err)
		}
		h.advance(70*time.Second, "node-a", "node-b")
		h.wantState(p.Job, core.StateFailed, core.ReasonAudioLost)
		o.wantReported(t, "DONE ", "FAILED AUDIO_LOST")
		h.wantFree("node-a", "node-b")
		if known, err := h.dispatcher.ResumeWithAudio(t.Context(), p.Job); !known || err != nil {
			t.Error(known, err)
		}
		if known, err := h.dispatcher.ResumeWithAudio(t.Context(), "job-none"); known || err != nil {
			t.Error(known, err)
		}
		if h.dispatcher.InFlight() != 0 {
			t.Errorf("%d jobs in flight, want none", h.dispatcher.InFlight())
		}
	})
}

// TestResumeWithAudioOnTheOnlyNode: the only node never received the job, so it is eligible when the audio is back.
func TestResumeWithAudioOnTheOnlyNode(t *testing.T) {
	runSession(t, func(h *harness, _ *fakeOutcomes) {
		h.addNode("node-a", 1)
		h.transport.failWith("node-a", dispatch.ErrNoAudio)
		p, err := h.dispatcher.Dispatch(t.Context(), dispatch.Request{Spec: spec(ofSession)})
		if err != nil {
			t.Fatal(err)
		}
		h.transport.failWith("node-a", nil)
		if known, err := h.dispatcher.ResumeWithAudio(t.Context(), p.Job); err != nil || !known {
			t.Fatal(known, err)
		}
		synctest.Wait()
		h.advance(time.Second, "node-a")
		if j := h.job(p.Job); j.State != core.StateDispatched {
			t.Errorf("%s %s, a second after its audio was back, with the only node free", j.State, j.Reason)
		}
	})
}

// audioOutcomes records the jobs that wait for their audio.
type audioOutcomes struct {
	fakeOutcomes
	mu     sync.Mutex
	wanted []core.JobID
}

func (o *audioOutcomes) AudioWanted(_ context.Context, job *core.Job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wanted = append(o.wanted, job.ID)
}

// TestJobContinuesOnTheInstanceWithTheAudio: an instance that receives a failure and does not have the audio leaves the job to
// the one that has, without delivering it to a node, and the attempt counts.
func TestJobContinuesOnTheInstanceWithTheAudio(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch(ofSession) // on this instance, which has the audio
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		h.addNode("node-b", 1)
		reported := &audioOutcomes{}
		other := h.otherInstanceReporting(reported, func(c *dispatch.Config) { c.HasAudio = func(*core.Job) bool { return false } })
		defer other.Close()
		if err := other.Reports.Fail(t.Context(), reportOf(p), core.ReasonNodeFailed, ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.wantState(p.Job, core.StateRetrying, core.ReasonNodeFailed)
		if len(reported.wanted) != 1 || other.InFlight() != 0 {
			t.Errorf("audio wanted for %v, %d in flight there", reported.wanted, other.InFlight())
		}
		if known, err := h.dispatcher.ResumeWithAudio(t.Context(), p.Job); err != nil || !known {
			t.Fatal(known, err)
		}
		synctest.Wait()
		if now := h.job(p.Job); now.State != core.StateDispatched || now.Attempt != 2 || now.Node != "node-b" {
			t.Errorf("%s, attempt %d on %s", now.State, now.Attempt, now.Node)
		}
	})
}

// TestDispatcherFindsJobThatWaitsForItsAudio: the message that a job waits for its audio is lost; its dispatcher finds out by a
// check of the record.
func TestDispatcherFindsJobThatWaitsForItsAudio(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch(ofSession)
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		h.addNode("node-b", 1)
		other := h.otherInstance(func(c *dispatch.Config) { c.HasAudio = func(*core.Job) bool { return false } })
		defer other.Close()
		if err := other.Reports.Fail(t.Context(), reportOf(p), core.ReasonNodeBusy, ""); err != nil {
			t.Fatal(err)
		}
		h.advance(3*time.Second, "node-a", "node-b")
		if now := h.job(p.Job); now.State != core.StateDispatched || now.Attempt != 1 || now.Token == "" {
			t.Errorf("%s, attempt %d on %s", now.State, now.Attempt, now.Node)
		}
		if h.dispatcher.InFlight() != 1 {
			t.Errorf("%d jobs in flight on this instance, want 1", h.dispatcher.InFlight())
		}
	})
}

// TestNodeReportsLostAudio: the audio of a job that a node did not get is sent again, to another node if there is one, and costs no
// attempt. A fault between the nodes and the audio may last: the job is repeated as often as after failures of nodes.
func TestNodeReportsLostAudio(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes  []string
		change func(*core.Spec)
		next   core.NodeID // gets the job after a reported it
	}{
		"another node":  {nodes: []string{"a", "b"}, change: preferNode("a"), next: "b"},
		"the only node": {nodes: []string{"a"}, change: preferNode("a"), next: "a"},
		"no other is taken": {nodes: []string{"a", "b"}, change: func(s *core.Spec) { preferNode("a")(s); s.Options.Strict = true },
			next: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				for _, id := range c.nodes {
					h.addNode(id, 1)
				}
				p := h.dispatch(ofSession, c.change)
				for repeats := 0; ; repeats++ {
					h.acknowledge(p)
					if err := h.fail(p, core.ReasonAudioLost); err != nil {
						t.Fatal(err)
					}
					h.advance(time.Second, c.nodes...)
					job := h.job(p.Job)
					if job.State == core.StateFailed {
						if repeats != 2 {
							t.Errorf("repeated %d times, want 2, which is max_retry", repeats)
						}
						h.wantState(p.Job, core.StateFailed, core.ReasonMaxRetry)
						break
					}
					if job.State != core.StateDispatched || job.Attempt != 1 || repeats == 0 && job.Node != c.next {
						t.Fatalf("%s on %s, attempt %d, want the first attempt on %s", job.State, job.Node, job.Attempt, c.next)
					}
					p = h.placementOf(p.Job)
				}
				h.wantFree(c.nodes...)
			})
		})
	}
}

// TestNodeReportsLostAudioElsewhere: a node reports to an instance without the audio that it did not get it. The instance that has the
// audio repeats the job, in the same attempt.
func TestNodeReportsLostAudioElsewhere(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.acknowledge(h.dispatch(ofSession))
		h.addNode("node-b", 1)
		reported := &audioOutcomes{}
		other := h.otherInstanceReporting(reported, func(c *dispatch.Config) { c.HasAudio = func(*core.Job) bool { return false } })
		defer other.Close()
		h.transport.drop(p)
		if err := other.Reports.Fail(t.Context(), reportOf(p), core.ReasonAudioLost, ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if known, err := h.dispatcher.ResumeWithAudio(t.Context(), p.Job); err != nil || !known || len(reported.wanted) != 1 {
			t.Fatal(known, err, reported.wanted)
		}
		synctest.Wait()
		if now := h.job(p.Job); now.State != core.StateDispatched || now.Attempt != 1 || now.Node != "node-b" {
			t.Errorf("%s, attempt %d on %s", now.State, now.Attempt, now.Node)
		}
	})
}
