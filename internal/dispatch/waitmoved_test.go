package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// TestWaitFollowsThePools: when the pools are defined otherwise, requests that wait get the slots to which they are entitled now.
func TestWaitFollowsThePools(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct{ before, after *core.Pools }{
		"bound":   {nil, goldAndSilver(isStrict)},
		"unbound": {goldAndSilver(isStrict), nil},
		"bound otherwise": {goldAndSilver(isStrict), goldAndSilver(isStrict, func(p *core.Pools) {
			p.Overrides = map[core.TenantID]core.PoolID{boundTenant: "silver"}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("g", 1, withServices("x"))
				h.addNode("s", 1, withServices("y"))
				jobs := map[core.NodeID]dispatch.Placement{}
				for _, id := range []string{"r-1", "r-2"} {
					p := h.acknowledge(h.dispatch(withRequestID(id)))
					jobs[p.Node] = p
				}
				h.fleet.SetPools(change.before)
				w := h.startWaiting(h.t.Context(), "w", 20*time.Second, ofTenant(boundTenant))
				h.advance(time.Second, "g", "s")
				h.fleet.SetPools(change.after)
				h.advance(time.Second, "g", "s")
				if n := h.dispatcher.Waiting.Waiting(); n != 1 || w.hasEnded() {
					t.Fatalf("%d requests wait, and it has ended: %v, %v", n, w.hasEnded(), w.err)
				}
				node := core.NodeID("s") // it may have the slot after the change only
				if name == "bound" {
					node = "g"
				}
				freed := time.Now()
				if err := h.done(jobs[node]); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !w.hasEnded() || w.placement.Node != node || w.endedAt != freed {
					t.Errorf("placed on %q, %v after the slot became free; %v", w.placement.Node, w.endedAt.Sub(freed), w.err)
				}
				if n := len(h.queued()); n != 0 {
					t.Errorf("%d requests are left in the queue", n)
				}
				if served, unserved := h.countWaits(); served != 1 || unserved != 0 {
					t.Errorf("%d served waits and %d others are counted, want one", served, unserved)
				}
			})
		})
	}
}

// TestRetryIsOneWait: a job that is retried and waits for long is counted as one wait, however often it gets another deadline.
func TestRetryIsOneWait(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		first, second := h.retryForTheOtherNode()
		h.advance(6*time.Second, "node-a", "node-b")
		if err := h.done(second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if job := h.job(first.Job); job.Node != second.Node || job.State != core.StateDispatched {
			t.Fatalf("the retry is %s on %s", job.State, job.Node)
		}
		if served, unserved := h.countWaits(); served != 1 || unserved != 0 {
			t.Errorf("%d served waits and %d others are counted, want one", served, unserved)
		}
		if took := h.waits(telemetry.WaitServed).GetSampleSum(); took < 5 || took > 6 {
			t.Errorf("it waited for %v s, want all of its wait of nearly 6 s", took)
		}
	})
}
