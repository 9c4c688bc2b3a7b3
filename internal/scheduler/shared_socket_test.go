package scheduler_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestANodeThatGoesOnElsewhere begins another life there, although its token is good everywhere: so what it left behind
// at the first instance, the end of its grace above all, is told from it.
func TestANodeThatGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	const key = "an-operator-key-of-some-length"
	cfg := brisk()
	cfg.Auth.OperatorKeys, cfg.Auth.SessionSecret = []string{key}, "a secret of at least thirty-two characters"
	w := share(t, redistest.Start(t).URL(), cfg, nil)
	connect := func(to int, token any) map[string]any {
		t.Helper()
		ws, _, err := websocket.Dial(t.Context(), strings.Replace(w[to].peer.URL, "http", "ws", 1)+"/ws/node", &websocket.DialOptions{
			Subprotocols: []string{wire.Subprotocol}, HTTPHeader: map[string][]string{"Authorization": {"Bearer " + key}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.CloseNow() })
		body := map[string]any{
			"type": "node_register", "node_id": "n1", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2, "active": []any{},
		}
		if token != nil {
			body["resume_token"] = token
		}
		text, err := json.Marshal(body)
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
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := connect(0, nil)
	if again := connect(0, first["resume_token"]); again["status"] != "resumed" || again["epoch"] != first["epoch"] {
		t.Errorf("where it was: %v", again)
	}
	if other := connect(1, first["resume_token"]); other["status"] != "registered" || other["epoch"] == first["epoch"] {
		t.Errorf("elsewhere: %v", other)
	}
}
