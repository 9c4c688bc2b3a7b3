package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestRefusedNodesAreListed: who was refused, over a WebSocket or by HTTP, is listed for operators with what to change, logged, and
// counted. Nothing else of what was sent is shown.
func TestRefusedNodesAreListed(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	const secret = "spoken-word-and-token"
	url := strings.Replace(ts.url, "http", "ws", 1) + "/ws/node"
	dial := func(key string, protocols ...string) *websocket.Conn {
		t.Helper()
		ws, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{Subprotocols: protocols, HTTPHeader: http.Header{"Authorization": {"Bearer " + key}}})
		if err != nil {
			return nil
		}
		t.Cleanup(func() { _ = ws.CloseNow() })
		return ws
	}
	if dial("no-such-key-"+secret) != nil || dial(gpuToken, "another."+secret) != nil {
		t.Fatal("a handshake was accepted that must not be")
	}
	for _, message := range []string{
		`{"type":"node_register","node_id":"gpu-1"}`, `{"type":"node_register","node_id":"gpu-1","health":"` + secret + `","semantic_langs":["en"]}`,
		`{"type":"node_heartbeat","x":"` + secret + `"}`, "no json " + secret,
	} {
		ws := dial(gpuToken)
		if err := ws.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		for { // until it is closed
			if _, _, err := ws.Read(t.Context()); err != nil {
				break
			}
		}
	}
	for range 3 {
		ts.requestAs(gpuToken, "POST", "/v1/node/register", object{"node_id": "gpu-2", "semantic_langs": []string{secret + "!"}}).expectError(wire.InvalidRequest)
	}
	var list wire.RefusedNodeList
	ts.requestAs(operatorKey, "GET", "/v1/nodes/refused", nil).decode(&list)
	got := make(map[string]int)
	for _, r := range list.Refused {
		got[fmt.Sprint(r.Reason, " ", r.Field)] += r.Count
		if r.Address != "127.0.0.1" || r.Advice == "" || r.LastMS < r.FirstMS || r.Instance == "" || strings.Contains(fmt.Sprint(r), secret) {
			t.Errorf("%+v", r)
		}
		if r.Field == "health" && r.NodeID != "gpu-1" {
			t.Errorf("the name of the node is missing: %+v", r)
		}
	}
	want := map[string]int{"UNAUTHORIZED ": 1, "INVALID_REQUEST ": 2, "INVALID_REQUEST type": 1, "INVALID_REQUEST health": 1, "INVALID_REQUEST semantic_langs": 4}
	for key, n := range want {
		if got[key] != n {
			t.Errorf("%s: %d times, want %d: %v", key, got[key], n, got)
		}
	}
	if log := ts.log.String(); strings.Count(log, "a node was refused") == 0 || strings.Contains(log, secret) {
		t.Errorf("the log:\n%s", log)
	}
	ts.requestAs(gpuToken, "GET", "/v1/nodes/refused", nil).expectError(wire.Forbidden)
	metrics := string(ts.requestAs(operatorKey, "GET", "/metrics", nil).body)
	for _, line := range []string{`node_registration_total{status="invalid"} 8`, `node_registration_total{status="denied"} 1`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no %s in the metrics", line)
		}
	}
}

// TestRefusedNodesAreBounded: of many addresses the last are kept.
func TestRefusedNodesAreBounded(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	for i := range 300 {
		ts.scheduler.Server.RecordRefused(fmt.Sprintf("192.0.2.%d:1", i%250), "", wire.Invalid(fmt.Sprint("field", i), "is wrong"))
	}
	var list wire.RefusedNodeList
	ts.requestAs(operatorKey, "GET", "/v1/nodes/refused", nil).decode(&list)
	has := func(field string) bool {
		return slices.ContainsFunc(list.Refused, func(r wire.RefusedNode) bool { return r.Field == field })
	}
	if len(list.Refused) != 200 || !has("field299") || has("field0") {
		t.Errorf("%d refusals, with the last %v, with the first %v", len(list.Refused), has("field299"), has("field0"))
	}
}
