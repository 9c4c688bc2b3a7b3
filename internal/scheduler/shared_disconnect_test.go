package scheduler_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestDisconnectIsKnownEverywhere: an instance with which a node is not connected passes it over within a second of the
// loss of its connection, and gives it work again when it is back.
func TestDisconnectIsKnownEverywhere(t *testing.T) {
	t.Parallel()
	cfg := brisk()
	cfg.Scheduler.Sessions.DisconnectGraceMS = 60_000
	w := share(t, redistest.Start(t).URL(), cfg, nil)
	stalled := watchStalls(t)
	connect := func(token string) (*websocket.Conn, wire.NodeRegisterAck) {
		t.Helper()
		ws, _, err := websocket.Dial(t.Context(), strings.Replace(w[0].peer.URL, "http", "ws", 1)+"/ws/node",
			&websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.CloseNow() })
		text, err := json.Marshal(map[string]any{
			"type": "node_register", "node_id": "n1", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 100,
			"active": []any{}, "resume_token": token,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := ws.Write(t.Context(), websocket.MessageText, text); err != nil {
			t.Fatal(err)
		}
		_, data, err := ws.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ack wire.NodeRegisterAck
		if err := json.Unmarshal(data, &ack); err != nil {
			t.Fatal(err)
		}
		return ws, ack
	}
	// explained is why the other instance would not give the node a job.
	explained := func() string {
		var x wire.ExplainResponse
		in := wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "es"}
		insist(t, func() error { return w[1].peer.Post(t.Context(), "/v1/dispatch/explain", in, &x) })
		if len(x.Nodes) != 1 {
			return "NOT_SEEN"
		}
		return x.Nodes[0].Reason
	}
	ws, ack := connect("")
	took(t, "the other instance to see the node", patience, func() bool { return explained() == "" })
	for range 3 {
		stalled.since()
		_ = ws.CloseNow()
		within := took(t, "the other instance to know of the loss", patience, func() bool { return explained() == "DISCONNECTED" })
		if pause := stalled.since(); within > time.Second+2*pause {
			t.Errorf("the loss was known after %s; this process was held up for %s", within, pause)
		}
		var refused *wire.Error
		in := wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "es"}
		err := w[1].peer.Post(t.Context(), "/v1/dispatch/f2f", in, new(wire.DispatchResponse))
		if !errors.As(err, &refused) || refused.Reasons["DISCONNECTED"] != 1 {
			t.Errorf("dispatch to a disconnected node: %v", err)
		}
		var again wire.NodeRegisterAck
		if ws, again = connect(ack.ResumeToken); again.Status != "resumed" || again.Epoch != ack.Epoch {
			t.Fatalf("%+v", again)
		}
		took(t, "the other instance to know that it is back", patience, func() bool { return explained() == "" })
	}
}
