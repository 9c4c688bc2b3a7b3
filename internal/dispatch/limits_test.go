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
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/wire"
)

// renewInBackground renews the counts of tenants until the test ends.
func (h *limited) renewInBackground() (stop func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.dispatcher.RenewTenants(ctx)
	}()
	return func() { cancel(); <-ended }
}

// TestTenantAtItsLimitHoldsNoTurn: a request that the limit of its tenant forbids does not wait in the queue, where it would be offered
// slots that it may not use. The slots go to those who may.
func TestTenantAtItsLimitHoldsNoTurn(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 1}, func(h *limited) {
		h.addNode("node-a", 2)
		ofOther := h.acknowledge(h.dispatch(withRequestID("of-another")))
		ofTenant := h.acknowledge(h.dispatch(ofAcme("r1")))
		atLimit := h.startWaiting(h.t.Context(), "r2", 20*time.Second, ofAcme("r2"))
		h.advance(time.Second, "node-a")
		other := h.startWaiting(h.t.Context(), "other", 20*time.Second)
		if n := h.dispatcher.Waiting.Waiting(); n != 1 {
			t.Errorf("%d requests wait in the queue, want the one that may have a slot", n)
		}
		freed := time.Now()
		if err := h.done(ofOther); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !other.hasEnded() || other.err != nil || other.endedAt != freed || atLimit.hasEnded() {
			t.Fatalf("the other got %+v, %v; the one at its limit has ended: %v", other.placement, other.err, atLimit.hasEnded())
		}
		if err := h.done(ofTenant); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !atLimit.hasEnded() || atLimit.err != nil {
			t.Errorf("the request of the tenant that has room: %v, %v", atLimit.hasEnded(), atLimit.err)
		}
	})
}

// TestWaitsForALimitDoNotPoll: however many requests wait for a limit, only the one with the earliest deadline asks the store, and each
// that is admitted lets the next one ask.
func TestWaitsForALimitDoNotPoll(t *testing.T) {
	const waiting = 100
	runLimited(t, core.TenantLimits{InFlight: 1}, func(h *limited) {
		h.addNode("node-a", 8)
		busy := h.acknowledge(h.dispatch(ofAcme("busy")))
		requests := make([]*waitingRequest, waiting)
		for i := range requests { // the later ones have the earlier deadlines
			requests[i] = h.startWaiting(h.t.Context(), fmt.Sprint("w", i), 20*time.Second-time.Duration(i)*50*time.Millisecond,
				ofAcme(fmt.Sprint("w", i)))
		}
		before := h.store.calls.Load()
		h.advance(5*time.Second, "node-a")
		if calls := h.store.calls.Load() - before; calls < 5 || calls > 20 {
			t.Errorf("%d calls of the store in 5 s, want about 10", calls)
		}
		before = h.store.calls.Load()
		for i := waiting - 1; i >= waiting-10; i-- {
			if err := h.done(busy); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if !requests[i].hasEnded() || requests[i].err != nil {
				t.Fatalf("request %d is the most urgent: ended %v, %v", i, requests[i].hasEnded(), requests[i].err)
			}
			busy = h.acknowledge(requests[i].placement)
		}
		if calls := h.store.calls.Load() - before; calls > 40 {
			t.Errorf("%d calls of the store for 10 jobs, want about 3 for each", calls)
		}
		h.advance(16*time.Second, "node-a")
		for i, one := range requests[:waiting-10] {
			if !one.hasEnded() || one.err == nil || one.err.Code != wire.RateLimited {
				t.Fatalf("request %d: ended %v, %+v", i, one.hasEnded(), one.err)
			}
		}
		if got := h.gate.Refusals()["acme"][store.LimitInFlight]; got != waiting-10 {
			t.Errorf("%d refusals are counted, want one for each that was refused", got)
		}
	})
}

// TestAdmittedRequestIsNotInTheWay: a request that was admitted does not keep the next one of its tenant waiting while it is placed.
func TestAdmittedRequestIsNotInTheWay(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 2}, func(h *limited) {
		h.addNode("node-a", 8)
		busy := []dispatch.Placement{h.acknowledge(h.dispatch(ofAcme("b1"))), h.acknowledge(h.dispatch(ofAcme("b2")))}
		first := h.startWaiting(h.t.Context(), "first", 10*time.Second, ofAcme("first"))
		second := h.startWaiting(h.t.Context(), "second", 11*time.Second, ofAcme("second"))
		slow := make(chan struct{})
		h.transport.mu.Lock()
		h.transport.onDelivery = func(a *wire.Assignment) {
			if a.JobID == string(core.JobIDFor("acme", "first")) {
				<-slow
			}
		}
		h.transport.mu.Unlock()
		for _, p := range busy {
			if err := h.done(p); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if first.hasEnded() || !second.hasEnded() || second.err != nil {
			t.Errorf("the delivery of the first has ended: %v; the second is placed: %v, %v", first.hasEnded(), second.hasEnded(),
				second.err)
		}
		close(slow)
		synctest.Wait()
		if !first.hasEnded() || first.err != nil {
			t.Errorf("the first: %v, %v", first.hasEnded(), first.err)
		}
	})
}

// TestShortWaitForALimit: a request waits for the end of a job of its tenant however short its wait is.
func TestShortWaitForALimit(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 1}, func(h *limited) {
		h.addNode("node-a", 8)
		busy := h.acknowledge(h.dispatch(ofAcme("busy")))
		waits := h.startWaiting(h.t.Context(), "w1", 300*time.Millisecond, ofAcme("w1"))
		time.Sleep(100 * time.Millisecond)
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !waits.hasEnded() || waits.err != nil {
			t.Errorf("ended %v, %v", waits.hasEnded(), waits.err)
		}
	})
}

// TestAudioIsNotInTheWay: a request without audio does not wait for one that the rate of audio forbids.
func TestAudioIsNotInTheWay(t *testing.T) {
	runLimited(t, core.TenantLimits{AudioRate: 60}, func(h *limited) {
		h.addNode("node-a", 8)
		h.dispatch(ofAcme("long"), func(s *core.Spec) { s.Utterance.AudioMS = 70_000 })
		spoken := h.startWaiting(h.t.Context(), "w1", 30*time.Second, ofAcme("w1"), func(s *core.Spec) { s.Utterance.AudioMS = 1000 })
		if spoken.hasEnded() {
			t.Fatalf("it did not wait: %v", spoken.err)
		}
		silent := h.startWaiting(h.t.Context(), "w2", 40*time.Second, ofAcme("w2"))
		if !silent.hasEnded() || silent.err != nil {
			t.Errorf("without audio: ended %v, %v", silent.hasEnded(), silent.err)
		}
		<-spoken.done
		if took := spoken.endedAt.Sub(spoken.beganAt); spoken.err != nil || took < 10*time.Second || took > 13*time.Second {
			t.Errorf("with audio: %v after %s, want 10 s", spoken.err, took)
		}
	})
}

// TestCountOfAWaitingRequest: a request that waits for a slot is counted, for as long as it waits and then as its job.
func TestCountOfAWaitingRequest(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 2, DispatchRate: 0.01}, func(h *limited) {
		h.addNode("node-a", 1)
		defer h.renewInBackground()()
		busy := h.acknowledge(h.dispatch(withRequestID("of-another")))
		waits := h.startWaiting(h.t.Context(), "w1", time.Minute, ofAcme("w1"))
		h.advance(20*time.Second, "node-a")
		h.wantInFlight(1)
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !waits.hasEnded() || waits.err != nil {
			t.Fatalf("it was not placed: %v", waits.err)
		}
		h.wantInFlight(1)
		h.acknowledge(waits.placement)
		h.advance(20*time.Second, "node-a") // longer than the count of a waiting request
		h.wantInFlight(1)
		if err := h.done(waits.placement); err != nil {
			t.Fatal(err)
		}
		h.wantInFlight(0)
	})
}

// TestRefusedWaitCountsForNothing: a request that got no slot gives its count and its tokens back.
func TestRefusedWaitCountsForNothing(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 2, DispatchRate: 0.01}, func(h *limited) {
		h.addNode("node-a", 1)
		h.acknowledge(h.dispatch(withRequestID("of-another")))
		refused := h.startWaiting(h.t.Context(), "w1", 5*time.Second, ofAcme("w1"))
		h.wantInFlight(1)
		h.advance(6*time.Second, "node-a")
		if !refused.hasEnded() || refused.err == nil || refused.err.Code != wire.AllCandidatesFullOrFailed {
			t.Errorf("ended %v, %+v", refused.hasEnded(), refused.err)
		}
		if got := h.use(); got != (store.TenantUse{}) {
			t.Errorf("a refused request counts as %+v", got)
		}
	})
}

// TestCountOfADeadInstance: the count of a waiting request whose instance has died expires within seconds.
func TestCountOfADeadInstance(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 1}, func(h *limited) {
		h.addNode("node-a", 1)
		h.acknowledge(h.dispatch(withRequestID("of-another")))
		waits := h.startWaiting(h.t.Context(), "w1", time.Minute, ofAcme("w1"))
		h.wantInFlight(1)
		h.advance(16*time.Second, "node-a") // nobody renews it
		h.wantInFlight(0)
		h.advance(time.Minute, "node-a")
		<-waits.done
	})
}

// TestExpiredCountIsNotUsed: a waiting request whose count has expired is not placed beyond the limit.
func TestExpiredCountIsNotUsed(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 1}, func(h *limited) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1, func(p *core.Change) { p.Semantic = core.LangSet{"de", "fr"} })
		busy := h.acknowledge(h.dispatch(withRequestID("of-another")))
		waits := h.startWaiting(h.t.Context(), "w1", time.Minute, ofAcme("w1"))
		h.advance(16*time.Second, "node-a", "node-b")
		second := h.dispatch(ofAcme("r2"), func(s *core.Spec) { s.Direction = core.Direction{Src: "de", Tgt: "fr"} })
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if waits.hasEnded() {
			t.Fatalf("it was placed, and the limit is exceeded: %+v, %v", waits.placement, waits.err)
		}
		h.wantInFlight(1)
		if err := h.done(second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !waits.hasEnded() || waits.err != nil {
			t.Errorf("when there was room again: ended %v, %v", waits.hasEnded(), waits.err)
		}
	})
}

// TestCountOfAnUncertainJob: the count of a request that waited expires if it is not known whether its job exists.
func TestCountOfAnUncertainJob(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 1}, func(h *limited) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch(withRequestID("of-another")))
		waits := h.startWaiting(h.t.Context(), "w1", time.Minute, ofAcme("w1"))
		defer h.renewInBackground()()
		h.advance(time.Second, "node-a")
		h.wantInFlight(1)
		h.harness.store.onReserve = func(store.ReserveParams, store.Verdict) { // the store does not answer from now on
			h.harness.store.failNext(true, "create", 1_000_000)
			h.harness.store.failNext(true, "apply", 1_000_000)
		}
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		h.advance(time.Minute+3*timing.Job, "node-a")
		if !waits.hasEnded() || waits.err == nil {
			t.Fatalf("ended %v, %v", waits.hasEnded(), waits.err)
		}
		h.wantInFlight(0)
	})
}

// TestLostCountOfAWaitingRequest: a count of a waiting request that the store has lost is restored.
func TestLostCountOfAWaitingRequest(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 1}, func(h *limited) {
		h.addNode("node-a", 1)
		h.acknowledge(h.dispatch(withRequestID("of-another")))
		waits := h.startWaiting(h.t.Context(), "w1", time.Minute, ofAcme("w1"))
		h.store.Tenants = memstore.New(timing)
		h.wantInFlight(0)
		defer h.renewInBackground()()
		h.advance(2*tenants.RenewJobsInterval, "node-a")
		h.wantInFlight(1)
		h.advance(time.Minute, "node-a")
		<-waits.done
		h.wantInFlight(0)
	})
}

// TestCountIsNotRestoredAfterItsEnd: a request that stops waiting while its lost count is restored is not counted afterwards.
func TestCountIsNotRestoredAfterItsEnd(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 1}, func(h *limited) {
		h.addNode("node-a", 1)
		h.acknowledge(h.dispatch(withRequestID("of-another")))
		ctx, cancel := context.WithCancel(h.t.Context())
		waits := h.startWaiting(ctx, "w1", time.Minute, ofAcme("w1"))
		h.store.Tenants = memstore.New(timing)
		ended := false
		h.store.beforeRestore.set(func() {
			cancel()
			<-waits.done
			time.Sleep(100 * time.Millisecond) // its count is removed meanwhile
			ended = true
		})
		defer h.renewInBackground()()
		h.advance(2*tenants.RenewJobsInterval, "node-a")
		if !ended {
			t.Fatal("the count was not restored")
		}
		h.wantInFlight(0)
	})
}

// TestLongWaitForALimitJoinsAShortOne: of the same request that is sent twice, the one that may wait longer goes on waiting for the limit
// of its tenant.
func TestLongWaitForALimitJoinsAShortOne(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 1}, func(h *limited) {
		h.addNode("node-a", 8)
		busy := h.acknowledge(h.dispatch(ofAcme("busy")))
		short := h.startWaiting(h.t.Context(), "same", 200*time.Millisecond, ofAcme("same"))
		long := h.startWaiting(h.t.Context(), "same", 20*time.Second, ofAcme("same"))
		h.advance(time.Second, "node-a")
		if !short.hasEnded() || short.err == nil || short.err.Code != wire.RateLimited || long.hasEnded() {
			t.Fatalf("short ended %v with %v, long ended %v with %v", short.hasEnded(), short.err, long.hasEnded(), long.err)
		}
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !long.hasEnded() || long.err != nil {
			t.Errorf("long: %v, %v", long.hasEnded(), long.err)
		}
	})
}

// TestRetryTimeOfARateIsCurrent: a request that is refused because others wait for the rate of its tenant is told how long that takes from
// now on.
func TestRetryTimeOfARateIsCurrent(t *testing.T) {
	runLimited(t, core.TenantLimits{DispatchRate: 0.1}, func(h *limited) {
		h.addNode("node-a", 8)
		h.dispatch(ofAcme("r1"))
		waits := h.startWaiting(h.t.Context(), "w1", 30*time.Second, ofAcme("w1"))
		h.advance(6*time.Second, "node-a")
		refused := h.startWaiting(h.t.Context(), "w2", time.Second, ofAcme("w2"))
		if !refused.hasEnded() || refused.err == nil || refused.err.RetryAfterMS < 3500 || refused.err.RetryAfterMS > 4100 ||
			refused.err.RetryAfter != 4 {
			t.Errorf("6 s after a refusal for 10 s: %v, %+v", refused.hasEnded(), refused.err)
		}
		joins := h.startWaiting(h.t.Context(), "w3", 5*time.Second, ofAcme("w3"))
		if joins.hasEnded() {
			t.Errorf("it may wait until the rate admits one: %+v", joins.err)
		}
		h.advance(20*time.Second, "node-a")
		<-waits.done
		<-joins.done
	})
}
