package server_test

import (
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// expectNormalClose reads until the scheduler has closed the connection, which must be with 1000.
func (c *wsClient) expectNormalClose() {
	c.t.Helper()
	for {
		if _, _, err := c.ws.Read(c.t.Context()); err != nil {
			if code := websocket.CloseStatus(err); code != websocket.StatusNormalClosure {
				c.t.Errorf("closed with %d: %v", code, err)
			}
			return
		}
	}
}

// noNode checks that a node is not registered.
func (ts *testScheduler) noNode(id string) {
	ts.t.Helper()
	ts.get("/v1/nodes/" + id).expectError(wire.NotFound)
}

// TestNodeLeaves: a node that leaves is removed at once, and its job is given to another node.
func TestNodeLeaves(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.connectNode("n1")
	d := ts.dispatch(dispatchBody(object{"tgt_lang": "es"}))
	assigned := n.readUntil("job_assign")
	n.send(object{"type": "job_ack", "job_id": d.JobID, "attempt_id": 1})
	other := ts.connectNode("n2")
	n.send(object{"type": "node_leave"})
	if moved := other.readUntil("job_assign"); moved["job_id"] != assigned["job_id"] || moved["attempt_id"] != 2.0 {
		t.Errorf("the other node was assigned %v", moved)
	}
	n.expectNormalClose()
	ts.noNode("n1")
}

// TestDrainedNodeLeaves: a node that was drained stays so when it leaves and comes back.
func TestDrainedNodeLeaves(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.connectNode("n1")
	ts.request("POST", "/v1/nodes/n1/drain", "", nil).decode(new(wire.Node))
	n.readUntil("drain")
	n.send(object{"type": "node_leave"})
	n.expectNormalClose()
	if got := ts.getNode("n1"); !got.Drained || got.Health != "offline" {
		t.Errorf("after it left: %+v", got)
	}
	ts.connectNode("n1")
	if got := ts.getNode("n1"); !got.Drained || got.Health == "offline" {
		t.Errorf("after it came back: %+v", got)
	}
}

// TestRemoveNode: an operator removes a node whether or not it still runs. Its job is given to another node; a node that still runs is
// named in a warning, and comes back with its next heartbeat.
func TestRemoveNode(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.request("DELETE", "/v1/nodes/n1", "", nil).expectError(wire.NotFound)
	n := ts.connectNode("n1")
	d := ts.dispatch(dispatchBody(object{"tgt_lang": "es"}))
	n.readUntil("job_assign")
	n.send(object{"type": "job_ack", "job_id": d.JobID, "attempt_id": 1})
	ts.eventually("the job is acknowledged", func() bool { return ts.getJob(d.JobID).State == "ACKED" })
	other := ts.connectNode("n2")

	var removed wire.NodeRemoved
	ts.request("DELETE", "/v1/nodes/n1", "", nil).decode(&removed)
	if removed.NodeID != "n1" || removed.MovedJobs != 1 || len(removed.Warnings) != 1 {
		t.Errorf("the answer: %+v", removed)
	}
	if moved := other.readUntil("job_assign"); moved["job_id"] != d.JobID || moved["attempt_id"] != 2.0 {
		t.Errorf("the other node was assigned %v", moved)
	}
	ts.noNode("n1")
	n.send(object{"type": "job_result", "job_id": d.JobID, "attempt_id": 1, "result": object{"text_tgt": "late"}})
	if ack := n.readUntil("job_result_ack"); ack["accepted"] != false {
		t.Errorf("a result of the removed node: %v", ack)
	}
	n.send(object{"type": "node_heartbeat", "hb_seq": 1, "active": []object{}})
	n.readUntil("node_register_ack")
	if got := ts.getNode("n1"); got.Drained {
		t.Error("the node came back drained")
	}
}

// TestMovedJobIsCancelledAtRegistration: a node that comes back too late, with a job that another node has by now, is told to cancel it
// in the answer to its registration.
func TestMovedJobIsCancelledAtRegistration(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(c *config.Config) { c.Scheduler.Sessions.DisconnectGraceMS = 10 })
	n := ts.connectNode("n1")
	d := ts.dispatch(dispatchBody(object{"tgt_lang": "es"}))
	n.readUntil("job_assign")
	n.send(object{"type": "job_ack", "job_id": d.JobID, "attempt_id": 1})
	other := ts.connectNode("n2")
	_ = n.ws.CloseNow()
	other.readUntil("job_assign")
	other.send(object{"type": "job_ack", "job_id": d.JobID, "attempt_id": 2})
	ts.eventually("the other node has the job", func() bool { return ts.getJob(d.JobID).State == "ACKED" })
	back := ts.connect("/ws/node")
	back.send(object{
		"type": "node_register", "node_id": "n1", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2,
		"active": []object{{"job_id": d.JobID, "attempt_id": 1}},
	})
	ack := back.readUntil("node_register_ack")
	want := []any{map[string]any{"job_id": d.JobID, "attempt_id": 1.0}}
	if diff := cmp.Diff(want, ack["cancel"]); diff != "" {
		t.Errorf("to be cancelled (-want +got):\n%s", diff)
	}
	if ack["no_audio"] != nil {
		t.Errorf("no_audio: %v", ack["no_audio"])
	}
}
