package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestTakeOverJobs: another instance continues the jobs of a dead one.
func TestTakeOverJobs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		acknowledged bool
		retrying     bool
	}{
		"acknowledged":     {acknowledged: true},
		"not acknowledged": {},
		"retrying":         {retrying: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("node-a", 1)
				dead := h.otherInstance()
				p, err := dead.Dispatch(t.Context(), dispatch.Request{Spec: spec()})
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case c.acknowledged:
					if err := dead.Reports.Ack(t.Context(), reportOf(p)); err != nil {
						t.Fatal(err)
					}
				case c.retrying:
					if err := dead.Reports.Fail(t.Context(), reportOf(p), core.ReasonModelNotAvailable, ""); err != nil {
						t.Fatal(err)
					}
				default:
					h.transport.drop(p)
				}
				dead.Close()
				h.addNode("node-b", 1)
				time.Sleep(3 * time.Second) // until it is declared dead
				if err := h.dispatcher.Reconciler.TakeOverJobs(t.Context(), "i-other"); err != nil {
					t.Fatal(err)
				}
				// Without heartbeats. A retry belongs to its owner until its lease expires.
				want := map[bool]core.NodeID{true: "node-a", false: "node-b"}[c.acknowledged]
				var now *core.Job
				for range 50 {
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
					if now = h.job(p.Job); now.State != core.StateRetrying && now.Node == want {
						break
					}
				}
				if now.State.Terminal() || now.State == core.StateRetrying || now.Node != want {
					t.Fatalf("%s on %s, want it on %s: %+v", now.State, now.Node, want, now.History)
				}
				if h.dispatcher.InFlight() != 1 {
					t.Errorf("%d jobs in flight on this instance, want 1", h.dispatcher.InFlight())
				}
				if err := h.done(h.placementOf(p.Job)); err != nil {
					t.Fatal(err)
				}
				h.wantState(p.Job, core.StateDone, "")
			})
		})
	}
}

// TestTakeOverLeavesJobsOfLiveInstances: only the jobs of the dead instance are taken over.
func TestTakeOverLeavesJobsOfLiveInstances(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		p := h.dispatch()
		time.Sleep(time.Second)
		if err := h.dispatcher.Reconciler.TakeOverJobs(t.Context(), "i-unknown"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := h.job(p.Job); now.Attempt != 1 || now.Node != p.Node {
			t.Errorf("%+v", now)
		}
	})
}

// TestDeadlineAfterTakeover: a job ends within the job timeout from its creation, whichever instance runs it.
func TestDeadlineAfterTakeover(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		dead := h.otherInstance()
		p := h.dispatchAcknowledged(dead, spec())
		began := time.Now()
		h.advance(12*time.Second, "node-a") // within its first attempt
		dead.Close()
		if err := h.dispatcher.Reconciler.TakeOverJobs(t.Context(), "i-other"); err != nil {
			t.Fatal(err)
		}
		for !h.job(p.Job).State.Terminal() {
			h.advance(time.Second, "node-a")
			if took := time.Since(began); took > timing.Job+time.Second {
				t.Fatalf("the job has not ended after %s; it has %s: %+v", took, timing.Job, h.job(p.Job))
			}
		}
		h.wantState(p.Job, core.StateFailed, core.ReasonDeadline)
	})
}

// TestHandedOffRetryEndsWithoutTakeover: the node of a job died, its instance finds no other node and is then stopped gracefully.
// No instance takes the job over, but it ends.
func TestHandedOffRetryEndsWithoutTakeover(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		leaving := h.otherInstance()
		p := h.dispatchAcknowledged(leaving, spec())
		time.Sleep(5 * time.Second)
		// The connection of node-a is lost and its grace period is over, as in nodes.Registry.MarkLost on the leaving instance.
		if _, err := leaving.Reconciler.MoveJobsOfNode(t.Context(), "node-a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.wantState(p.Job, core.StateRetrying, core.ReasonNodeLost)
		time.Sleep(11 * time.Second) // this instance notices the silence too: the retry has an owner
		synctest.Wait()
		h.wantState(p.Job, core.StateRetrying, core.ReasonNodeLost)
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Second)
		defer cancel()
		t.Logf("left after the drain: %d", leaving.Drain(ctx))
		leaving.Close()
		h.addNode("node-b", 1)
		h.advance(4*time.Second, "node-b")
		known, err := h.dispatcher.ResumeWithAudio(t.Context(), p.Job) // the session was resumed here, and its client sent the audio again
		t.Logf("resume with audio: known %v, %v", known, err)
		h.advance(4*time.Second, "node-b")
		j := h.job(p.Job)
		t.Logf("at 25 s: %s owner %q on %s; deadline in %v", j.State, j.Owner, j.Node, j.Deadline.Sub(j.Updated))
		h.advance(2*time.Minute, "node-b")
		if j, err := h.dispatcher.Job(t.Context(), p.Job); err != nil || !j.State.Terminal() {
			t.Errorf("two minutes later the job is %+v, %v", j, err)
		}
	})
}

// TestTakeOverRetryOfAnotherInstancesJob: this instance dispatched the job; its node was connected to another instance, which lost
// the node and owns the retry, and is then killed. The lease has this instance's token.
func TestTakeOverRetryOfAnotherInstancesJob(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch() // on this instance
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		a := h.otherInstance()
		if _, err := a.Reconciler.MoveJobsOfNode(t.Context(), "node-a"); err != nil { // its connection to the node broke
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(11 * time.Second) // this instance has checked the record and removed the job, and has noticed that node-a is silent
		h.wantState(p.Job, core.StateRetrying, core.ReasonNodeLost)
		t.Logf("in flight on this instance: %d", h.dispatcher.InFlight())
		a.Close() // kill -9
		time.Sleep(3 * time.Second)
		h.addNode("node-b", 1)
		if err := h.dispatcher.Reconciler.TakeOverJobs(t.Context(), "i-other"); err != nil {
			t.Fatal(err)
		}
		h.advance(8*time.Second, "node-b")
		if j := h.job(p.Job); len(j.History) != 2 {
			t.Errorf("8 s after the takeover no other node has the job: %s, owner %q", j.State, j.Owner)
		}
		h.advance(60*time.Second, "node-b")
		if j, err := h.dispatcher.Job(t.Context(), p.Job); err != nil || !j.State.Terminal() {
			t.Errorf("a minute later the job is %+v, %v", j, err)
		}
	})
}

// TestJobThatWaitsForAudioEndsAfterItsInstanceDied: a job waits for its audio; the instance that would have failed it after the
// grace period dies, and its last node is dead. The client came back without the audio, and waits for the outcome.
func TestJobThatWaitsForAudioEndsAfterItsInstanceDied(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		a := h.otherInstance(func(c *dispatch.Config) { c.HasAudio = func(*core.Job) bool { return false } })
		p := h.dispatchAcknowledged(a, spec(ofSession))
		time.Sleep(5 * time.Second)
		if _, err := a.Reconciler.MoveJobsOfNode(t.Context(), "node-a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.wantState(p.Job, core.StateRetrying, core.ReasonNodeLost)
		time.Sleep(12 * time.Second) // this instance has noticed too that node-a is silent
		a.Close()                    // kill -9
		time.Sleep(3 * time.Second)
		h.addNode("node-b", 1)
		if err := h.dispatcher.Reconciler.TakeOverJobs(t.Context(), "i-other"); err != nil {
			t.Fatal(err)
		}
		h.advance(70*time.Second+2*time.Minute, "node-b")
		if j, err := h.dispatcher.Job(t.Context(), p.Job); err != nil || !j.State.Terminal() {
			t.Errorf("three minutes later: %+v, %v", j, err)
		}
	})
}

// TestChecksOfTakenOverJobsAreSpread: jobs that were taken over together are not checked together.
func TestChecksOfTakenOverJobsAreSpread(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 40)
		dead := h.otherInstance()
		for i := range 40 {
			h.dispatchAcknowledged(dead, spec(withRequestID(fmt.Sprint("r", i))))
			time.Sleep(17 * time.Millisecond) // they start at different times
		}
		dead.Close()
		st := &readTimesStore{Store: h.store, at: make(map[time.Time]int)}
		successor := dispatch.New(dispatch.Config{
			Instance: "i-successor", DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second,
			AttemptTimeout: timing.Attempt, JobTimeout: timing.Job, MaxRetry: 2,
		}, st, h.fleet, h.picker, h.transport, nil, h.metrics, h.log)
		defer successor.Close()
		if err := successor.Reconciler.TakeOverJobs(t.Context(), "i-other"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		st.mu.Lock()
		clear(st.at)
		st.mu.Unlock()
		time.Sleep(8 * time.Second)
		synctest.Wait()
		st.mu.Lock()
		defer st.mu.Unlock()
		for at, n := range st.at {
			if n > 10 {
				t.Errorf("%d of 40 jobs were checked in the same instant, %v", n, at.Format("05.000"))
			}
		}
	})
}

// TestReboundJobEndsOnItsDispatcher: the node registers again through another instance than the job's dispatcher, and never
// reports. The dispatcher continues with the node's new epoch when the attempt is over, and keeps no entry for ever.
func TestReboundJobEndsOnItsDispatcher(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		dispatcher := h.otherInstance()
		defer dispatcher.Close()
		p := h.dispatchAcknowledged(dispatcher, spec())
		before := h.job(p.Job).Epoch
		active := []store.ActiveJob{{Job: p.Job, Attempt: p.Attempt}}
		if err := h.register("node-a", 1, store.Activity{Lists: true, Active: active}); err != nil {
			t.Fatal(err)
		}
		if now := h.job(p.Job); now.Epoch == before {
			t.Fatalf("the job is still held in epoch %d", before)
		}
		h.addNode("node-b", 1)
		h.advance(timing.Job+timing.Attempt, "node-a", "node-b") // until the job is over
		if n := dispatcher.InFlight(); n != 0 {
			t.Errorf("%d jobs in flight after the job's deadline: %+v", n, h.job(p.Job))
		}
	})
}

// reregisteringStore lets a node register again just before a retry is written, a few times.
type reregisteringStore struct {
	dispatch.Store
	register func()
	left     int
}

func (s *reregisteringStore) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	if p.Event == core.EventRetry && s.left > 0 {
		s.left--
		s.register()
	}
	return s.Store.Apply(ctx, p)
}

// TestJobReboundAgainAndAgain: the node registers again whenever its job is about to be moved, because its attempt is over. The job is
// moved nevertheless, and the dispatcher keeps no entry without a timer.
func TestJobReboundAgainAndAgain(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		st := &reregisteringStore{Store: h.store, left: 4}
		dispatcher := dispatch.New(dispatch.Config{
			Instance: "i-other", DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second,
			AttemptTimeout: timing.Attempt, JobTimeout: timing.Job, MaxRetry: 2,
		}, st, h.fleet, h.picker, h.transport, nil, h.metrics, h.log)
		defer dispatcher.Close()
		p := h.dispatchAcknowledged(dispatcher, spec())
		active := []store.ActiveJob{{Job: p.Job, Attempt: p.Attempt}}
		st.register = func() {
			if err := h.register("node-a", 1, store.Activity{Lists: true, Active: active}); err != nil {
				t.Error(err)
			}
		}
		h.addNode("node-b", 1)
		h.advance(timing.Attempt-5*time.Second, "node-a", "node-b")
		time.Sleep(6 * time.Second) // no heartbeat shows the job as overdue to another instance
		synctest.Wait()
		if now := h.job(p.Job); now.Node != "node-b" || st.left != 0 {
			t.Errorf("with %d registrations left: %+v", st.left, now)
		}
	})
}

// TestTakenOverRetryKeepsFreeAttempt: a retry after NODE_BUSY costs no attempt, also when another instance takes it over.
func TestTakenOverRetryKeepsFreeAttempt(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		dead := h.otherInstance()
		p := h.dispatchAcknowledged(dead, spec())
		if err := dead.Reports.Fail(t.Context(), reportOf(p), core.ReasonNodeBusy, ""); err != nil {
			t.Fatal(err)
		}
		dead.Close()
		h.addNode("node-b", 1)
		time.Sleep(3 * time.Second)
		if err := h.dispatcher.Reconciler.TakeOverJobs(t.Context(), "i-other"); err != nil {
			t.Fatal(err)
		}
		for range 80 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if h.job(p.Job).State == core.StateDispatched {
				break
			}
		}
		if now := h.job(p.Job); now.State != core.StateDispatched || now.Attempt != 1 {
			t.Errorf("%s in attempt %d, want DISPATCHED in attempt 1: %+v", now.State, now.Attempt, now.History)
		}
	})
}
