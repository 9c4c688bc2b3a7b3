package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/wire"
)

// other is another instance over the same store, with a way of its own to nodes.
func (w *world) other(change ...func(*dispatch.Config)) *dispatch.Dispatcher {
	w.t.Helper()
	return w.otherReporting(nil, change...)
}

// otherReporting is another instance that reports the outcomes of jobs.
func (w *world) otherReporting(to dispatch.Outcomes, change ...func(*dispatch.Config)) *dispatch.Dispatcher {
	w.t.Helper()
	cfg := dispatch.Config{
		Instance: "i-other", DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second,
		AttemptTimeout: timing.Attempt, JobTimeout: timing.Job, MaxRetry: 2, AudioGrace: time.Minute,
	}
	for _, c := range change {
		c(&cfg)
	}
	return dispatch.New(cfg, w.store, w.fleet, w.pick, w.sent, to, w.m, w.log)
}

// TestBereaved: what an instance that died was seeing through is seen through by another.
func TestBereaved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		confirmed bool
		retrying  bool
	}{
		"a job that its node has confirmed": {confirmed: true},
		"a job that never was":              {},
		"a job that waits for a node":       {retrying: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.node("node-a", 1)
				gone := w.other()
				p, err := gone.Dispatch(t.Context(), dispatch.Request{Spec: spec()})
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case c.confirmed:
					if err := gone.Ack(t.Context(), report(p)); err != nil {
						t.Fatal(err)
					}
				case c.retrying:
					if err := gone.Fail(t.Context(), report(p), core.ReasonModelNotAvailable, ""); err != nil {
						t.Fatal(err)
					}
				default:
					w.sent.drop(p)
				}
				gone.Close()
				w.node("node-b", 1)
				time.Sleep(3 * time.Second) // until it is taken for gone
				if err := w.d.TakeOverJobs(t.Context(), "i-other"); err != nil {
					t.Fatal(err)
				}
				// No heartbeat helps: this is faster than they are. A retry is its owner's for a while.
				want := map[bool]core.NodeID{true: "node-a", false: "node-b"}[c.confirmed]
				var now *core.Job
				for range 50 {
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
					if now = w.job(p.Job); now.State != core.StateRetrying && now.Node == want {
						break
					}
				}
				if now.State.Terminal() || now.State == core.StateRetrying || now.Node != want {
					t.Fatalf("%s on %s, want it on %s: %+v", now.State, now.Node, want, now.History)
				}
				if w.d.InFlight() != 1 {
					t.Errorf("%d jobs are seen through here", w.d.InFlight())
				}
				if err := w.done(w.placed(p.Job)); err != nil {
					t.Fatal(err)
				}
				w.wantState(p.Job, core.StateDone, "")
			})
		})
	}
}

// TestBereavedOfNothing leaves the jobs of the living alone.
func TestBereavedOfNothing(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		w.node("node-b", 1)
		p := w.dispatch()
		time.Sleep(time.Second)
		if err := w.d.TakeOverJobs(t.Context(), "i-nobody"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := w.job(p.Job); now.Attempt != 1 || now.Node != p.Node {
			t.Errorf("%+v", now)
		}
	})
}

// wishes are outcomes that remember which jobs want their sound.
type wishes struct {
	outcomes
	mu     sync.Mutex
	wanted []core.JobID
}

func (o *wishes) AudioWanted(_ context.Context, job *core.Job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wanted = append(o.wanted, job.ID)
}

// TestWhoeverHasTheSoundGoesOn: an instance that hears of a failure and does not have the sound leaves the job to the one
// that has, without giving it to a node in vain, and the attempt counts.
func TestWhoeverHasTheSoundGoesOn(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch(spoken) // here, where the sound is
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		w.node("node-b", 1)
		told := &wishes{}
		deaf := w.otherReporting(told, func(c *dispatch.Config) { c.HasAudio = func(*core.Job) bool { return false } })
		defer deaf.Close()
		if err := deaf.Fail(t.Context(), report(p), core.ReasonNodeFailed, ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantState(p.Job, core.StateRetrying, core.ReasonNodeFailed)
		if len(told.wanted) != 1 || deaf.InFlight() != 0 {
			t.Errorf("wanted %v, %d in flight there", told.wanted, deaf.InFlight())
		}
		if known, err := w.d.ResumeWithAudio(t.Context(), p.Job); err != nil || !known {
			t.Fatal(known, err)
		}
		synctest.Wait()
		if now := w.job(p.Job); now.State != core.StateDispatched || now.Attempt != 2 || now.Node != "node-b" {
			t.Errorf("%s, attempt %d on %s", now.State, now.Attempt, now.Node)
		}
	})
}

// TestWordThatWasLost: nobody says that a job waits for its sound; whoever dispatched it looks.
func TestWordThatWasLost(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("node-a", 1)
		p := w.dispatch(spoken)
		if err := w.ack(p); err != nil {
			t.Fatal(err)
		}
		w.node("node-b", 1)
		deaf := w.other(func(c *dispatch.Config) { c.HasAudio = func(*core.Job) bool { return false } })
		defer deaf.Close()
		if err := deaf.Fail(t.Context(), report(p), core.ReasonNodeBusy, ""); err != nil {
			t.Fatal(err)
		}
		w.pass(3*time.Second, "node-a", "node-b")
		if now := w.job(p.Job); now.State != core.StateDispatched || now.Attempt != 1 || now.Token == "" {
			t.Errorf("%s, attempt %d on %s", now.State, now.Attempt, now.Node)
		}
		if w.d.InFlight() != 1 {
			t.Errorf("%d jobs are seen through here", w.d.InFlight())
		}
	})
}

// TestTheFence: after it nothing is granted, whatever the store would say.
func TestTheFence(t *testing.T) {
	t.Parallel()
	var until fence
	playWith(t, func(c *dispatch.Config) { c.Fence = until.get }, func(w *world) {
		w.node("node-a", 2)
		if e := w.refused(); e.Code != wire.SchedulerDependencyDown {
			t.Errorf("before it was ever present: %v", e)
		}
		until.set(time.Now().Add(time.Second))
		w.dispatch(request("req-1"))
		time.Sleep(2 * time.Second)
		if e := w.refused(request("req-2")); e.Code != wire.SchedulerDependencyDown {
			t.Errorf("after the fence: %v", e)
		}
		until.set(time.Now().Add(time.Second))
		w.dispatch(request("req-2"))
	})
}

// fence is until when an instance may grant.
type fence struct{ at atomic.Int64 }

func (f *fence) set(t time.Time) { f.at.Store(t.UnixNano()) }

func (f *fence) get() time.Time { return time.Unix(0, f.at.Load()) }

// TestAnInstanceThatHearsNothing: when a node that is connected elsewhere does not confirm a job, the next attempt goes to
// a node of another instance, if there is one.
func TestAnInstanceThatHearsNothing(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		with := func(owner core.InstanceID) func(*nodes.Patch) {
			return func(p *nodes.Patch) { p.Owner = &owner }
		}
		for i := range 8 {
			w.node(fmt.Sprint("deaf-", i), 1, with("i-deaf"))
		}
		p := w.dispatch()
		w.node("node-z", 1, with("i-well"))
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if now := w.job(p.Job); now.Attempt != 2 || now.Node != "node-z" {
			t.Errorf("attempt %d is with %s", now.Attempt, now.Node)
		}
	})
}
