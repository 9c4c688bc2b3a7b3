package dispatch_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/waiting"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/wire"
)

// hookedStore is a store with hooks, each of which is called once.
type hookedStore struct {
	store.Store
	repeats                              atomic.Int64 // waiters that were added again
	failing                              atomic.Bool  // Beat fails
	beforeBeat, beforeRepeat, afterEnter hook
	probeTakes, repeatTakes              atomic.Int64 // how long a probe takes, and a waiter that is added again
}

// hook is a function that is called once.
type hook struct{ fn atomic.Pointer[func()] }

func (h *hook) set(fn func()) { h.fn.Store(&fn) }

func (h *hook) call() {
	if fn := h.fn.Swap(nil); fn != nil {
		(*fn)()
	}
}

func (s *hookedStore) Beat(ctx context.Context, p core.PoolID, i core.InstanceID) (fairqueue.BeatResult, error) {
	s.beforeBeat.call()
	if s.failing.Load() {
		return fairqueue.BeatResult{}, store.ErrDown
	}
	return s.Store.Beat(ctx, p, i)
}

func (s *hookedStore) Enqueue(ctx context.Context, pool core.PoolID, p fairqueue.EnqueueParams) (fairqueue.EnqueueResult, error) {
	if p.Repeat {
		s.repeats.Add(1)
		s.beforeRepeat.call()
		time.Sleep(time.Duration(s.repeatTakes.Load()))
	}
	r, err := s.Store.Enqueue(ctx, pool, p)
	if !p.Repeat {
		s.afterEnter.call()
	}
	return r, err
}

func (s *hookedStore) Probe(ctx context.Context, nodes []core.NodeID, into []store.Occupancy) error {
	time.Sleep(time.Duration(s.probeTakes.Load()))
	return s.Store.Probe(ctx, nodes, into)
}

// secondInstance makes another instance, with a store and a view of the fleet of its own.
func (h *harness) secondInstance(st dispatch.Store, fl *fleet.Fleet, change ...func(*dispatch.Config)) *dispatch.Dispatcher {
	cfg := dispatch.Config{
		Instance: "i-second", DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second,
		AttemptTimeout: timing.Attempt, JobTimeout: timing.Job, MaxRetry: 2, AudioGrace: time.Minute, Shared: true,
	}
	for _, c := range change {
		c(&cfg)
	}
	policy := pick.Policy{SampleK: 20, ScanMax: 512, StaleAfter: timing.Presence, Shuffle: true, CPUMax: .95, GPUMax: .98, MemoryMax: .95}
	return dispatch.New(cfg, st, fl, pick.New(fl, policy, nil), h.transport, nil, h.metrics, h.log)
}

// fullInstance makes another instance, with a store of its own, and a node whose only slot has a job of this instance.
func (h *harness) fullInstance(st dispatch.Store) (*dispatch.Dispatcher, dispatch.Placement) {
	h.t.Helper()
	h.addNode("node-a", 1)
	d := h.secondInstance(st, h.fleet)
	return d, h.dispatchAcknowledged(d, spec())
}

// waitOn dispatches a request on an instance, that waits for at most a time.
func waitOn(ctx context.Context, d *dispatch.Dispatcher, id string, wait time.Duration, change ...func(*core.Spec)) *waitingRequest {
	one := &waitingRequest{beganAt: time.Now(), done: make(chan struct{})}
	go func() {
		defer close(one.done)
		one.placement, _ = d.Dispatch(ctx, dispatch.Request{Spec: spec(append(change, withRequestID(id))...), Wait: &dispatch.Wait{
			Since: one.beganAt, Until: one.beganAt.Add(wait), Join: one.beganAt.Add(2 * time.Second),
		}})
		one.endedAt = time.Now()
	}()
	synctest.Wait()
	return one
}

// finish ends a job through an instance.
func (h *harness) finish(d *dispatch.Dispatcher, p dispatch.Placement) {
	h.t.Helper()
	h.transport.drop(p)
	if err := d.Reports.Done(h.t.Context(), reportOf(p), []byte(`{"text_tgt":"x"}`)); err != nil {
		h.t.Error(err)
	}
}

// TestOfferedNodeSeemsBusy: a request uses the slot that it is offered although its instance has an older view of the node.
func TestOfferedNodeSeemsBusy(t *testing.T) {
	t.Parallel()
	var other atomic.Pointer[dispatch.Dispatcher]
	runWith(t, func(c *dispatch.Config) {
		c.Bus = offerBus(func(_ context.Context, _ core.InstanceID, o waiting.Offer) error {
			receiveOffer(other.Load(), o)
			return nil
		})
	}, func(h *harness) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch())
		fl := fleet.New(timing.Presence)
		status, err := store.ReadNode(h.t.Context(), h.mem, "node-a")
		if err != nil {
			t.Fatal(err)
		}
		fl.Update(status)
		fl.SetPartial(false)
		fl.RecordHeartbeat("node-a", core.Load{CPU: .99}, status.Occupancy)
		b := h.secondInstance(h.store, fl)
		defer b.Close()
		other.Store(b)
		head := waitOn(h.t.Context(), b, "head", 20*time.Second)
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !head.hasEnded() || head.placement.Node != "node-a" {
			t.Errorf("the slot is free, and the request waits: %v", head.hasEnded())
		}
	})
}

// TestBeatDuringAGrant: a request that is served while its instance says that it is alive is not taken for one that the queue has lost.
func TestBeatDuringAGrant(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		st := &hookedStore{Store: h.store}
		d, busy := h.fullInstance(st)
		defer d.Close()
		waitOn(h.t.Context(), d, "w1", 20*time.Second)
		ctx, cancel := context.WithCancel(h.t.Context())
		waitOn(ctx, d, "w2", 30*time.Second)
		st.beforeBeat.set(func() {
			h.finish(d, busy)
			time.Sleep(time.Millisecond)
		})
		st.beforeRepeat.set(cancel)
		h.advance(2*time.Second, "node-a")
		cancel()
		synctest.Wait()
		if st.repeats.Load() > 0 {
			t.Errorf("%d waiters were added again although nothing was lost", st.repeats.Load())
		}
		if v, err := h.mem.ViewQueue(h.t.Context(), "", fairqueue.ViewParams{Flows: 10}); err != nil || len(v.Flows) != 0 {
			t.Errorf("the queue has %+v, %v; nobody waits", v.Flows, err)
		}
	})
}

// TestBeatAfterAFailure: requests that the store has lost while it did not answer are added again within one interval of its first answer.
func TestBeatAfterAFailure(t *testing.T) {
	t.Parallel()
	for failure := 800 * time.Millisecond; failure < 1000*time.Millisecond; failure += 25 * time.Millisecond {
		runTest(t, func(h *harness) {
			st := &hookedStore{Store: h.store}
			d, _ := h.fullInstance(st)
			defer d.Close()
			waitOn(h.t.Context(), d, "w1", 20*time.Second)
			st.failing.Store(true)
			h.loseQueue()
			time.Sleep(failure)
			st.failing.Store(false)
			time.Sleep(120 * time.Millisecond)
			if n := len(h.queued()); n != 1 {
				t.Errorf("after a failure of %v the queue has %d requests, want 1", failure, n)
			}
		})
	}
}

// TestOfferBeforeTheReply: an offer that comes before the reply of the queue is used.
func TestOfferBeforeTheReply(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		st := &hookedStore{Store: h.store}
		d, busy := h.fullInstance(st)
		defer d.Close()
		var freed time.Time
		st.afterEnter.set(func() {
			h.finish(d, busy)
			freed = time.Now()
			time.Sleep(time.Millisecond)
		})
		w := waitOn(h.t.Context(), d, "w", 20*time.Second)
		<-w.done
		if took := w.endedAt.Sub(freed); took > 50*time.Millisecond {
			t.Errorf("the slot was free for %v", took)
		}
	})
}

// TestPlainRequestDoesNotJoinAWait: a request that does not wait is answered at once although the same one waits.
func TestPlainRequestDoesNotJoinAWait(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.acknowledge(h.dispatch())
		h.startWaiting(h.t.Context(), "same", 5*time.Second)
		began := time.Now()
		if e := h.dispatchRefused(withRequestID("same")); e.Code != wire.AllCandidatesFullOrFailed || time.Since(began) > 0 {
			t.Errorf("%v after %v", e, time.Since(began))
		}
		h.advance(6*time.Second, "node-a")
	})
}

// TestLongWaitJoinsAShortOne: of the same request that is sent twice, the one that may wait longer goes on waiting.
func TestLongWaitJoinsAShortOne(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch())
		short := h.startWaiting(h.t.Context(), "same", 200*time.Millisecond)
		long := h.startWaiting(h.t.Context(), "same", 20*time.Second)
		h.advance(time.Second, "node-a")
		if !short.hasEnded() || long.hasEnded() {
			t.Fatalf("short ended %v, long ended %v after %v", short.hasEnded(), long.hasEnded(), long.endedAt.Sub(long.beganAt))
		}
		shorter := h.startWaiting(h.t.Context(), "same", time.Second)
		h.advance(2*time.Second, "node-a")
		if !shorter.hasEnded() || shorter.err == nil {
			t.Errorf("one that may wait a second joined, and still waits after two")
		}
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !long.hasEnded() || long.placement.Node != "node-a" {
			t.Errorf("long: %v, %+v", long.hasEnded(), long.placement)
		}
	})
}

// TestSlowProbesDoNotDelayBeats: the waiters of an instance stay in the queue while its probes take long.
func TestSlowProbesDoNotDelayBeats(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		st := &hookedStore{Store: h.store}
		d, _ := h.fullInstance(st)
		defer d.Close()
		waitOn(h.t.Context(), d, "w", 60*time.Second)
		st.probeTakes.Store(int64(400 * time.Millisecond))
		missing := 0
		for range 200 {
			time.Sleep(50 * time.Millisecond)
			if _, err := h.mem.Beat(h.t.Context(), "", "i-other"); err != nil {
				t.Fatal(err)
			}
			if v, err := h.mem.ViewQueue(h.t.Context(), "", fairqueue.ViewParams{Flows: 10}); err != nil || len(v.Flows) == 0 {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("the waiter was missing from the queue in %d of 200 samples", missing)
		}
	})
}

// TestSlowRepeatsDoNotDelayBeats: while many requests that a queue has lost are put into it again, which takes long, a request in the queue
// of a pool is not taken for one of a dead instance.
func TestSlowRepeatsDoNotDelayBeats(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.fleet.SetPools(goldAndSilver(isStrict))
		h.addNode("g", 1, withServices("x"))
		st := &hookedStore{Store: h.store}
		d := h.secondInstance(st, h.fleet)
		defer d.Close()
		h.dispatchAcknowledged(d, spec())
		bound := waitOn(h.t.Context(), d, "bound", 60*time.Second, ofTenant(boundTenant))
		const waiting = 100
		for i := range waiting {
			waitOn(h.t.Context(), d, fmt.Sprint("w", i), 60*time.Second)
		}
		st.repeatTakes.Store(int64(300 * time.Millisecond)) // 16 at once: two seconds in all
		h.loseQueue()
		missing := 0
		for range 60 {
			time.Sleep(50 * time.Millisecond)
			for _, pool := range []core.PoolID{"", "gold"} {
				if _, err := h.mem.Beat(h.t.Context(), pool, "i-other"); err != nil {
					t.Fatal(err)
				}
			}
			if v, err := h.mem.ViewQueue(h.t.Context(), "gold", fairqueue.ViewParams{Flows: 10}); err != nil || len(v.Flows) != 1 {
				missing++
			}
		}
		if missing > 0 || bound.hasEnded() {
			t.Errorf("the request of the pool was missing in %d of 60 samples; it has ended: %v", missing, bound.hasEnded())
		}
		if n, repeats := len(h.queued()), st.repeats.Load(); n != waiting || repeats != waiting {
			t.Errorf("the queue has %d of %d requests after %d were added again", n, waiting, repeats)
		}
	})
}

// TestSecondOfferIsPassedOn: a request that gets its slot when it was offered another one, because it took long, lets the next request have
// that.
func TestSecondOfferIsPassedOn(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		d := h.secondInstance(unsweptStore{h.store}, h.fleet)
		defer d.Close()
		jobs := []dispatch.Placement{h.dispatchAcknowledged(d, spec(withRequestID("r-1"))),
			h.dispatchAcknowledged(d, spec(withRequestID("r-2")))}
		first := waitOn(h.t.Context(), d, "first", 10*time.Second)
		second := waitOn(h.t.Context(), d, "second", 20*time.Second)
		slow := true
		h.store.onReserve = func(store.ReserveParams, store.Verdict) {
			if slow {
				slow = false
				time.Sleep(390 * time.Millisecond) // more than an offer is valid for
			}
		}
		h.finish(d, jobs[0])
		time.Sleep(380 * time.Millisecond)
		h.finish(d, jobs[1])
		synctest.Wait()
		if first.hasEnded() || second.hasEnded() {
			t.Fatalf("first ended %v, second ended %v: the first was not offered both slots", first.hasEnded(), second.hasEnded())
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if !first.hasEnded() || first.placement.Node != jobs[0].Node || !second.hasEnded() || second.placement.Node != jobs[1].Node {
			t.Errorf("first: %v on %q, second: %v on %q", first.hasEnded(), first.placement.Node, second.hasEnded(), second.placement.Node)
		}
	})
}

// TestLeavingInstanceEndsWaits: requests over HTTP do not wait on an instance that is leaving.
func TestLeavingInstanceEndsWaits(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.acknowledge(h.dispatch())
		w := h.startWaiting(h.t.Context(), "w", 20*time.Second)
		h.dispatcher.Leave()
		synctest.Wait()
		if !w.hasEnded() {
			t.Error("a request waits for what it will not get")
		}
	})
}

// TestDeadWaitersDoNotBlockOthers: when all instances that had waiters are dead, the others find out, although they have none.
func TestDeadWaitersDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch())
		x := h.secondInstance(h.store, h.fleet)
		ctx, cancel := context.WithCancel(h.t.Context())
		waitOn(ctx, x, "own", time.Minute)
		h.strangerIn("stranger", time.Minute)
		h.strangerIn("stranger-2", time.Minute)
		cancel()
		synctest.Wait()
		x.Close() // nobody is alive who waits
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		for time.Since(began) < 10*time.Second {
			time.Sleep(100 * time.Millisecond)
			if _, err := h.dispatcher.Dispatch(h.t.Context(), dispatch.Request{Spec: spec(withRequestID("later"))}); err == nil {
				break
			}
		}
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("requests were refused for %v although the node was free and nobody waited", took)
		}
	})
}

// TestEndedCountDoesNotComeBack: a job that was cancelled on another instance is not counted again for its tenant.
func TestEndedCountDoesNotComeBack(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 2}, func(h *limited) {
		h.addNode("node-a", 4)
		b := h.otherInstance(func(c *dispatch.Config) { c.Tenants = h.gate })
		defer b.Close()
		defer h.renewInBackground()()
		time.Sleep(800 * time.Millisecond) // shortly before the counts are renewed
		p := h.acknowledge(h.dispatch(ofAcme("r1")))
		h.wantInFlight(1)
		h.transport.drop(p)
		if _, ok, err := b.Cancel(h.t.Context(), p.Job); err != nil || !ok {
			t.Fatal(ok, err)
		}
		h.wantInFlight(0)
		for range 10 {
			h.advance(time.Second, "node-a")
			h.wantInFlight(0)
		}
	})
}
