package dispatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/waiting"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// explainWait explains a job with a new snapshot.
func (h *harness) explainWait(maxWait time.Duration, onlyTenant bool, change ...func(*core.Spec)) dispatch.Explanation {
	h.t.Helper()
	time.Sleep(300 * time.Millisecond)
	synctest.Wait()
	s := spec(change...)
	if ms := maxWait.Milliseconds(); maxWait != 0 {
		s.Options.MaxWaitMS = &ms
	}
	x, err := h.dispatcher.Explain(h.t.Context(), dispatch.ExplainParams{Spec: s, Limit: 10, OnlyTenant: onlyTenant})
	if err != nil {
		h.t.Fatal(err)
	}
	return x
}

// TestExplainSaysWhatTheWaitWouldBe: place, how many wait, in other classes too, and an estimate when slots were granted. It says that a
// request could not wait exactly if a dispatch is refused.
func TestExplainSaysWhatTheWaitWouldBe(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1, func(p *core.Change) {
			p.Services = []core.Service{{ID: "asr", Version: "1", Status: core.ServiceReady}}
		})
		h.addNode("other", 1, func(p *core.Change) { p.Semantic = core.LangSet{"fr", "de"} })
		if x := h.explainWait(0, false); x.Verdict != "" || x.Wait != nil {
			t.Errorf("a slot is free: %+v", x)
		}
		french := func(s *core.Spec) { s.Direction = core.Direction{Src: "fr", Tgt: "de"} }
		busy := h.acknowledge(h.dispatch(withRequestID("busy")))
		h.dispatch(withRequestID("busy-fr"), french)
		if x := h.explainWait(0, false); x.Verdict != wire.AllCandidatesFullOrFailed || !cmp.Equal(x.Wait, &waiting.Explained{
			Place: 1, Estimate: waiting.EstimateUnknown,
			Detail: "With options.max_wait_ms it would wait as number 1 of its tenant; how long is not known.",
		}) {
			t.Errorf("nobody waits: %s %+v", x.Verdict, x.Wait)
		}
		start := func(id string, change ...func(*core.Spec)) *waitingRequest {
			return h.startWaiting(h.t.Context(), id, time.Minute, change...)
		}
		waiters := []*waitingRequest{start("a-1", ofTenant("acme")), start("a-2", ofTenant("acme")), start("b-1", ofTenant("beta")),
			start("r-1", ofTenant("beta"), requiring("asr"))}
		start("f-1", ofTenant("beta"), french)
		want := &waiting.Explained{
			Place: 3, TenantWaiting: 2, Estimate: waiting.EstimateUnknown, OtherTenants: 1, OtherClasses: 1,
			Detail: "With options.max_wait_ms it would wait as number 3 of its tenant; how long is not known. Of other tenants, 1 wait " +
				"for the same. In other classes, 1 wait for some of the same nodes.",
		}
		if x := h.explainWait(0, false, ofTenant("acme")); !cmp.Equal(want, x.Wait) {
			t.Errorf("(-want +got)\n%s", cmp.Diff(want, x.Wait))
		}
		if x := h.explainWait(time.Second, false, ofTenant("acme")); x.Wait.Place != 1 { // its deadline is the earliest
			t.Errorf("with an earlier deadline: %+v", x.Wait)
		}
		want.OtherTenants, want.OtherClasses = -1, -1
		want.Detail = "With options.max_wait_ms it would wait as number 3 of its tenant; how long is not known."
		if x := h.explainWait(0, true, ofTenant("acme")); !cmp.Equal(want, x.Wait) {
			t.Errorf("for a tenant (-want +got)\n%s", cmp.Diff(want, x.Wait))
		}
		for i := range 12 { // the class learns how often it gets a slot
			h.advance(time.Second, "node-a", "other")
			if err := h.done(busy); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			busy = h.acknowledge(takePlaced(t, &waiters))
			waiters = append(waiters, start(fmt.Sprint("n-", i), ofTenant("beta")))
		}
		x := h.explainWait(0, false, ofTenant("acme"))
		if x.Verdict != wire.AllCandidatesFullOrFailed || x.Wait.Estimate < time.Second || x.Wait.Refusal != "" {
			t.Fatalf("%s %+v", x.Verdict, x.Wait)
		}
		for wait, code := range map[time.Duration]wire.Code{x.Wait.Estimate - time.Millisecond: wire.CannotBeMet,
			x.Wait.Estimate + 5*time.Second: wire.AllCandidatesFullOrFailed} {
			got := h.explainWait(wait, false, ofTenant("acme"))
			if got.Verdict != code || (got.Wait.Refusal == wire.CannotBeMet) != (code == wire.CannotBeMet) {
				t.Errorf("with a wait of %v: %s %+v", wait, got.Verdict, got.Wait)
			}
			one := h.startWaiting(h.t.Context(), fmt.Sprint("try-", wait), wait, ofTenant("acme"))
			if refused := one.hasEnded() && one.err.Code == wire.CannotBeMet; refused != (code == wire.CannotBeMet) {
				t.Errorf("with a wait of %v the dispatch is refused: %t", wait, refused)
			}
		}
	})
}

// TestExplainSaysThatTheQueueIsFull: it does when a dispatch would be refused because too many wait.
func TestExplainSaysThatTheQueueIsFull(t *testing.T) {
	t.Parallel()
	runWith(t, func(c *dispatch.Config) { c.MaxWaiting = 2 }, func(h *harness) {
		h.addNode("node-a", 1)
		h.dispatch()
		for i := range 3 {
			for _, tenant := range []core.TenantID{"acme", "beta"} {
				x := h.explainWait(time.Minute, false, ofTenant(tenant))
				one := h.startWaiting(h.t.Context(), fmt.Sprint(tenant, i), time.Minute, ofTenant(tenant))
				full := one.hasEnded() && one.err.Code == wire.QueueFull
				if x.Verdict != map[bool]wire.Code{true: wire.QueueFull, false: wire.AllCandidatesFullOrFailed}[full] ||
					(x.Wait.Refusal == wire.QueueFull) != full || full != (i > 0) {
					t.Errorf("request %d of %s is refused as full: %t, and explained as %s %+v", i, tenant, full, x.Verdict, x.Wait)
				}
			}
		}
	})
}

// TestExplainLeavesSlotsToThoseWhoWait: a slot that is free and for which others wait is not offered to a new request, and explain says so.
func TestExplainLeavesSlotsToThoseWhoWait(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.addNode("node-b", 1, func(p *core.Change) {
			p.Services = []core.Service{{ID: "asr", Version: "1", Status: core.ServiceReady}}
		})
		busy := h.acknowledge(h.dispatch(requiring("asr")))
		h.startWaiting(h.t.Context(), "w", time.Minute, requiring("asr"))
		h.store.failNext(true, "offer", 1000) // the slot is free, and nobody is offered it
		if err := h.done(busy); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		x := h.explainWait(0, false)
		if len(x.Nodes) != 2 || x.Nodes[0].Reason != core.ReasonNone || x.Nodes[1].Reason != core.ReasonFull || x.Verdict != "" {
			t.Errorf("%s: %+v", x.Verdict, x.Nodes)
		}
		if p := h.dispatch(withRequestID("another")); p.Node != "node-a" {
			t.Errorf("the job is on %s", p.Node)
		}
	})
}
