package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestAdmissionIsShown: a node, the list of nodes, an explanation, the directions and the metrics show how many slots may be granted.
func TestAdmissionIsShown(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"max_concurrent_jobs": 4})
	capacity := func() (ready, slots int, metric bool) {
		t.Helper()
		var list wire.DirectionList
		ts.get("/v1/directions").decode(&list)
		for _, d := range list.Directions {
			if d.SrcLang == "en" && d.TgtLang == "zh" {
				ready, slots = d.Ready, d.Capacity
			}
		}
		return ready, slots, strings.Contains(string(ts.get("/metrics").body), fmt.Sprintf("\nlingua_capacity_slots{direction=\"en→zh\"} %d\n", slots))
	}
	ts.explain(dispatchBody(nil)) // so that the direction is measured
	for _, c := range []struct {
		admission core.Admission
		want      *wire.Admission
		reason    string
		detail    string // how it begins
		ready     int
		slots     int
	}{
		{
			core.Admission{Limited: true, Reason: core.AdmissionSilent, Times: 2}, &wire.Admission{Reason: "silent", Times: 2},
			"EJECTED", "ejected (silent), ", 0, 0,
		},
		{
			core.Admission{Limited: true, Slots: 1, Reason: core.AdmissionFailing, Times: 2}, &wire.Admission{Slots: 1, Reason: "failing", Times: 2},
			"", "limited to 1 of 4 slots (failing), ", 1, 1,
		},
		{core.Admission{Times: 2, Reason: core.AdmissionFailing}, nil, "", "", 1, 4},
	} {
		before := time.Now().UnixMilli()
		p := store.AdmitParams{Node: "n1", Fence: 1, Admission: c.admission, For: time.Hour}
		if _, admitted, err := ts.scheduler.Store.Admit(t.Context(), p); err != nil || !admitted {
			t.Fatal(admitted, err)
		}
		var x wire.ExplainResponse
		ts.eventually("the fleet has the decision", func() bool {
			x = ts.explain(dispatchBody(nil))
			return strings.HasPrefix(x.Nodes[0].Detail, c.detail) && x.Nodes[0].Reason == c.reason && (c.detail == "") == (x.Nodes[0].Detail == "")
		})
		if c.detail != "" && !strings.HasSuffix(x.Nodes[0].Detail, " left") {
			t.Errorf("explain: %q does not say for how long", x.Nodes[0].Detail)
		}
		var list wire.NodeList
		ts.get("/v1/nodes").decode(&list)
		for how, got := range map[string]*wire.Admission{"node": ts.getNode("n1").Admission, "list": list.Nodes[0].Admission, "explain": x.Nodes[0].Admission} {
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(wire.Admission{}, "SinceMS", "UntilMS")); diff != "" {
				t.Errorf("%s (-want +got)\n%s", how, diff)
			}
			if got != nil && (got.UntilMS-got.SinceMS != time.Hour.Milliseconds() || got.SinceMS < before-1000 || got.SinceMS > time.Now().UnixMilli()+1000) {
				t.Errorf("%s: decided at %d until %d, want an hour from about %d", how, got.SinceMS, got.UntilMS, before)
			}
		}
		if ready, slots, metric := capacity(); ready != c.ready || slots != c.slots || !metric {
			t.Errorf("%d nodes with %d slots are ready, want %d with %d; in /metrics: %v", ready, slots, c.ready, c.slots, metric)
		}
		if c.reason != "" {
			if e := ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.AllCandidatesFullOrFailed); e.Reasons[c.reason] != 1 {
				t.Errorf("refused with %v, want %s", e.Reasons, c.reason)
			}
		}
	}
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.done(d, nil).expectOK()
}
