package server_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// waitingAs is GET /v1/waiting with a key.
func (ts *testScheduler) waitingAs(key, query string) wire.WaitingList {
	ts.t.Helper()
	var list wire.WaitingList
	ts.requestAs(key, "GET", "/v1/waiting"+query, nil).decode(&list)
	return list
}

// withPools divides the fleet, and binds the tenant acme to the pool large.
func withPools(c *config.Config) {
	p := &c.Scheduler.Phase3
	p.Enabled = true
	p.Pools = []config.PoolTable{{PoolID: "large", RequiredServices: []string{"asr-large"}}, {PoolID: "small", RequiredServices: []string{"asr-small"}}}
	p.TenantOverrides = []config.TenantOverride{{TenantID: "acme", PoolID: "large"}}
}

// TestWaitingIsShown: who waits, where, for what and since when. A caller of one tenant sees only what is of that tenant.
func TestWaitingIsShown(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithRoles(t, withPools)
	ts.requestAs(gpuToken, "POST", "/v1/node/register", declaration("gpu-1", ts.newNode("gpu-1").callback()).with(object{
		"max_concurrent_jobs": 1, "installed_services": []object{service("asr-large", "asr")},
	})).decode(new(wire.RegisterResponse))
	ts.requestAs(operatorKey, "POST", "/v1/dispatch/f2f", dispatchBody(nil)).decode(new(wire.DispatchResponse))
	if got := ts.waitingAs(viewerKey, ""); got.Total != 0 || got.Requests == nil || got.Tenants == nil || got.NowMS == 0 {
		t.Errorf("nobody waits: %+v", got)
	}
	start := func(id string, change object) {
		ts.postAsyncAs(t.Context(), operatorKey, "/v1/dispatch/f2f", waitingBody(id, 60_000).with(change))
	}
	start("a-1", object{"tenant_id": "acme"})
	ts.eventually("acme waits", func() bool { return ts.waitingAs(viewerKey, "").Total == 1 })
	start("b-1", object{"tenant_id": "beta"})
	ts.eventually("beta waits", func() bool { return ts.waitingAs(viewerKey, "").Total == 2 })
	start("c-1", object{"options": object{"max_wait_ms": 60_000, "required_services": []string{"asr-large"}}})
	ts.eventually("all wait", func() bool { return ts.waitingAs(viewerKey, "").Total == 3 })

	got := ts.waitingAs(viewerKey, "")
	plain, large := wire.WaitingRequirements{SrcLang: "en", TgtLang: "zh", Requires: []string{}}, wire.WaitingRequirements{SrcLang: "en", TgtLang: "zh", Requires: []string{"service(asr-large)"}}
	share := &wire.WaitingShare{}
	want := wire.WaitingList{
		Total: 3,
		Requests: []wire.WaitingRequest{
			{TenantID: "acme", PoolID: "large", WaitingRequirements: plain, Place: 1},
			{TenantID: "beta", WaitingRequirements: plain, Place: 1},
			{WaitingRequirements: large, Place: 1},
		},
		Pools: []wire.WaitingPool{{Waiting: 2}, {PoolID: "large", Waiting: 1}},
		Classes: []wire.WaitingClass{
			{WaitingRequirements: plain, Waiting: 1}, {WaitingRequirements: large, Waiting: 1}, {PoolID: "large", WaitingRequirements: plain, Waiting: 1},
		},
		Tenants: []wire.WaitingTenant{{Waiting: 1, Weight: 1, Share: share}, {TenantID: "beta", Waiting: 1, Weight: 1, Share: share}, {PoolID: "large", TenantID: "acme", Waiting: 1, Weight: 1, Share: share}},
	}
	opts := cmp.Options{
		cmpopts.IgnoreFields(wire.WaitingList{}, "NowMS"), cmpopts.IgnoreFields(wire.WaitingRequest{}, "JobID", "SinceMS", "DeadlineMS", "Instance"),
		cmpopts.IgnoreFields(wire.WaitingRequirements{}, "ClassID"), cmpopts.IgnoreFields(wire.WaitingPool{}, "OldestMS"),
		cmpopts.IgnoreFields(wire.WaitingClass{}, "OldestMS"), cmpopts.IgnoreFields(wire.WaitingTenant{}, "OldestMS"), cmpopts.IgnoreFields(wire.WaitingShare{}, "WindowMS"),
		cmpopts.SortSlices(func(a, b wire.WaitingClass) bool {
			return a.PoolID+strings.Join(a.Requires, "") < b.PoolID+strings.Join(b.Requires, "")
		}),
	}
	if diff := cmp.Diff(want, got, opts); diff != "" {
		t.Errorf("what an operator sees (-want +got)\n%s", diff)
	}
	for _, w := range got.Requests {
		if w.JobID == "" || w.Instance == "" || w.ClassID == "" || w.SinceMS > got.NowMS || (w.DeadlineMS-w.SinceMS+500)/1000 != 60 {
			t.Errorf("at %d: %+v", got.NowMS, w)
		}
	}

	own := wire.WaitingList{
		Total: 1, Requests: want.Requests[:1], Pools: want.Pools[1:], Classes: want.Classes[2:], Tenants: []wire.WaitingTenant{{PoolID: "large", TenantID: "acme", Waiting: 1, Weight: 1}},
	}
	for _, key := range []string{acmeViewerKey, minterKey} {
		for _, query := range []string{"", "?tenant_id=acme", "?pool=large"} {
			if diff := cmp.Diff(own, ts.waitingAs(key, query), opts); diff != "" {
				t.Errorf("what acme sees with %q (-want +got)\n%s", query, diff)
			}
		}
		if got := ts.waitingAs(key, "?pool="); got.Total != 0 {
			t.Errorf("acme sees %+v", got)
		}
		ts.requestAs(key, "GET", "/v1/waiting?tenant_id=beta", nil).expectError(wire.Forbidden)
		if e := ts.requestAs(key, "GET", "/v1/waiting?pool=small", nil).expectError(wire.InvalidRequest); e.Field != "pool" { // it learns of no other pool
			t.Errorf("%+v", e)
		}
	}
	for query, total := range map[string]int{"?pool=large": 1, "?pool=small": 0, "?pool=": 2, "?tenant_id=beta": 1, "?tenant_id=unseen": 0, "?limit=1": 3} {
		if got := ts.waitingAs(viewerKey, query); got.Total != total || got.Truncated != (query == "?limit=1") || len(got.Requests) > total || got.Truncated && len(got.Requests) != 1 {
			t.Errorf("%s: %+v", query, got)
		}
	}

	ts.checkExplainedWait()
}

// checkExplainedWait: what the wait of acme would be, and who else waits, which a caller of acme is not told.
func (ts *testScheduler) checkExplainedWait() {
	ts.t.Helper()
	for key, others := range map[string]bool{viewerKey: true, acmeViewerKey: false} {
		x := ts.explainAs(key, dispatchBody(object{"tenant_id": "acme", "options": object{"max_wait_ms": 60_000}}))
		if w := x.Wait; x.Verdict != string(wire.AllCandidatesFullOrFailed) || w == nil || w.PoolID != "large" || w.Place != 2 || w.TenantWaiting != 1 ||
			w.EstimateMS != nil || w.Refusal != "" || (w.OtherTenants != nil) != others || (w.OtherClasses != nil) != others || others && *w.OtherClasses != 2 || strings.Contains(w.Detail, "other") != others {
			ts.t.Errorf("explained to %s: %s %+v", key, x.Verdict, w)
		}
	}
}
