package scheduler_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/sim"
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
	connect(0, nil) // a life before
	first := connect(0, nil)
	if again := connect(0, first["resume_token"]); again["status"] != "resumed" || again["epoch"] != first["epoch"] {
		t.Errorf("where it was: %v", again)
	}
	took(t, "the other to see the node", patience, func() bool { return w.sees("n1") })
	if n := w.counted(t, "lingua_takeovers_total", "kind")["node"]; n != 0 {
		t.Errorf("%d takeovers of nodes are counted where it was", n)
	}
	if other := connect(1, first["resume_token"]); other["status"] != "registered" || other["epoch"] == first["epoch"] {
		t.Errorf("elsewhere: %v", other)
	}
	if n := w.counted(t, "lingua_takeovers_total", "kind")["node"]; n != 1 {
		t.Errorf("%d takeovers of nodes are counted, want 1", n)
	}
}

// TestJobsOfTheWholeFleet: what has ended anywhere is listed everywhere, once.
func TestJobsOfTheWholeFleet(t *testing.T) {
	t.Parallel()
	w := share(t, redistest.Start(t).URL(), brisk(), nil)
	slots := 4
	n, err := sim.StartCallbackNode(t.Context(), w[0].peer, sim.CallbackNodeOptions{ID: "n1", Declaration: wire.Declaration{
		SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &slots,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Kill)
	took(t, "both to see the node", patience, func() bool { return w[0].Fleet.Node("n1") != nil && w[1].Fleet.Node("n1") != nil })
	want := make(map[string]bool)
	for i := range 6 {
		var placed wire.DispatchResponse
		in := wire.DispatchRequest{SessionID: "room", SrcLang: "en", TgtLang: "zh"}
		took(t, "a slot", patience, func() bool { return w[i%2].peer.Post(t.Context(), "/v1/dispatch/f2f", in, &placed) == nil })
		want[placed.JobID] = true
	}
	for _, at := range w {
		var list wire.JobList
		took(t, "all jobs to be done", patience, func() bool {
			if err := at.peer.Get(t.Context(), "/v1/jobs?state=DONE", &list); err != nil {
				t.Fatal(err)
			}
			return len(list.Jobs) >= len(want)
		})
		seen := make(map[string]int)
		for _, job := range list.Jobs {
			seen[job.JobID]++
		}
		for id := range want {
			if seen[id] != 1 {
				t.Errorf("%s is listed %d times at %s", id, seen[id], at.peer.URL)
			}
		}
		if err := at.peer.Get(t.Context(), "/v1/jobs?limit=2", &list); err != nil || len(list.Jobs) != 2 {
			t.Errorf("two of them: %d, %v", len(list.Jobs), err)
		}
		var all wire.InstanceList
		if err := at.peer.Get(t.Context(), "/v1/instances", &all); err != nil || len(all.Instances) != 2 {
			t.Errorf("%+v, %v", all, err)
		}
	}
}
