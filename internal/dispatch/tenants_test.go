package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
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

// tenantStore counts the calls of a store of tenants, and loses replies of admissions.
type tenantStore struct {
	store.Tenants
	calls atomic.Int64
	lose  atomic.Int64 // replies of admissions that are lost

	beforeRestore hook
}

func (s *tenantStore) AdmitMember(ctx context.Context, p store.MemberParams) (store.TenantVerdict, error) {
	s.calls.Add(1)
	if p.Restore {
		s.beforeRestore.call()
	}
	v, err := s.Tenants.AdmitMember(ctx, p)
	if s.lose.Add(-1) >= 0 {
		return store.TenantVerdict{}, store.ErrDown
	}
	return v, err
}

func (s *tenantStore) RemoveMember(ctx context.Context, p store.MemberParams) error {
	s.calls.Add(1)
	return s.Tenants.RemoveMember(ctx, p)
}

// limited is a harness whose tenant acme has limits.
type limited struct {
	*harness
	gate  *tenants.Gate
	store *tenantStore
}

// runLimited runs a test with limits of the tenant acme.
func runLimited(t *testing.T, limits core.TenantLimits, fn func(h *limited)) {
	t.Helper()
	t.Parallel()
	h := new(limited)
	runWith(t, func(cfg *dispatch.Config) {
		h.store = &tenantStore{Tenants: memstore.New(timing)}
		current := tenants.NewCurrent(tenants.NewTable(map[core.TenantID]core.TenantLimits{"acme": limits}))
		h.gate = tenants.NewGate(current, h.store, func(store.TenantLimit) {})
		cfg.Tenants = h.gate
	}, func(inner *harness) {
		h.harness = inner
		fn(h)
	})
}

// ofAcme makes a request one of the tenant acme.
func ofAcme(id string) func(*core.Spec) {
	return func(s *core.Spec) { s.Request, s.Tenant = core.RequestID(id), "acme" }
}

// use returns what acme uses, when nothing is on its way.
func (h *limited) use() store.TenantUse {
	h.t.Helper()
	synctest.Wait()
	use, err := h.gate.Use(h.t.Context(), []core.TenantID{"acme"})
	if err != nil {
		h.t.Fatal(err)
	}
	return use[0]
}

func (h *limited) wantInFlight(want int) {
	h.t.Helper()
	if got := h.use().InFlight; got != want {
		h.t.Errorf("%d jobs of acme are counted, want %d", got, want)
	}
}

func TestTenantInFlightLimit(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 2}, func(h *limited) {
		h.addNode("node-a", 8)
		first := h.dispatch(ofAcme("r1"))
		h.dispatch(ofAcme("r2"))
		e := h.dispatchRefused(ofAcme("r3"))
		if e.Code != wire.RateLimited || e.RetryAfterMS <= 0 ||
			!strings.Contains(e.Detail, "tenant acme has 2 jobs in flight, and its max_in_flight is 2") {
			t.Errorf("%+v", e)
		}
		h.dispatch(withRequestID("of-another")) // tenants are counted on their own
		h.wantInFlight(2)
		if n := h.inFlight("node-a"); n != 3 {
			t.Errorf("%d slots are taken, want 3", n)
		}
		if err := h.done(first); err != nil {
			t.Fatal(err)
		}
		h.wantInFlight(1)
		h.dispatch(ofAcme("r3"))
		if got := h.gate.Refusals()["acme"][store.LimitInFlight]; got != 1 {
			t.Errorf("%d refusals are counted, want 1", got)
		}
	})
}

// TestTenantWithoutLimitsCostsNothing: no call of the store is made for a tenant that has no limit, nor for a probe of one that has.
func TestTenantWithoutLimitsCostsNothing(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 1}, func(h *limited) {
		h.addNode("node-a", 8)
		for i := range 3 {
			if err := h.done(h.dispatch(withRequestID(fmt.Sprint("r", i)))); err != nil {
				t.Fatal(err)
			}
		}
		h.dispatch(ofAcme("probe"), func(s *core.Spec) { s.TestJob, s.Options.PreferredNodeID, s.Options.Strict = true, new("node-a"), true })
		synctest.Wait()
		if n := h.store.calls.Load(); n != 0 {
			t.Errorf("%d calls were made, want none", n)
		}
	})
}

// TestRefusedRequestsCountForNothing: requests that are not jobs in the end keep neither a place nor a token, however they fail.
func TestRefusedRequestsCountForNothing(t *testing.T) {
	limits := core.TenantLimits{InFlight: 1, DispatchRate: 0.01, AudioRate: 1}
	withAudio := func(s *core.Spec) { s.Utterance.AudioMS = 5000 }
	for name, prepare := range map[string]func(h *limited){
		"no slot is free":              func(*limited) {},
		"the reply of admit is lost":   func(h *limited) { h.store.lose.Store(1) },
		"the reply of create is lost":  func(h *limited) { h.harness.store.failNext(false, "create", 1) },
		"the record cannot be written": func(h *limited) { h.harness.store.failNext(true, "create", 1) },
		"the only node refuses it":     func(h *limited) { h.transport.failWith("node-a", dispatch.ErrRefused) },
	} {
		t.Run(name, func(t *testing.T) {
			runLimited(t, limits, func(h *limited) {
				if name != "no slot is free" {
					h.addNode("node-a", 1)
				}
				prepare(h)
				h.dispatchRefused(ofAcme("r1"), withAudio)
				h.advance(2 * time.Second)
				if got := h.use(); got != (store.TenantUse{}) {
					t.Errorf("it counts as %+v", got)
				}
				h.addNode("node-b", 1)
				h.dispatch(ofAcme("r2"), withAudio)
				h.wantInFlight(1)
			})
		})
	}
}

// TestRepeatedRequestOfATenant: a repeated request is answered with its job, whatever the limits are, and counts once.
func TestRepeatedRequestOfATenant(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 1, DispatchRate: 0.5}, func(h *limited) {
		h.addNode("node-a", 8)
		first := h.dispatch(ofAcme("r1"))
		other := dispatch.New(dispatch.Config{
			Instance: "i-other", DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second, AttemptTimeout: timing.Attempt,
			JobTimeout: timing.Job, Tenants: h.gate,
		}, h.harness.store, h.fleet, h.picker, h.transport, nil, h.metrics, h.log)
		defer other.Close()
		repeat := func() {
			t.Helper()
			p, err := other.Dispatch(h.t.Context(), dispatch.Request{Spec: spec(ofAcme("r1"))})
			if err != nil || p.Job != first.Job {
				t.Errorf("the repeated request got %+v, %v, want job %s", p, err, first.Job)
			}
		}
		repeat() // at the limit
		h.wantInFlight(1)
		if err := h.done(first); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the bucket is full
		repeat()                    // admitted, and then found to have ended
		if got := h.use(); got != (store.TenantUse{}) {
			t.Errorf("a repeated request counts as %+v", got)
		}
	})
}

// TestEndedJobsOfATenant: however a job ends, it is no longer counted, and while it is retried it is counted once.
func TestEndedJobsOfATenant(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 4, DispatchRate: 100}, func(h *limited) {
		h.addNode("node-a", 2)
		h.addNode("node-b", 2)
		h.addNode("node-c", 2)
		failing, cancelled := h.dispatch(ofAcme("r1")), h.dispatch(ofAcme("r2"))
		for range 3 {
			h.wantInFlight(2)
			if err := h.fail(h.placementOf(failing.Job), core.ReasonNodeFailed); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		h.wantState(failing.Job, core.StateFailed, core.ReasonMaxRetry)
		h.wantInFlight(1)
		if _, ok, err := h.dispatcher.Cancel(h.t.Context(), cancelled.Job); !ok || err != nil {
			t.Fatal(ok, err)
		}
		h.wantInFlight(0)
		silent := h.dispatch(ofAcme("r3"))
		h.advance(timing.Job+5*time.Second, "node-a", "node-b", "node-c")
		if job := h.job(silent.Job); !job.State.Terminal() {
			t.Fatalf("the job is %s", job.State)
		}
		h.wantInFlight(0)
	})
}

// TestWaitsForTheLimitOfItsTenant: a request that waits is placed as soon as its tenant has room, also if its node was free all the time,
// and is refused by the limit only when its time is over.
func TestWaitsForTheLimitOfItsTenant(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 1}, func(h *limited) {
		h.addNode("node-a", 8)
		h.addNode("node-b", 8, func(p *core.Change) { p.Semantic = core.LangSet{"de", "fr"} })
		other := func(s *core.Spec) { s.Direction = core.Direction{Src: "de", Tgt: "fr"} }
		first := h.dispatch(ofAcme("r1"))
		second := h.startWaiting(h.t.Context(), "r2", 10*time.Second, ofAcme("r2"), other)
		h.advance(2050*time.Millisecond, "node-a", "node-b")
		if second.hasEnded() {
			t.Fatal("it did not wait")
		}
		ended := time.Now()
		if err := h.done(first); err != nil {
			t.Fatal(err)
		}
		<-second.done
		if second.err != nil || second.endedAt != ended {
			t.Errorf("the second was placed %s after the first had ended, %v", second.endedAt.Sub(ended), second.err)
		}
		third := h.startWaiting(h.t.Context(), "r3", 3*time.Second, ofAcme("r3"))
		<-third.done
		if took := third.endedAt.Sub(third.beganAt); third.err == nil || third.err.Code != wire.RateLimited || took < 2*time.Second ||
			took > 3*time.Second {
			t.Errorf("the third: %+v after %s", third.err, took)
		}
		h.wantInFlight(1)
	})
}

// TestWaitsForTheRateOfItsTenant: a request waits until the rate of its tenant admits it, if that is soon enough, and otherwise is refused
// at once, with the time after which it would be.
func TestWaitsForTheRateOfItsTenant(t *testing.T) {
	runLimited(t, core.TenantLimits{DispatchRate: 0.5, AudioRate: 60}, func(h *limited) {
		h.addNode("node-a", 8)
		h.dispatch(ofAcme("r1"))
		second := h.startWaiting(h.t.Context(), "r2", 5*time.Second, ofAcme("r2"))
		<-second.done
		if took := second.endedAt.Sub(second.beganAt); second.err != nil || took < 2*time.Second || took > 3*time.Second {
			t.Errorf("the second: %v after %s", second.err, took)
		}
		h.gate.Replace(tenants.NewTable(map[core.TenantID]core.TenantLimits{"acme": {AudioRate: 60}}))
		long := func(s *core.Spec) { s.Utterance.AudioMS = 90_000 }
		h.dispatch(ofAcme("r3"), long)
		refused := h.startWaiting(h.t.Context(), "r4", 5*time.Second, ofAcme("r4"), long)
		if !refused.hasEnded() || refused.err == nil || refused.err.RetryAfterMS < 29_000 || refused.err.RetryAfterMS > 30_000 ||
			!strings.Contains(refused.err.Detail, "audio_seconds_per_minute of 60") {
			t.Errorf("after too much audio: %+v", refused.err)
		}
		h.dispatch(ofAcme("r5")) // its audio is not known
	})
}

// TestLostCountsAreRestored: the store loses what it has counted, and the instance that runs the jobs counts them again.
func TestLostCountsAreRestored(t *testing.T) {
	runLimited(t, core.TenantLimits{InFlight: 2}, func(h *limited) {
		h.addNode("node-a", 8)
		first := h.dispatch(ofAcme("r1"))
		h.dispatch(ofAcme("r2"))
		h.store.Tenants = memstore.New(timing)
		h.wantInFlight(0)
		defer h.renewInBackground()()
		h.advance(2*tenants.RenewJobsInterval, "node-a")
		h.wantInFlight(2)
		if err := h.done(first); err != nil {
			t.Fatal(err)
		}
		h.advance(2*tenants.RenewJobsInterval, "node-a")
		h.wantInFlight(1)
	})
}
