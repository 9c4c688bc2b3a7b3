package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

const goldenOpenAPI = "../../api/openapi.yaml"

// TestOpenAPIGolden: /openapi.yaml is valid OpenAPI 3.1, and equal to the copy in api, so that a change of the API shows in
// the diff of a commit. The flag -update rewrites the copy.
func TestOpenAPIGolden(t *testing.T) {
	t.Parallel()
	a := startScheduler(t).get("/openapi.yaml")
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
		t.Errorf("the version is OpenAPI %s, want 3.1", doc.OpenAPI)
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
		t.Errorf("the API has changed: if that is intended, run this test with -update (-%s +now)\n%s",
			goldenOpenAPI, cmp.Diff(strings.Split(string(golden), "\n"), strings.Split(string(a.body), "\n")))
	}
}

// TestEveryRouteIsDescribed: the routes and the description have the same operations.
func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	described := loadOpenAPI(t, ts.scheduler.Server)
	var in []string
	for path, item := range described.doc.Paths.Map() {
		for method := range item.Operations() {
			in = append(in, method+" "+path)
		}
	}
	routes := append(ts.scheduler.Server.Routes(), "GET "+metricsPath) // exists whether or not the table has it
	routes = slices.DeleteFunc(routes, func(r string) bool { return strings.HasPrefix(r, "GET "+dashboardPath) })
	slices.Sort(in)
	slices.Sort(routes)
	if diff := cmp.Diff(slices.Compact(routes), in); diff != "" {
		t.Errorf("(-routes +/openapi.yaml)\n%s", diff)
	}
}

// TestEveryRouteSucceeds calls every operation once with success, so that every description of a success is checked.
func TestEveryRouteSucceeds(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, oftenStats)
	n := ts.registerNode("n1", object{"max_concurrent_jobs": 9, "installed_services": []object{{"service_id": "s", "status": "ready"}}})
	seen := map[string]bool{"POST /v1/node/register": true}
	good := func(operation string, a response) {
		t.Helper()
		if a.status != 200 {
			t.Errorf("%s: %d %s", operation, a.status, a.body)
		}
		seen[operation] = true
	}
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	failing, _ := ts.dispatchAndReceive(dispatchBody(nil))
	good("POST /v1/dispatch/f2f", ts.post("/v1/dispatch/f2f", dispatchBody(nil)))
	good("POST /v1/dispatch/explain", ts.post("/v1/dispatch/explain", dispatchBody(nil)))
	good("POST /v1/job/ack", n.ack(d, nil))
	good("POST /v1/node/heartbeat", ts.post("/v1/node/heartbeat", object{"node_id": "n1", "active": activeList(d)}))
	good("POST /v1/job/done", n.done(d, object{"result": object{"text_tgt": "好"}}))
	good("POST /v1/job/fail", n.fail(failing, nil))
	good("POST /v1/jobs/{id}/cancel", ts.request("POST", "/v1/jobs/"+failing.JobID+"/cancel", "", nil))
	good("POST /v1/node/model_not_available", ts.post("/v1/node/model_not_available", object{"node_id": "n1", "service_id": "s"}))
	good("GET /v1/nodes/{id}/drain_effect", ts.get("/v1/nodes/n1/drain_effect"))
	good("POST /v1/nodes/{id}/drain", ts.request("POST", "/v1/nodes/n1/drain", "", nil))
	good("POST /v1/nodes/{id}/resume", ts.request("POST", "/v1/nodes/n1/resume", "", nil))
	for _, path := range []string{"/v1/jobs/cancel", "/v1/nodes/drain", "/v1/nodes/resume"} {
		good("POST "+path, ts.post(path, object{"filter": object{}, "dry_run": true}))
	}
	good("POST /login", ts.post("/login", object{"key": operatorKey}))
	good("POST /logout", ts.request("POST", "/logout", "", nil))
	good("GET /api/v1/stats", ts.waitForStats())
	ts.get("/v1/audio/job-1").expectError(wire.Unauthorized) // another test has signed URLs
	ts.request("PUT", "/v1/audio/job-1/tts", "", nil).expectError(wire.Unauthorized)
	seen["GET /v1/audio/{id}"], seen["PUT /v1/audio/{id}/tts"] = true, true
	ts.post("/v1/sessions", object{}).expectError(wire.NotFound) // without keys; another test mints tokens
	seen["POST /v1/sessions"] = true
	ts.scheduler.SetConfigSource(func() (config.Config, []string, error) { return config.Default(), nil, nil })
	good("POST /v1/config/reload", ts.request("POST", "/v1/config/reload", "", nil))
	for _, path := range []string{"/ws/node", "/ws/session"} { // without a WebSocket handshake
		if a := ts.get(path); a.status != http.StatusUpgradeRequired {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		seen["GET "+path] = true
	}
	for _, path := range []string{"/v1/dlq/replay", "/v1/dlq/purge"} {
		good("POST "+path, ts.post(path, object{"all": true}))
	}
	good("GET /v1/nodes/{id}", ts.get("/v1/nodes/n1"))
	good("GET /v1/nodes/{id}/series", ts.get("/v1/nodes/n1/series?from=1"))
	good("GET /v1/events/stream", ts.get("/v1/events/stream?seconds=0"))
	good("GET /v1/live", ts.get("/v1/live?seconds=0"))
	good("GET /v1/jobs/{id}", ts.get("/v1/jobs/"+d.JobID))
	good("GET /v1/jobs/{id}/decisions", ts.get("/v1/jobs/"+d.JobID+"/decisions"))
	for _, operation := range ts.scheduler.Server.Routes() {
		path, get := strings.CutPrefix(operation, "GET ")
		if get && !seen[operation] && !strings.Contains(path, "{") && !strings.HasPrefix(path, dashboardPath) && path != metricsPath {
			good(operation, ts.get(path))
		}
	}

	good("DELETE /v1/sessions/{id}", ts.request("DELETE", "/v1/sessions/room-1", "", nil))
	good("POST /v1/auth/revocations", ts.post("/v1/auth/revocations", object{"node": "n2", "reason": "it was stolen"}))
	good("DELETE /v1/auth/revocations/{id}", ts.request("DELETE", "/v1/auth/revocations/node~n2", "", nil))
	ts.discardDeliveries()
	reacted := ts.answerProbe(func(n *callbackNode, d delivery) { n.done(d, nil).expectOK() })
	good("POST /v1/nodes/{id}/probe", ts.post("/v1/nodes/n1/probe", object{}))
	<-reacted
	good("DELETE /v1/nodes/{id}", ts.request("DELETE", "/v1/nodes/n1", "", nil))

	for path, item := range loadOpenAPI(t, ts.scheduler.Server).doc.Paths.Map() {
		for method := range item.Operations() {
			if operation := method + " " + path; !seen[operation] && path != metricsPath {
				t.Errorf("%s was not called", operation)
			}
		}
	}
}

// TestContractBodies: the request bodies of the contract, as printed there, are accepted and match the description.
func TestContractBodies(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.newNode("node-123")
	send := func(path, body string) response {
		t.Helper()
		return ts.request("POST", path, "application/json", []byte(body))
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
	}`).expectOK()
	n.heartbeat(object{"callback_url": n.srv.URL}) // callback_url is part of the contract of HTTP nodes
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
		d, _ := ts.nextDelivery()
		about := `{"job_id":"` + d.JobID + `","attempt_id":1,"node_id":"node-123"`
		send("/v1/job/ack", about+`}`).expectOK()
		if report == "/v1/job/done" {
			send(report, about+`,"status":"ok"}`).expectOK()
		} else {
			send(report, about+`,"status":"error","reason":"MODEL_LOAD_FAILED"}`).expectOK()
		}
	}
}

// openAPIDoc is the description of /openapi.yaml.
type openAPIDoc struct {
	doc    *openapi3.T
	bodies *bodySchemas
}

var sharedOpenAPI = struct {
	sync.Once
	d   *openAPIDoc
	err error
}{}

// loadOpenAPI parses the description. It is the same for every scheduler of these tests, so it is parsed once.
func loadOpenAPI(t testing.TB, s *server.Server) *openAPIDoc {
	t.Helper()
	one := &sharedOpenAPI
	one.Do(func() {
		var yaml []byte
		if yaml, one.err = s.OpenAPI(); one.err == nil {
			one.d, one.err = parseOpenAPI(yaml)
		}
	})
	if one.err != nil {
		t.Fatalf("the description is not valid OpenAPI: %v", one.err)
	}
	return one.d
}

func parseOpenAPI(yaml []byte) (*openAPIDoc, error) {
	doc, err := openapi3.NewLoader().LoadFromData(yaml)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	bodies, err := newBodySchemas(doc)
	return &openAPIDoc{doc: doc, bodies: bodies}, err
}

// route finds the operation of a method and a path. The library's routers treat an escaped slash as a separator and ignore a
// trailing one; the scheduler does neither.
func (d *openAPIDoc) route(method string, u *url.URL) (*routers.Route, map[string]string) {
	if method == http.MethodHead { // answered like GET, without a body
		method = http.MethodGet
	}
	asked := strings.Split(u.EscapedPath(), "/")
	for _, path := range slices.Sorted(maps.Keys(d.doc.Paths.Map())) { // a name comes before a parameter in its place, as in the scheduler
		item := d.doc.Paths.Value(path)
		pattern := strings.Split(path, "/")
		operation := item.GetOperation(method)
		if operation == nil || len(pattern) != len(asked) {
			continue
		}
		params := make(map[string]string)
		matches := true
		for i, part := range pattern {
			name, isParam := strings.CutPrefix(part, "{")
			value, err := url.PathUnescape(asked[i])
			switch {
			case isParam:
				params[strings.TrimSuffix(name, "}")] = value
				matches = matches && err == nil && value != ""
			default:
				matches = matches && part == value
			}
		}
		if matches {
			return &routers.Route{Spec: d.doc, Path: path, PathItem: item, Method: method, Operation: operation}, params
		}
	}
	return nil, nil
}

// validate returns how an answer differs from its description. Accepted requests are checked too: the description must allow
// everything that the scheduler accepts.
func (d *openAPIDoc) validate(req *http.Request, asked []byte, status int, header http.Header, body []byte) error {
	route, params := d.route(req.Method, req.URL)
	if route == nil {
		return d.validateNoRoute(req.Method, status, body)
	}
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: anyCredential}
	if status/100 == 2 && route.Operation.RequestBody != nil {
		if err := d.validateRequest(in, asked); err != nil {
			return fmt.Errorf("accepted, but the description does not allow it: %w", err)
		}
	}
	place := responsePlace(route, status, header, body)
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: status, Header: header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: place != nil},
	}
	out.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil || place == nil {
		return err
	}
	return d.bodies.validate(body, place...)
}

// validateRequest returns how a request differs from its description.
func (d *openAPIDoc) validateRequest(in *openapi3filter.RequestValidationInput, asked []byte) error {
	place := requestPlace(in.Route, in.Request.Header, asked)
	again := in.Request.Clone(context.Background())
	again.Body = io.NopCloser(bytes.NewReader(asked))
	options := *anyCredential
	options.ExcludeRequestBody = place != nil
	err := openapi3filter.ValidateRequest(context.Background(), &openapi3filter.RequestValidationInput{
		Request: again, PathParams: in.PathParams, Route: in.Route, Options: &options,
	})
	if err != nil || place == nil {
		return err
	}
	return d.bodies.validate(asked, place...)
}

// anyCredential skips the check of credentials, which other tests do.
var anyCredential = &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}

// validateNoRoute checks the answer to a request without an operation: it must be an error in the described form.
func (d *openAPIDoc) validateNoRoute(method string, status int, body []byte) error {
	if status != http.StatusNotFound && status != http.StatusMethodNotAllowed && status != http.StatusForbidden {
		return fmt.Errorf("status %d for something that is not described", status)
	}
	if method == http.MethodHead {
		return nil
	}
	return d.bodies.validate(body, "components", "schemas", "Error")
}

// validatingTransport checks every answer against the description.
type validatingTransport struct {
	t    testing.TB
	doc  *openAPIDoc
	next http.RoundTripper
}

// metricsPath is in the format of Prometheus, which is not described.
const metricsPath = "/metrics"

// dashboardPath begins the paths of files for browsers, which are not described.
const dashboardPath = "/dashboard"

func (c *validatingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	var asked []byte
	if req.Body != nil {
		var err error
		if asked, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(asked))
	}
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if req.URL.Path != metricsPath && !strings.HasPrefix(req.URL.Path, dashboardPath) {
		if err := c.doc.validate(req, asked, resp.StatusCode, resp.Header, body); err != nil {
			c.t.Errorf("%s %s answered %d, not as described in /openapi.yaml: %v\n%s", req.Method, req.URL, resp.StatusCode, err, body)
		}
	}
	return resp, nil
}

// isKnownCode reports whether wire.Codes has a code.
func isKnownCode(code wire.Code) bool {
	for _, c := range wirespec.Codes() {
		if c == code {
			return true
		}
	}
	return false
}
