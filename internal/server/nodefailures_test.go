package server_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestNodeFailuresAndMarks checks that a node is shown with why its attempts failed, and with its services that count as not ready.
func TestNodeFailuresAndMarks(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"installed_services": []object{{"service_id": "asr", "version": "2", "type": "asr", "status": "ready"}}})
	if got := ts.getNode("n1"); got.Failures != nil || got.Marks != nil {
		t.Errorf("at first: %v, %v", got.Failures, got.Marks)
	}
	for range 2 {
		d, _ := ts.dispatchAndReceive(dispatchBody(object{"options": object{"preferred_node_id": "n1", "strict": true}}))
		n.fail(d, object{"reason": "OUT_OF_MEMORY"}).expectOK()
	}
	ts.post("/v1/node/model_not_available", object{"node_id": "n1", "service_id": "asr", "version": "2", "reason": "it crashed"}).expectOK()
	var got wire.Node
	ts.eventually("the failures and the mark", func() bool {
		got = ts.getNode("n1")
		return got.Failures["NODE_FAILED"] == 2 && len(got.Marks) > 0
	})
	if diff := cmp.Diff(map[string]int{"NODE_FAILED": 2}, got.Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if left := time.Until(time.UnixMilli(got.Marks[0].UntilMS)); left <= 0 || left > time.Minute {
		t.Errorf("marked for another %v", left)
	}
	got.Marks[0].UntilMS = 0
	if diff := cmp.Diff([]wire.ServiceMark{{ServiceID: "asr", Version: "2", Reason: "runtime_error"}}, got.Marks); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
	var series wire.NodeSeries
	ts.get("/v1/nodes/n1/series").decode(&series)
	if diff := cmp.Diff(map[string]int{"NODE_FAILED": 2}, series.Failures); diff != "" {
		t.Errorf("failures in the series (-want +got):\n%s", diff)
	}
	var list wire.NodeList
	ts.get("/v1/nodes").decode(&list)
	if list.Nodes[0].Failures != nil || list.Nodes[0].Marks != nil {
		t.Errorf("in the list: %v, %v", list.Nodes[0].Failures, list.Nodes[0].Marks)
	}
}
