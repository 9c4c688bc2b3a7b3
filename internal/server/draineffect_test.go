package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestDrainDryRun checks that the effect of a drain is shown, and that nothing is changed or audited by that.
func TestDrainDryRun(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", object{"max_concurrent_jobs": 3})
	ts.registerNode("n2", object{"max_concurrent_jobs": 1, "nmt_pairs": [][]string{{"en", "zh"}}})
	ts.dispatch(dispatchBody(object{"options": object{"preferred_node_id": "n1", "strict": true}}))
	var n wire.Node
	ts.request("POST", "/v1/nodes/n1/drain?dry_run=true", "", nil).decode(&n)
	want := &wire.DrainEffect{
		InFlight: 1, Slots: 3, ShareOfSlots: 0.75, None: []wire.DirectionName{{SrcLang: "zh", TgtLang: "en"}}, One: []wire.DirectionName{{SrcLang: "en", TgtLang: "zh"}},
	}
	if diff := cmp.Diff(want, n.DrainEffect); diff != "" || n.Drained {
		t.Errorf("drained %v, effect (-want +got):\n%s", n.Drained, diff)
	}
	ts.request("POST", "/v1/nodes/unknown/drain?dry_run=true", "", nil).expectError(wire.NotFound)
	for _, query := range []string{"dry_run=1", "dry_run=", "dry_run=True", "dry_run=true&dry_run=false", "dryrun=true", "dry_run=true&x=1"} {
		ts.request("POST", "/v1/nodes/n1/drain?"+query, "", nil).expectError(wire.InvalidRequest)
	}
	if after := ts.getNode("n1"); after.Drained || after.DrainEffect != nil {
		t.Errorf("the node is %+v", after)
	}
	failed := "/operator@ node.drain node/n1 failed INVALID_REQUEST"
	ts.expectAudit("", "/operator@ node.register node/n1 ok", "/operator@ node.register node/n2 ok", failed, failed, failed, failed, failed, failed)
	n = wire.Node{}
	ts.request("POST", "/v1/nodes/n1/drain?dry_run=false", "", nil).decode(&n)
	if !n.Drained || n.DrainEffect != nil {
		t.Errorf("after a drain the node is %+v", n)
	}
}

// TestDrainDryRunIsForOperators checks that others are refused, which is audited.
func TestDrainDryRunIsForOperators(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithRoles(t)
	ts.requestAs(viewerKey, "POST", "/v1/nodes/gpu-1/drain?dry_run=true", nil).expectError(wire.Forbidden)
	ts.expectAudit("", "grafana/viewer@ node.drain node/gpu-1 denied wrong_role")
}
