package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// registerNode registers a node over HTTP.
func registerNode(tb testing.TB, on *instance) {
	tb.Helper()
	slots, url := 1, "http://127.0.0.1:9/jobs"
	post(tb, on, "/v1/node/register", wire.RegisterRequest{NodeID: "by-http", Declaration: wire.Declaration{
		SemanticLangs: []string{"ja", "ko"}, MaxConcurrentJobs: &slots, CallbackURL: &url,
	}}, nil)
}

// sendHTTPHeartbeats sends heartbeats over HTTP, as a node without changes does.
func sendHTTPHeartbeats(tb testing.TB, on *instance, times int) {
	tb.Helper()
	half, none := 0.5, 0
	for range times {
		post(tb, on, "/v1/node/heartbeat", wire.HeartbeatRequest{NodeID: "by-http", Declaration: wire.Declaration{
			Health: "ready", CurrentLoad: &wire.Load{CPU: &half, GPU: &half, Memory: &half}, CurrentJobs: &none, Active: []wire.ActiveAttempt{},
		}}, nil)
	}
}

// dispatchJobs dispatches jobs without a session, one after the other, and returns when a node has finished the last.
func dispatchJobs(tb testing.TB, on *instance, fleet *nodeFleet, times int) {
	tb.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for range times {
		post(tb, on, "/v1/dispatch/f2f", wire.DispatchRequest{SessionID: "room", SrcLang: "en", TgtLang: "es", AudioRef: "blob://a"}, nil)
		select {
		case <-fleet.dispatched:
		case <-limit.C:
			tb.Fatal("a job was not finished")
		}
	}
}

// post sends a body, which must be accepted.
func post(tb testing.TB, to *instance, path string, body, into any) {
	tb.Helper()
	if err := tryPost(to, path, body, into); err != nil {
		tb.Fatal(err)
	}
}

// tryPost is post for a call that may be refused.
func tryPost(to *instance, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp, err := http.Post(to.url+path, "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s %v", path, resp.Status, answer, err) //nolint:errorlint // there may be none
	}
	if into != nil {
		return json.Unmarshal(answer, into)
	}
	return nil
}

// heartbeatNode is a node that sends heartbeats at any rate.
type heartbeatNode struct {
	ws    *websocket.Conn
	epoch int64
	seq   uint64
}

// connectNode connects a node until the end of the test.
func connectNode(tb testing.TB, on *instance) *heartbeatNode {
	tb.Helper()
	ws, _, err := websocket.Dial(tb.Context(), on.url+"/ws/node", &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ws.CloseNow() })
	n := &heartbeatNode{ws: ws}
	n.write(tb, `{"type":"node_register","node_id":"by-socket","semantic_langs":["ja","ko"],"max_concurrent_jobs":1,"active":[]}`)
	var ack wire.NodeRegisterAck
	n.read(tb, wire.NodeRegisterAck{}.Type(), &ack)
	n.epoch = ack.Epoch
	return n
}

func (n *heartbeatNode) write(tb testing.TB, text string) {
	tb.Helper()
	if err := n.ws.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
		tb.Fatal(err)
	}
}

// read reads until a frame of a type arrives.
func (n *heartbeatNode) read(tb testing.TB, typ wire.FrameType, into any) {
	tb.Helper()
	for {
		_, data, err := n.ws.Read(context.Background())
		if err != nil {
			tb.Fatal(err)
		}
		if got, err := wire.TypeOf(data); err == nil && got == typ {
			if err := json.Unmarshal(data, into); err != nil {
				tb.Fatal(err)
			}
			return
		}
	}
}

// sendHeartbeats sends heartbeats, as a node without changes does. They are not answered, but an unknown message is, in its
// turn.
func (n *heartbeatNode) sendHeartbeats(tb testing.TB, times int) {
	tb.Helper()
	for range times {
		n.seq++
		n.write(tb, fmt.Sprintf(`{"type":"node_heartbeat","epoch":%d,"hb_seq":%d,"health":"ready","current_load":{"cpu":0.5,"gpu":0.5,"memory":0.5},"current_jobs":0,"active":[]}`, n.epoch, n.seq))
	}
	n.write(tb, `{"type":"end_of_heartbeats"}`)
	n.read(tb, wire.ErrorFrame{}.Type(), new(wire.ErrorFrame))
}
