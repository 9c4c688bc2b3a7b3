package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
)

// TestHandedBackAndNobodyThere: a's node died, a looks for another for its job in vain, and is then stopped in good order. Nobody takes the job on.
func TestHandedBackAndNobodyThere(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		leaver := w.other()
		p, err := leaver.Dispatch(t.Context(), dispatch.Request{Spec: spec()})
		if err != nil {
			t.Fatal(err)
		}
		if err := leaver.Ack(t.Context(), report(p)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		// node-a's connection is lost and its grace over: as nodes.Life.Gone does it with the leaver.
		if _, err := leaver.MoveJobsOfNode(t.Context(), "node-a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantState(p.Job, core.StateRetrying, core.ReasonNodeLost)
		time.Sleep(11 * time.Second) // w notices the silence too: the retry is somebody's
		synctest.Wait()
		w.wantState(p.Job, core.StateRetrying, core.ReasonNodeLost)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		t.Logf("left after the drain: %d", leaver.Drain(ctx))
		leaver.Close()
		w.node("node-b", 1)
		w.pass(4*time.Second, "node-b")
		known, err := w.d.ResumeWithAudio(t.Context(), p.Job) // the session went on here, and its speaker sent the sound again
		t.Logf("rearm: known %v, %v", known, err)
		w.pass(4*time.Second, "node-b")
		j := w.job(p.Job)
		t.Logf("at 25 s: %s owner %q on %s; deadline in %v", j.State, j.Owner, j.Node, j.Deadline.Sub(j.Updated))
		w.pass(2*time.Minute, "node-b")
		if j, err := w.d.Job(t.Context(), p.Job); err != nil || !j.State.Terminal() {
			t.Errorf("two minutes later the job is %+v, %v", j, err)
		}
	})
}

// TestRetryOfAnothersJobNodeLost: c's job; its node was connected with a, which lost it, and took the retry on. Then a is killed. The lease is in c's name.
func TestRetryOfAnothersJobNodeLost(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch() // c is w.d
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		a := w.other()
		if _, err := a.MoveJobsOfNode(t.Context(), "node-a"); err != nil { // a's connection with it broke
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(11 * time.Second) // c has looked, and let go; and has seen that node-a is silent
		w.wantState(p.Job, core.StateRetrying, core.ReasonNodeLost)
		t.Logf("in flight at c: %d", w.d.InFlight())
		a.Close() // kill -9
		time.Sleep(3 * time.Second)
		w.node("node-b", 1)
		if err := w.d.TakeOverJobs(t.Context(), "i-other"); err != nil {
			t.Fatal(err)
		}
		w.pass(8*time.Second, "node-b")
		if j := w.job(p.Job); len(j.History) != 2 {
			t.Errorf("8 s after a was taken for gone nobody else was given the job: %s, owner %q", j.State, j.Owner)
		}
		w.pass(60*time.Second, "node-b")
		if j, err := w.d.Job(t.Context(), p.Job); err != nil || !j.State.Terminal() {
			t.Errorf("a minute later the job is %+v, %v", j, err)
		}
	})
}

// TestAwaitedSoundAndNobodyThere: a job waits for its sound; the instance that would have ended it after the grace dies, its last node is dead. The
// speaker came back without the sound, and waits for a terminal message.
func TestAwaitedSoundAndNobodyThere(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		a := w.other(func(c *dispatch.Config) { c.HasAudio = func(*core.Job) bool { return false } })
		p, err := a.Dispatch(t.Context(), dispatch.Request{Spec: spec(spoken)})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Ack(t.Context(), report(p)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if _, err := a.MoveJobsOfNode(t.Context(), "node-a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantState(p.Job, core.StateRetrying, core.ReasonNodeLost)
		time.Sleep(12 * time.Second) // w has seen too that node-a is silent
		a.Close()                    // kill -9
		time.Sleep(3 * time.Second)
		w.node("node-b", 1)
		if err := w.d.TakeOverJobs(t.Context(), "i-other"); err != nil {
			t.Fatal(err)
		}
		w.pass(70*time.Second, "node-b")
		j, err := w.d.Job(t.Context(), p.Job)
		t.Logf("%v, %v", j, err)
		w.pass(2*time.Minute, "node-b")
		if j, err := w.d.Job(t.Context(), p.Job); err != nil || !j.State.Terminal() {
			t.Errorf("three minutes later: %+v, %v", j, err)
		}
	})
}

// TestRetriesAreFenced: an instance that may not grant any more does not give a job that was not confirmed to another.
func TestRetriesAreFenced(t *testing.T) {
	t.Parallel()
	var until fence
	playWith(t, func(c *dispatch.Config) { c.Fence = until.get }, func(w *world) {
		w.node("node-a", 1)
		until.set(time.Now().Add(time.Second))
		p := w.dispatch()
		w.node("node-b", 1)
		time.Sleep(4 * time.Second) // it could not renew its presence for four seconds: others have taken over
		synctest.Wait()
		if j := w.job(p.Job); j.Node == "node-b" || w.inFlight("node-b") > 0 {
			t.Errorf("3 s after the fence node-b was granted: attempt %d on %s, token %s", j.Attempt, j.Node, j.Token)
		}
	})
}

// ticking remembers when records were read.
type ticking struct {
	dispatch.Store
	mu sync.Mutex
	at map[time.Time]int
}

func (s *ticking) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	s.mu.Lock()
	s.at[time.Now()]++
	s.mu.Unlock()
	return s.Store.Get(ctx, id)
}

// TestLooksAreSpread: jobs that were adopted together are not looked at together.
func TestLooksAreSpread(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 40)
		gone := w.other()
		for i := range 40 {
			p, err := gone.Dispatch(t.Context(), dispatch.Request{Spec: spec(request(fmt.Sprint("r", i)))})
			if err != nil {
				t.Fatal(err)
			}
			if err := gone.Ack(t.Context(), report(p)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(17 * time.Millisecond) // they began at different moments
		}
		gone.Close()
		st := &ticking{Store: w.store, at: make(map[time.Time]int)}
		heir := dispatch.New(dispatch.Config{
			Instance: "i-heir", DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second,
			AttemptTimeout: timing.Attempt, JobTimeout: timing.Job, MaxRetry: 2,
		}, st, w.fleet, w.pick, w.sent, nil, w.m, w.log)
		defer heir.Close()
		if err := heir.TakeOverJobs(t.Context(), "i-other"); err != nil {
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
				t.Errorf("%d of 40 jobs were looked at in the same instant, %v", n, at.Format("05.000"))
			}
		}
	})
}
