package cluster

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

// registerNode registers a node over HTTP.
func registerNode(tb testing.TB, on *instance) {
	tb.Helper()
	slots, url := 1, "http://127.0.0.1:9/jobs"
	post(tb, on, "/v1/node/register", wire.RegisterRequest{NodeID: "by-http", Declaration: wire.Declaration{
		SemanticLangs: []string{"ja", "ko"}, MaxConcurrentJobs: &slots, CallbackURL: &url,
	}})
}

// sendHTTPHeartbeats sends heartbeats over HTTP, as a node without changes does.
func sendHTTPHeartbeats(tb testing.TB, on *instance, times int) {
	tb.Helper()
	half, none := 0.5, 0
	for range times {
		post(tb, on, "/v1/node/heartbeat", wire.HeartbeatRequest{NodeID: "by-http", Declaration: wire.Declaration{
			Health: "ready", CurrentLoad: &wire.Load{CPU: &half, GPU: &half, Memory: &half}, CurrentJobs: &none, Active: []wire.ActiveAttempt{},
		}})
	}
}

// dispatchJobs dispatches jobs without a session, one after the other, and returns when a node has finished the last.
func dispatchJobs(tb testing.TB, on *instance, fleet *nodeFleet, times int) {
	tb.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for range times {
		post(tb, on, "/v1/dispatch/f2f", wire.DispatchRequest{SessionID: "room", SrcLang: "en", TgtLang: "es", AudioRef: "blob://a"})
		select {
		case <-fleet.dispatched:
		case <-limit.C:
			tb.Fatal("a job was not finished")
		}
	}
}

// post sends a body, which must be accepted.
func post(tb testing.TB, to *instance, path string, body any) {
	tb.Helper()
	if err := to.api().Post(tb.Context(), path, body, nil); err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
}

// heartbeatNode is a node that sends heartbeats at any rate.
type heartbeatNode struct {
	*fleet.Socket
	epoch int64
	seq   uint64
}

// connectNode connects a node until the end of the test.
func connectNode(tb testing.TB, on *instance) *heartbeatNode {
	tb.Helper()
	n := &heartbeatNode{Socket: fleet.Connect(tb, on.url, "/ws/node", "")}
	n.Send(json.RawMessage(`{"type":"node_register","node_id":"by-socket","semantic_langs":["ja","ko"],"max_concurrent_jobs":1,"active":[]}`))
	var ack wire.NodeRegisterAck
	n.Await(&ack)
	n.epoch = ack.Epoch
	return n
}

// sendHeartbeats sends heartbeats, as a node without changes does. They are not answered, but an unknown message is, in its
// turn.
func (n *heartbeatNode) sendHeartbeats(times int) {
	for range times {
		n.seq++
		n.Send(json.RawMessage(fmt.Appendf(nil, `{"type":"node_heartbeat","epoch":%d,"hb_seq":%d,"health":"ready","current_load":{"cpu":0.5,"gpu":0.5,"memory":0.5},"current_jobs":0,"active":[]}`, n.epoch, n.seq)))
	}
	n.Send(json.RawMessage(`{"type":"end_of_heartbeats"}`))
	n.Await(new(wire.ErrorFrame))
}
