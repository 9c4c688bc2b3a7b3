package server_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

const goldenOpenAPI = "testdata/openapi.yaml"

// TestOpenAPI fetches the description as anybody would, and holds it against the specification of OpenAPI and
// against the copy that is kept for reviews: a change of the API shows in the diff of a commit. The flag -update
// writes the copy anew.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	a := newWorld(t).get("/openapi.yaml")
	if a.status != 200 || a.header.Get("Content-Type") != "application/yaml" {
		t.Fatalf("/openapi.yaml: %d %s", a.status, a.header.Get("Content-Type"))
	}
	doc, err := openapi3.NewLoader().LoadFromData(a.body)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Errorf("not valid: %v", err)
	}
	if !doc.IsOpenAPI31OrLater() {
		t.Errorf("it says OpenAPI %s, want 3.1", doc.OpenAPI)
	}
	if *update {
		if err := os.WriteFile(goldenOpenAPI, a.body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(goldenOpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(golden, a.body) {
		t.Errorf("the API has changed: if that is meant, run this test with -update (-%s +now)\n%s",
			goldenOpenAPI, cmp.Diff(strings.Split(string(golden), "\n"), strings.Split(string(a.body), "\n")))
	}
}

// TestEveryDoorIsDescribed holds the routes against the description, both ways.
func TestEveryDoorIsDescribed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	described := describedBy(t, w.s.Server)
	var in []string
	for path, item := range described.doc.Paths.Map() {
		for method := range item.Operations() {
			in = append(in, method+" "+path)
		}
	}
	doors := append(w.s.Server.Routes(), "GET "+metrics) // which is there whether or not the table has it
	slices.Sort(in)
	slices.Sort(doors)
	if diff := cmp.Diff(slices.Compact(doors), in); diff != "" {
		t.Errorf("(-routes +/openapi.yaml)\n%s", diff)
	}
}

// TestEveryDoorAnswers calls every described operation once in such a way that it succeeds, so that no
// description of a success goes unchecked.
func TestEveryDoorAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.node("n1", obj{"max_concurrent_jobs": 9, "installed_services": []obj{{"service_id": "s", "status": "ready"}}})
	seen := map[string]bool{"POST /v1/node/register": true}
	good := func(operation string, a answer) {
		t.Helper()
		if a.status != 200 {
			t.Errorf("%s: %d %s", operation, a.status, a.body)
		}
		seen[operation] = true
	}
	d, _ := w.begin(utterance(nil))
	failing, _ := w.begin(utterance(nil))
	good("POST /v1/dispatch/f2f", w.post("/v1/dispatch/f2f", utterance(nil)))
	good("POST /v1/dispatch/explain", w.post("/v1/dispatch/explain", utterance(nil)))
	good("POST /v1/job/ack", n.ack(d, nil))
	good("POST /v1/node/heartbeat", w.post("/v1/node/heartbeat", obj{"node_id": "n1", "active": active(d)}))
	good("POST /v1/job/done", n.done(d, obj{"result": obj{"text_tgt": "好"}}))
	good("POST /v1/job/fail", n.fail(failing, nil))
	good("POST /v1/jobs/{id}/cancel", w.ask("POST", "/v1/jobs/"+failing.JobID+"/cancel", "", nil))
	good("POST /v1/node/model_not_available", w.post("/v1/node/model_not_available", obj{"node_id": "n1", "service_id": "s"}))
	good("POST /v1/nodes/{id}/drain", w.ask("POST", "/v1/nodes/n1/drain", "", nil))
	good("POST /v1/nodes/{id}/resume", w.ask("POST", "/v1/nodes/n1/resume", "", nil))
	for _, path := range []string{"/v1/nodes", "/v1/jobs", "/v1/pools", "/v1/version", "/healthz", "/readyz", "/openapi.yaml", "/asyncapi.yaml", "/v1/instances", "/v1/dlq"} {
		good("GET "+path, w.get(path))
	}
	w.get("/v1/audio/job-1").refused(wire.Unauthorized) // another test has addresses
	w.ask("PUT", "/v1/audio/job-1/tts", "", nil).refused(wire.Unauthorized)
	seen["GET /v1/audio/{id}"], seen["PUT /v1/audio/{id}/tts"] = true, true
	w.post("/v1/sessions", obj{}).refused(wire.NotFound) // without keys; another test mints
	seen["POST /v1/sessions"] = true
	for _, path := range []string{"/ws/node", "/ws/session"} { // nobody who does not ask for a WebSocket gets one
		if a := w.get(path); a.status != http.StatusUpgradeRequired {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		seen["GET "+path] = true
	}
	for _, path := range []string{"/v1/dlq/replay", "/v1/dlq/purge"} {
		good("POST "+path, w.post(path, obj{"all": true}))
	}
	good("GET /v1/nodes/{id}", w.get("/v1/nodes/n1"))
	good("GET /v1/jobs/{id}", w.get("/v1/jobs/"+d.JobID))

	for path, item := range describedBy(t, w.s.Server).doc.Paths.Map() {
		for method := range item.Operations() {
			if operation := method + " " + path; !seen[operation] && path != metrics {
				t.Errorf("%s was not called", operation)
			}
		}
	}
}

// TestSeedBodies sends the bodies of the contract as they are printed there. They must be understood, and the
// description must allow them.
func TestSeedBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.stranger("node-123")
	send := func(path, body string) answer {
		t.Helper()
		return w.ask("POST", path, "application/json", []byte(body))
	}
	const register = `{
	  "node_id": "node-123",
	  "health": "ready",
	  "semantic_langs": ["en","zh"],
	  "nmt_pairs": [["en","zh"],["zh","en"]],
	  "tts_langs": ["en","zh"],
	  "max_concurrent_jobs": 2
	}`
	if a := send("/v1/node/register", register); a.status != 200 {
		t.Fatalf("register: %d %s", a.status, a.body)
	}
	send("/v1/node/heartbeat", `{
	  "node_id": "node-123",
	  "health": "ready",
	  "current_load": {"gpu": 0.52, "cpu": 0.33},
	  "semantic_langs": ["en","zh"],
	  "nmt_pairs": [["en","zh"],["zh","en"]],
	  "tts_langs": ["en","zh"],
	  "max_concurrent_jobs": 2
	}`).ok()
	n.beat(obj{"callback_url": n.srv.URL}) // the contract of HTTP nodes adds it
	const dispatch = `{
	  "session_id": "room-888",
	  "src_lang": "en",
	  "tgt_lang": "zh",
	  "audio_ref": "blob://...",
	  "options": {
	    "require_tts": false,
	    "preferred_node_id": null
	  }
	}`
	for _, report := range []string{"/v1/job/done", "/v1/job/fail"} {
		if a := send("/v1/dispatch/f2f", dispatch); a.status != 200 {
			t.Fatalf("dispatch: %d %s", a.status, a.body)
		}
		d, _ := w.next()
		about := `{"job_id":"` + d.JobID + `","attempt_id":1,"node_id":"node-123"`
		send("/v1/job/ack", about+`}`).ok()
		if report == "/v1/job/done" {
			send(report, about+`,"status":"ok"}`).ok()
		} else {
			send(report, about+`,"status":"error","reason":"MODEL_LOAD_FAILED"}`).ok()
		}
	}
}
