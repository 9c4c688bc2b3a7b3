package server_test

import (
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestHeartbeatWithoutCallbackDoesNotRegister: a heartbeat that says nothing of where jobs are sent is partial, whatever
// else it says. A node registered from it would be told that all is well and never be given work.
func TestHeartbeatWithoutCallbackDoesNotRegister(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	said := obj{
		"node_id": "node-123", "health": "ready", "current_load": obj{"gpu": 0.52, "cpu": 0.33}, "semantic_langs": []string{"en", "zh"},
		"nmt_pairs": [][]string{{"en", "zh"}, {"zh", "en"}}, "tts_langs": []string{"en", "zh"}, "max_concurrent_jobs": 2,
	}
	for _, empty := range []obj{said, said.with(obj{"callback_url": ""})} {
		e := w.post("/v1/node/heartbeat", empty).refused(wire.NotFound)
		if !strings.Contains(e.Detail, "register again") {
			t.Errorf("the node should be told what to do, not %q", e.Detail)
		}
		w.get("/v1/nodes/node-123").refused(wire.NotFound)
	}
	// Once it has registered, the same heartbeat is all it needs.
	n := w.node("node-123", nil)
	w.post("/v1/node/heartbeat", said).ok()
	if d, got := w.begin(utterance(nil)); got != n {
		t.Errorf("delivered %+v", d)
	}
}

// TestRegisterWithoutCallbackWarns: such a node is accepted and told that it gets no jobs.
func TestRegisterWithoutCallbackWarns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var r wire.RegisterResponse
	w.post("/v1/node/register", capable(obj{"node_id": "n1"})).into(&r)
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "callback_url") {
		t.Errorf("a node without callback_url is told %q", r.Warnings)
	}
	e := w.post("/v1/dispatch/f2f", utterance(nil)).refused(wire.AllCandidatesFullOrFailed)
	if e.Reasons["NO_CALLBACK_URL"] != 1 {
		t.Errorf("%v", e.Reasons)
	}
	r = wire.RegisterResponse{}
	w.post("/v1/node/register", capable(obj{"node_id": "n1", "callback_url": w.stranger("n2").srv.URL})).into(&r)
	if len(r.Warnings) != 0 {
		t.Errorf("a node with callback_url is told %q", r.Warnings)
	}
}
