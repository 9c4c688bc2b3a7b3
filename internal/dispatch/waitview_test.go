package dispatch_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/waiting"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// viewWaiting is ViewWaiting with a new snapshot.
func (h *harness) viewWaiting(p waiting.ViewParams) *waiting.View {
	h.t.Helper()
	time.Sleep(300 * time.Millisecond) // an older snapshot is not shown
	if p.Limit == 0 {
		p.Limit = 1000
	}
	synctest.Wait()
	v, err := h.dispatcher.Waiting.View(h.t.Context(), p)
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// describe lists the requests of a view: tenant, request, pool, requirements, place.
func describe(v *waiting.View, names map[core.JobID]string) []string {
	list := []string{}
	for i := range v.Requests {
		r := &v.Requests[i]
		list = append(list, fmt.Sprintf("%s %s %q %s %q %d", names[r.Job], r.Tenant, r.Pool, r.Class.Direction, r.Class.Requires, r.Place))
	}
	return list
}

// TestViewWaiting: every request that waits is shown, with its class, its place and its pool, the oldest first.
func TestViewWaiting(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.divideForExplanations(func(*core.Pools) {})
		names := make(map[core.JobID]string)
		start := func(name string, wait time.Duration, change ...func(*core.Spec)) {
			s := spec(append(change, withRequestID(name))...)
			names[s.Job()] = name
			if h.startWaiting(h.t.Context(), name, wait, change...).hasEnded() {
				t.Fatalf("%s does not wait", name)
			}
			time.Sleep(10 * time.Millisecond)
		}
		for i := range 4 {
			h.dispatch(withRequestID(fmt.Sprint("busy-", i)))
		}
		start("late", 50*time.Second, ofTenant("delta"))
		start("bound", 30*time.Second, ofTenant("acme"))
		start("early", 20*time.Second, ofTenant("delta"))
		start("requires", 20*time.Second, ofTenant("gamma"), requiring("asr-small"))

		all := h.viewWaiting(waiting.ViewParams{})
		want := []string{
			`late delta "" en→zh [] 2`, `bound acme "large" en→zh [] 1`, `early delta "" en→zh [] 1`,
			`requires gamma "" en→zh ["service(asr-small)"] 1`,
		}
		if diff := cmp.Diff(want, describe(all, names)); diff != "" || all.Total != 4 || all.Truncated {
			t.Errorf("total %d, truncated %t, requests (-want +got)\n%s", all.Total, all.Truncated, diff)
		}
		for i := range all.Requests {
			r := &all.Requests[i]
			if r.Instance != "i-test" || r.Estimate != waiting.EstimateUnknown || r.Deadline <= all.Now || r.Since >= all.Now {
				t.Errorf("%s: %+v at %d", names[r.Job], r, all.Now)
			}
		}
		counts := func(groups []waiting.ViewedGroup) (list []string) {
			for _, g := range groups {
				text := fmt.Sprintf("%q %d", g.Pool, g.Waiting)
				if g.Tenant != nil {
					text += fmt.Sprintf(" %s %g", *g.Tenant, g.Weight)
				}
				if g.Class != nil {
					text += fmt.Sprintf(" %q", g.Class.Requires)
				}
				list = append(list, text)
			}
			return list
		}
		groups := [][]string{counts(all.Pools), counts(all.Tenants), counts(all.Classes)}
		if diff := cmp.Diff([][]string{{`"" 3`, `"large" 1`}, {`"" 2 delta 1`, `"" 1 gamma 1`, `"large" 1 acme 1`},
			{`"" 2 []`, `"" 1 ["service(asr-small)"]`, `"large" 1 []`}}, groups); diff != "" {
			t.Errorf("groups (-want +got)\n%s", diff)
		}
		if all.Pools[0].Oldest != all.Requests[0].Since || all.Tenants[2].Oldest != all.Requests[1].Since {
			t.Errorf("the oldest: %+v", all.Pools)
		}

		delta, large := core.TenantID("delta"), core.PoolID("large")
		for name, c := range map[string]struct {
			params waiting.ViewParams
			total  int
			want   []string
		}{
			"tenant":  {waiting.ViewParams{Tenant: &delta}, 2, []string{want[0], want[2]}},
			"pool":    {waiting.ViewParams{Pool: &large}, 1, want[1:2]},
			"no pool": {waiting.ViewParams{Pool: new(core.PoolID)}, 3, []string{want[0], want[2], want[3]}},
			"both":    {waiting.ViewParams{Tenant: &delta, Pool: &large}, 0, []string{}},
			"limit":   {waiting.ViewParams{Limit: 3}, 4, want[:3]},
		} {
			v := h.viewWaiting(c.params)
			if diff := cmp.Diff(c.want, describe(v, names)); diff != "" || v.Total != c.total || v.Truncated != (name == "limit") {
				t.Errorf("%s: total %d, truncated %t (-want +got)\n%s", name, v.Total, v.Truncated, diff)
			}
			if c.params.Tenant != nil && len(v.Tenants) > 1 {
				t.Errorf("%s: the tenants are %+v", name, v.Tenants)
			}
		}
	})
}

// TestKnowsPool: all pools are known, and a tenant knows only its own.
func TestKnowsPool(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.divideForExplanations(func(*core.Pools) {})
		acme, beta := core.TenantID("acme"), core.TenantID("beta")
		for _, c := range []struct {
			pool   core.PoolID
			tenant *core.TenantID
			want   bool
		}{{"", nil, true}, {"large", nil, true}, {"unknown", nil, false}, {"", &beta, true}, {"large", &beta, false},
			{"large", &acme, true}, {"small", &acme, false}} {
			if got := h.dispatcher.Waiting.KnowsPool(c.pool, c.tenant); got != c.want {
				t.Errorf("the pool %q for %v: %t", c.pool, c.tenant, got)
			}
		}
	})
}

// TestViewHasAllPages: a queue with more flows than a page is shown as a whole.
func TestViewHasAllPages(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.dispatch()
		ctx, cancel := context.WithCancel(h.t.Context())
		want := make(map[string]int)
		for i := range 300 {
			tenant := fmt.Sprint("tenant-", i%150)
			want[tenant]++
			change := func(s *core.Spec) {
				if s.Tenant = core.TenantID(tenant); i%3 == 0 {
					s.Options.PreferredNodeID, s.Options.Strict = new("node-a"), true
				}
			}
			go func() {
				_, _ = h.dispatcher.Dispatch(ctx,
					dispatch.Request{Spec: spec(change, withRequestID(fmt.Sprint("w-", i))), Wait: &dispatch.Wait{
						Since: time.Now(), Until: time.Now().Add(time.Minute), Join: time.Now(),
					}})
			}()
		}
		synctest.Wait()
		v := h.viewWaiting(waiting.ViewParams{})
		got := make(map[string]int)
		for i := range v.Requests {
			got[v.Requests[i].Tenant]++
		}
		if diff := cmp.Diff(want, got); diff != "" || v.Total != 300 || len(v.Classes) != 2 || len(v.Tenants) != 150 {
			t.Errorf("total %d, %d classes, %d tenants (-want +got)\n%s", v.Total, len(v.Classes), len(v.Tenants), diff)
		}
		if v := h.viewWaiting(waiting.ViewParams{Limit: 10}); len(v.Requests) != 10 || len(v.Tenants) != 10 || len(v.Classes) != 2 ||
			!v.Truncated {
			t.Errorf("with a limit of 10: %d requests, %d tenants, truncated %t", len(v.Requests), len(v.Tenants), v.Truncated)
		}
		cancel()
		synctest.Wait()
	})
}

// TestViewWithoutStore: the view says that the store does not answer.
func TestViewWithoutStore(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.dispatch()
		one := h.startWaiting(h.t.Context(), "w", 30*time.Second)
		h.store.failNext(true, "view_queue", 1000)
		time.Sleep(time.Second)
		_, err := h.dispatcher.Waiting.View(h.t.Context(), waiting.ViewParams{Limit: 1})
		wantCode(t, err, wire.SchedulerDependencyDown)
		if one.hasEnded() {
			t.Errorf("the request does not wait: %v", one.err)
		}
	})
}

// TestWaitingShares: the view has what each tenant was granted in the last minute, and what it was entitled to by its weight. The
// estimate of a waiter is that with which it was put into the queue.
func TestWaitingShares(t *testing.T) {
	t.Parallel()
	runWith(t, withWeights(map[core.TenantID]float64{"acme": 3, "beta": 1}), func(h *harness) {
		h.addNode("node-a", 1)
		busy := h.acknowledge(h.dispatch())
		var estimates sync.Map // by job
		waits := make(map[core.TenantID][]*waitingRequest)
		n := 0
		enqueue := func(tenant core.TenantID) {
			n++
			one := &waitingRequest{beganAt: time.Now(), done: make(chan struct{})}
			s := spec(withRequestID(fmt.Sprint("w-", n)), ofTenant(tenant))
			waits[tenant] = append(waits[tenant], one)
			go func() {
				defer close(one.done)
				one.placement, _ = h.dispatcher.Dispatch(h.t.Context(), dispatch.Request{Spec: s, Wait: &dispatch.Wait{
					Since: one.beganAt, Until: one.beganAt.Add(10 * time.Minute), Join: one.beganAt,
					Announce: func(d time.Duration) { estimates.Store(s.Job(), d+250*time.Millisecond) },
				}})
			}()
			synctest.Wait()
		}
		keep := func() {
			for _, tenant := range []core.TenantID{"acme", "beta"} {
				for len(waits[tenant]) < 3 {
					enqueue(tenant)
				}
			}
		}
		grant := func() {
			h.advance(time.Second, "node-a")
			if err := h.done(busy); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for tenant, list := range waits {
				for i, one := range list {
					if one.hasEnded() {
						busy = h.acknowledge(one.placement)
						waits[tenant] = append(list[:i:i], list[i+1:]...)
						break
					}
				}
			}
		}
		for range 80 {
			keep()
			grant()
		}
		v := h.viewWaiting(waiting.ViewParams{})
		if len(v.Tenants) != 2 {
			t.Fatalf("%+v", v.Tenants)
		}
		for _, g := range v.Tenants {
			want := 15.0
			if *g.Tenant == "acme" {
				want = 45
			}
			s := g.Share
			if math.Abs(float64(s.Granted)-want) > 4 || math.Abs(s.Entitled-want) > 4 || s.Window < 50*time.Second ||
				s.Window > 65*time.Second || g.Weight != want/15 {
				t.Errorf("%s of weight %g: %+v, want about %g of a minute", *g.Tenant, g.Weight, s, want)
			}
		}
		h.checkWaitingCounts(80)
		enqueue("beta")
		compared := 0
		for i, r := range h.viewWaiting(waiting.ViewParams{}).Requests {
			if r.Since < time.Now().Add(-time.Second).UnixMilli() {
				continue // somebody was served since
			}
			compared++
			if want, _ := estimates.Load(r.Job); r.Estimate <= 0 || r.Estimate != want {
				t.Errorf("%d: the estimate is %v, and it was %v", i, r.Estimate, want)
			}
		}
		if compared != 1 {
			t.Errorf("%d estimates are compared", compared)
		}
	})
}

// checkWaitingCounts checks what metrics have of two tenants that have three requests each, but for one that was just served.
func (h *harness) checkWaitingCounts(wantServed uint64) {
	h.t.Helper()
	counted := h.dispatcher.Waiting.Counts()
	if n := counted.Tenants; n["acme"]+n["beta"] != 5 || n["acme"] < 2 || n["beta"] < 2 || counted.Pools[""] != 5 {
		h.t.Errorf("%+v wait", counted)
	}
	for tenant, want := range map[string]float64{"acme": 0.75, "beta": 0.25} {
		if s := counted.Shares[tenant]; math.Abs(s.Granted-s.Entitled) > 2 || s.Entitled < 45*want || s.Entitled > 60*want {
			h.t.Errorf("the share of %s is %+v", tenant, s)
		}
	}
	if served, unserved := h.countWaits(); served != wantServed || unserved != 0 {
		h.t.Errorf("%d waits were served, and %d were not", served, unserved)
	}
}

// countWaits returns how many waits were served, and how many were not.
func (h *harness) countWaits() (served, unserved uint64) {
	h.t.Helper()
	return h.waits(telemetry.WaitServed).GetSampleCount(), h.waits(telemetry.WaitUnserved).GetSampleCount()
}

// waits returns what is counted of the waits with an outcome.
func (h *harness) waits(outcome string) *dto.Histogram {
	h.t.Helper()
	var m dto.Metric
	if err := h.metrics.Waiting.Waits.WithLabelValues(outcome).(prometheus.Metric).Write(&m); err != nil {
		h.t.Fatal(err)
	}
	return m.GetHistogram()
}
