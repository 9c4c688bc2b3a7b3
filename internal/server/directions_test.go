package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/wire"
)

// ignoreDemand compares directions without what the statistics have about them, which comes later.
var ignoreDemand = cmpopts.IgnoreFields(wire.Direction{}, "Jobs5m", "Refused5m", "Waiting", "WaitP95MS")

// TestDirectionsShowDemand checks the free slots of directions and the demand for them: also for one that no node serves, and not for a
// caller of one tenant.
func TestDirectionsShowDemand(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t, oftenStats)
	node := ts.connectNodeAs(acmeGPU, "acme-1")
	find := func(key, query string) map[string]wire.Direction {
		var list wire.DirectionList
		ts.requestAs(key, "GET", "/v1/directions"+query, nil).decode(&list)
		found := make(map[string]wire.Direction)
		for _, d := range list.Directions {
			found[d.SrcLang+d.TgtLang] = d
		}
		return found
	}
	ts.requestAs(alice, "POST", "/v1/dispatch/f2f", dispatchBody(object{"src_lang": "ja", "tgt_lang": "ko"})).expectError(wire.NoCapableNode)
	ts.requestAs(alice, "POST", "/v1/dispatch/f2f", dispatchBody(object{"tenant_id": "acme", "tgt_lang": "es"}))
	node.readUntil("job_assign")
	ts.eventually("the refusal is in the statistics", func() bool {
		d := find(alice, "")["jako"]
		return d.Refused5m != nil && *d.Refused5m == 1 && d.WaitP95MS != nil && d.Nodes == 0 && d.Capacity == 0 && d.Free == 0
	})
	d := find(alice, "")["enes"]
	if d.Capacity != 4 || d.InFlight != 1 || d.Free != 3 || d.Jobs5m == nil || *d.Jobs5m != 0 || d.Waiting == nil || d.WaitP95MS != nil {
		t.Errorf("en→es: %+v", d)
	}
	for _, query := range []string{"?region=eu", "?node_id=acme-1", "?language=en"} {
		if d, listed := find(alice, query)["jako"]; listed {
			t.Errorf("%s: %+v", query, d)
		}
	}
	if _, listed := find(alice, "?language=ko")["jako"]; !listed {
		t.Error("a direction that was requested is not found by its language")
	}
	ofTenant := find(acmeView, "")
	if _, listed := ofTenant["jako"]; listed || len(ofTenant) == 0 {
		t.Errorf("a tenant sees %+v", ofTenant)
	}
	if d := ofTenant["enes"]; d.Free != 3 || d.Jobs5m != nil || d.Refused5m != nil || d.Waiting != nil || d.WaitP95MS != nil {
		t.Errorf("a tenant sees the demand of all: %+v", d)
	}
}
