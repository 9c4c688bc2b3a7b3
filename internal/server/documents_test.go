package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// samples are the bodies of requests in the design documents, as they stand there.
var samples = map[string]string{
	"register": `{
  "node_id": "node-123",
  "health": "ready",
  "semantic_langs": ["en","zh"],
  "nmt_pairs": [["en","zh"],["zh","en"]],
  "tts_langs": ["en","zh"],
  "max_concurrent_jobs": 2
}`,
	"heartbeat": `{
  "node_id": "node-123",
  "health": "ready",
  "current_load": {"gpu": 0.52, "cpu": 0.33},
  "semantic_langs": ["en","zh"],
  "nmt_pairs": [["en","zh"],["zh","en"]],
  "tts_langs": ["en","zh"],
  "max_concurrent_jobs": 2
}`,
	"dispatch": `{
  "session_id": "room-888",
  "src_lang": "en",
  "tgt_lang": "zh",
  "audio_ref": "blob://...", 
  "options": {
    "require_tts": false,
    "preferred_node_id": null
  }
}`,
	"ack":  `{"job_id":"job-abc","attempt_id":1,"node_id":"node-123"}`,
	"done": `{"job_id":"job-abc","attempt_id":1,"node_id":"node-123","status":"ok"}`,
	"fail": `{"job_id":"job-abc","attempt_id":1,"node_id":"node-123","status":"error","reason":"MODEL_LOAD_FAILED"}`,
}

// postSample sends a sample.
func (ts *testScheduler) postSample(path, name string) response {
	ts.t.Helper()
	return ts.request("POST", path, "application/json", []byte(samples[name]))
}

// TestSamplesOfTheDocuments: every request of the design documents is accepted as it stands there, or answered with what to do.
func TestSamplesOfTheDocuments(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	if e := ts.postSample("/v1/dispatch/f2f", "dispatch").expectError(wire.NoCapableNode); e.Detail == "" {
		t.Error("the refusal has no detail")
	}
	var registered wire.RegisterResponse
	ts.postSample("/v1/node/register", "register").decode(&registered)
	if w := strings.Join(registered.Warnings, "\n"); !registered.OK || !strings.Contains(w, "callback_url") || !strings.Contains(w, "/ws/node") || len(registered.Warnings) != 1 {
		t.Errorf("registered: %+v", registered)
	}
	var beat wire.HeartbeatResponse
	ts.postSample("/v1/node/heartbeat", "heartbeat").decode(&beat)
	if !beat.OK || len(beat.Warnings) > 0 {
		t.Errorf("heartbeat: %+v", beat)
	}
	if load := ts.getNode("node-123").CurrentLoad; load == nil || *load.GPU != 0.52 || *load.CPU != 0.33 {
		t.Errorf("load: %+v", load)
	}
	for name, path := range map[string]string{"ack": "/v1/job/ack", "done": "/v1/job/done", "fail": "/v1/job/fail"} {
		if e := ts.postSample(path, name).expectError(wire.NotFound); !strings.Contains(e.Detail, "job-abc") {
			t.Errorf("%s: %+v", name, e)
		}
	}

	n := ts.connectAsInTheDocuments("node-123")
	defer n.ws.CloseNow()
	var placed wire.DispatchResponse
	ts.postSample("/v1/dispatch/f2f", "dispatch").decode(&placed)
	if placed.NodeID != "node-123" || placed.AttemptID != 1 || placed.JobID == "" {
		t.Errorf("placed: %+v", placed)
	}
	if job := n.readUntil("job_assign"); job["job_id"] != placed.JobID {
		t.Errorf("assigned: %v", job)
	}
}

// TestSamplesOfTheDocumentsWithKeys: with keys a request of the documents needs one, and a report about a node the token of its registration.
// Who sends neither is told.
func TestSamplesOfTheDocumentsWithKeys(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithKeys(t)
	send := func(token, path, name string) response {
		return ts.requestAs(token, "POST", path, json.RawMessage(strings.ReplaceAll(samples[name], "node-123", "gpu-123")))
	}
	if e := send("", "/v1/node/register", "register").expectError(wire.Unauthorized); !strings.Contains(e.Detail, "Authorization: Bearer") {
		t.Errorf("without a key: %+v", e)
	}
	var registered wire.RegisterResponse
	if send(gpuToken, "/v1/node/register", "register").decode(&registered); registered.NodeToken == "" {
		t.Errorf("registered: %+v", registered)
	}
	for path, name := range map[string]string{"/v1/node/heartbeat": "heartbeat", "/v1/job/ack": "ack", "/v1/job/done": "done", "/v1/job/fail": "fail"} {
		if e := send(gpuToken, path, name).expectError(wire.Forbidden); e.Field != "node_token" || !strings.Contains(e.Detail, "registration") {
			t.Errorf("%s without the token of the registration: %+v", name, e)
		}
	}
	send(operatorKey, "/v1/dispatch/f2f", "dispatch").expectError(wire.AllCandidatesFullOrFailed)
}

// connectAsInTheDocuments connects a node without a subprotocol, and registers it by the names that the documents have for what it
// declares.
func (ts *testScheduler) connectAsInTheDocuments(id string) *wsClient {
	ts.t.Helper()
	ws, answer, err := websocket.Dial(ts.t.Context(), strings.Replace(ts.url, "http", "ws", 1)+"/ws/node", nil)
	if err != nil {
		ts.t.Fatal(err)
	}
	if offered := answer.Header.Get("Sec-WebSocket-Protocol"); offered != "" {
		ts.t.Errorf("a subprotocol was selected that was not offered: %s", offered)
	}
	n := &wsClient{t: ts.t, ws: ws, path: "/ws/node"}
	n.send(object{
		"type": "node_register", "node_id": id, "language_capabilities": object{"asr_langs": []string{"en", "zh"}, "semantic_langs": []string{"en", "zh"}},
		"capability_by_type": object{"asr": "true", "nmt": "true", "tts": "true", "semantic": "true", "tone": "false"},
		"installed_services": []object{{"service_id": "asr", "type": "asr"}, {"service_id": "nmt", "type": "nmt"}, {"service_id": "semantic", "type": "semantic"}},
		"installed_models":   []string{"whisper-large"}, "cpu_usage": 33, "gpu_usage": -1, "mem_usage": 40, "current_jobs": 0, "gpu_model": "L4",
	})
	ack := n.readUntil("node_register_ack")
	warnings, _ := ack["warnings"].([]any)
	if len(warnings) != 2 || !strings.Contains(warnings[0].(string), "gpu_model") || !strings.Contains(warnings[1].(string), "max_concurrent_jobs") {
		ts.t.Errorf("registered: %v", ack)
	}
	return n
}

// TestNodeOfTheDocuments: a node as the documents describe it is shown with what it declared, and models that a job requires by the name of
// the documents are required.
func TestNodeOfTheDocuments(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.connectAsInTheDocuments("node-1")
	defer n.ws.CloseNow()
	got := ts.getNode("node-1")
	if got.MaxConcurrentJobs != 1 || len(got.ASRLangs) != 2 || *got.CapabilityByType.Tone || !*got.CapabilityByType.ASR ||
		len(got.InstalledServices) != 3 || got.InstalledServices[0].Status != "ready" || *got.CurrentLoad.CPU != 0.33 || got.CurrentLoad.GPU != nil || *got.CurrentLoad.Memory != 0.4 {
		t.Errorf("%+v", got)
	}
	for _, body := range []object{
		dispatchBody(object{"required_model_ids": []string{"another-model"}}),
		dispatchBody(object{"options": object{"required_model_ids": []string{"another-model"}}}),
	} {
		ts.post("/v1/dispatch/f2f", body).expectError(wire.NoCapableNode)
	}
	if e := ts.post("/v1/dispatch/f2f", dispatchBody(object{"options": object{"deadline_s": 3}})).expectError(wire.InvalidRequest); e.Field != "options" || !strings.Contains(e.Detail, "deadline_s") {
		t.Errorf("an unknown option: %+v", e)
	}
	d := ts.dispatch(dispatchBody(object{"required_model_ids": []string{"whisper-large"}}))
	if job := n.readUntil("job_assign"); job["job_id"] != d.JobID {
		t.Errorf("assigned: %v", job)
	}
}

// TestSessionOfTheDocuments: a session names its languages as a request does, and an unknown option is refused.
func TestSessionOfTheDocuments(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "src_lang": "en", "tgt_lang": "zh"})
	if started := s.read(); started["type"] != "session_started" {
		t.Fatalf("started: %v", started)
	}
	s.send(object{"type": "session_update", "options": object{"deadline_s": 3}})
	if e := s.readUntil("error"); e["error"] != string(wire.InvalidRequest) || !strings.Contains(e["detail"].(string), "deadline_s") {
		t.Errorf("an unknown option: %v", e)
	}
}
