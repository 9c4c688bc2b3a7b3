package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

// FuzzServer: for any request the handler does not panic and does not answer INTERNAL, and every answer that is no success is a
// wire.Error with the status of its code.
func FuzzServer(f *testing.F) {
	cfg := config.Default()
	cfg.Scheduler.ModelNotAvailable.NodeRatePerMinute = 1 << 30
	s, err := scheduler.New(f.Context(), cfg, wire.VersionResponse{Version: "test", Go: "go"}, slog.New(slog.DiscardHandler), fleet.Direct(nil)) // no input makes it call a real address
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Jobs.Close)
	handler, described := s.Server.Handler(), loadOpenAPI(f, s.Server)
	send := func(method, path, contentType string, body []byte) (*http.Request, *httptest.ResponseRecorder) {
		// The request is made here, because httptest.NewRequest panics on malformed ones.
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") {
			return nil, nil // net/http refuses it before the handler
		}
		req := &http.Request{
			Method: method, URL: u, Host: "127.0.0.1", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RequestURI: path,
			Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)),
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		return req, rec
	}

	node := encode(f, nodeDeclaration(object{"node_id": "n1", "callback_url": "http://127.0.0.1:1/jobs"}))
	_, rec := send("POST", "/v1/node/register", asJSON, node)
	if rec.Code != 200 {
		f.Fatalf("register: %s", rec.Body)
	}
	_, rec = send("POST", "/v1/dispatch/f2f", asJSON, encode(f, dispatchBody(object{"request_id": "req-1"})))
	var placed wire.DispatchResponse
	if err := json.Unmarshal(rec.Body.Bytes(), &placed); err != nil || rec.Code != 200 {
		f.Fatalf("dispatch: %s", rec.Body)
	}
	addSeeds(f, node, placed.JobID)

	f.Fuzz(func(t *testing.T, method, path, contentType string, body []byte) {
		if !isMethodToken(method) {
			return // net/http refuses it before the handler
		}
		req, rec := send(method, path, contentType, body)
		if req == nil {
			return // likewise
		}
		answer := rec.Body.Bytes()
		if rec.Code/100 != 2 {
			var e wire.Error
			if err := json.Unmarshal(answer, &e); err != nil && method != http.MethodHead {
				t.Fatalf("%s %s answered %d without an error: %q", method, path, rec.Code, answer)
			}
			switch ready := req.URL.Path == "/readyz" && rec.Code == http.StatusServiceUnavailable; {
			case ready:
			case rec.Code == http.StatusInternalServerError, !isKnownCode(e.Code), wirespec.Status(e.Code) != rec.Code, e.Detail == "":
				t.Fatalf("%s %s answered %d: %s", method, path, rec.Code, answer)
			}
		}
		if req.URL.Path != metricsPath && rec.Code/100 != 2 {
			if err := described.validate(req, body, rec.Code, rec.Header(), answer); err != nil {
				t.Fatalf("%s %s answered %d, not as described in /openapi.yaml: %v\n%s", method, path, rec.Code, err, answer)
			}
		}
	})
}

// asJSON is the Content-Type of JSON.
const asJSON = "application/json"

// addSeeds adds valid requests of every kind, and some invalid ones, to the corpus.
func addSeeds(f *testing.F, node []byte, job string) {
	f.Helper()
	report := encode(f, object{"job_id": job, "attempt_id": 1, "node_id": "n1", "epoch": 1, "status": "ok", "result": object{"text_tgt": "x"}})
	f.Add("POST", "/v1/node/register", asJSON, node)
	f.Add("POST", "/v1/node/heartbeat", asJSON, []byte(`{"node_id":"n1","hb_seq":1,"current_jobs":1,"current_load":{"cpu":0.5},"active":[{"job_id":"j","attempt_id":1}]}`))
	f.Add("POST", "/v1/node/model_not_available", asJSON, []byte(`{"node_id":"n1","service_id":"s","job_id":"j","attempt_id":1}`))
	f.Add("POST", "/v1/dispatch/f2f", asJSON, encode(f, dispatchBody(object{"request_id": "req-1"})))
	f.Add("POST", "/v1/dispatch/explain", asJSON, encode(f, dispatchBody(object{"options": object{"strict": true, "preferred_node_id": "n1"}})))
	f.Add("POST", "/v1/job/ack", asJSON, report)
	f.Add("POST", "/v1/job/done", asJSON, report)
	f.Add("POST", "/v1/job/fail", asJSON, report)
	f.Add("POST", "/v1/nodes/n1/drain", "", []byte(nil))
	f.Add("POST", "/v1/nodes/n1/resume", "", []byte(nil))
	f.Add("POST", "/v1/jobs/"+job+"/cancel", "", []byte(nil))
	for _, path := range []string{
		"/", "/v1/nodes", "/v1/nodes/n1", "/v1/jobs?state=DONE&limit=1&node_id=n1&session_id=s", "/v1/jobs/" + job, "/v1/directions", "/v1/version",
		"/healthz", "/readyz", "/openapi.yaml", "/metrics", "/v1/nodes/%2F", "/v1/jobs?limit=%zz", "/v1/nodes/n1?x", "/%00",
	} {
		f.Add("GET", path, "", []byte(nil))
	}
	f.Add("BREW", "/v1/nodes", "", []byte(nil))
	f.Add("POST", "/v1/job/done", "text/plain; charset=\"", []byte("{"))
}

// isMethodToken reports whether a method is a token, as HTTP requires.
func isMethodToken(method string) bool {
	if method == "" || method == http.MethodConnect {
		return false
	}
	for _, c := range method {
		if c <= ' ' || c >= 127 || strings.ContainsRune("()<>@,;:\\\"/[]?={}", c) {
			return false
		}
	}
	return true
}

// maxErrorBody is the maximum size of an error's body.
const maxErrorBody = 1024

// bodiesWith are bodies of a type, each with one value replaced, at every position of a value.
func bodiesWith(t reflect.Type, value any) []any {
	switch t.Kind() {
	case reflect.Pointer:
		return bodiesWith(t.Elem(), value)
	case reflect.Slice:
		all := []any{value, []any{value}}
		for _, v := range bodiesWith(t.Elem(), value) {
			all = append(all, []any{v})
		}
		return all
	case reflect.Map:
		all := []any{value}
		if key, ok := value.(string); ok {
			all = append(all, object{key: "x"}, object{key: 1}, object{key: object{}})
		}
		return append(all, object{"asr": value})
	case reflect.Struct:
		all := []any{value}
		if key, ok := value.(string); ok {
			all = append(all, object{key: 1})
		}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			for _, v := range bodiesWith(f.Type, value) {
				switch m, isObject := v.(object); {
				case name != "":
					all = append(all, object{name: v})
				case f.Anonymous && isObject:
					all = append(all, m)
				}
			}
		}
		return all
	}
	return []any{value}
}

// TestErrorsQuoteBoundedInput: an error quotes at most a few bytes of the request, wherever they are.
func TestErrorsQuoteBoundedInput(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	handler := ts.scheduler.Server.Handler()
	ask := func(method, target string, body []byte) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", bytes.NewReader(body))
		r.Method, r.Header = method, http.Header{"Content-Type": {"application/json"}}
		path, query, _ := strings.Cut(target, "?")
		r.URL.Path, r.URL.RawQuery = path, query
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		if rec.Code >= 400 && rec.Body.Len() > maxErrorBody {
			t.Errorf("%s %.60s: an error of %d bytes: %.200s", method, target, rec.Body.Len(), rec.Body)
		}
	}
	text := strings.Repeat("x", 16<<10)
	number := json.Number("1" + strings.Repeat("0", 16<<10))
	for path, in := range map[string]reflect.Type{
		"/v1/node/register":            reflect.TypeFor[wire.RegisterRequest](),
		"/v1/node/heartbeat":           reflect.TypeFor[wire.HeartbeatRequest](),
		"/v1/node/model_not_available": reflect.TypeFor[wire.ModelNotAvailableRequest](),
		"/v1/dispatch/f2f":             reflect.TypeFor[wire.DispatchRequest](),
		"/v1/dispatch/explain":         reflect.TypeFor[wire.DispatchRequest](),
		"/v1/job/ack":                  reflect.TypeFor[wire.JobAckRequest](),
		"/v1/job/done":                 reflect.TypeFor[wire.JobDoneRequest](),
		"/v1/job/fail":                 reflect.TypeFor[wire.JobFailRequest](),
		"/v1/sessions":                 reflect.TypeFor[wire.SessionTokenRequest](),
		"/v1/dlq/replay":               reflect.TypeFor[wire.DeadLettersRequest](),
		"/v1/dlq/purge":                reflect.TypeFor[wire.DeadLettersRequest](),
	} {
		for _, value := range []any{text, number} {
			for _, body := range bodiesWith(in, value) {
				encoded, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				ask(http.MethodPost, path, encoded)
				if body, ok := body.(object); ok { // and with all other fields valid
					encoded, err := json.Marshal(dispatchBody(body).with(body))
					if err != nil {
						t.Fatal(err)
					}
					ask(http.MethodPost, path, encoded)
				}
			}
		}
	}
	names := make([]string, 4000)
	for i := range names {
		names[i] = strings.Repeat("n", 200)
	}
	encoded, err := json.Marshal(dispatchBody(object{"options": object{"required_services": names, "region": text[:200]}}))
	if err != nil {
		t.Fatal(err)
	}
	ask(http.MethodPost, "/v1/dispatch/f2f", encoded)
	ask(http.MethodPost, "/v1/dispatch/explain", encoded)
	for _, target := range []string{
		"/v1/nodes/" + text, "/v1/jobs/" + text, "/v1/audio/" + text, "/" + text, "/v1/audio/j?token=" + text,
		"/v1/nodes?" + text, "/v1/nodes?limit=" + text, "/v1/nodes?cursor=" + text, "/v1/nodes?state=" + text, "/v1/nodes?language=" + text,
		"/v1/jobs?" + text, "/v1/jobs?" + text + "=1", "/v1/jobs?state=" + text, "/v1/jobs?limit=" + text, "/v1/jobs?node_id=" + text, "/v1/jobs?scope=" + text,
		"/v1/jobs?cursor=" + text, "/v1/directions?" + text, "/v1/directions?cursor=" + text, "/v1/dlq?id=" + text, "/v1/dlq?limit=" + text,
	} {
		ask(http.MethodGet, target, nil)
	}
	ask(strings.Repeat("M", 30<<10), "/v1/nodes", nil)
}

// TestErrorFramesQuoteBoundedInput: the same for the error frames of sockets.
func TestErrorFramesQuoteBoundedInput(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	text := strings.Repeat("x", 16<<10)
	n := ts.connectNode("n1")
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}})
	s.readUntil("session_started")
	for _, c := range []*wsClient{n, s} {
		c.send(object{"type": text})
		if m := c.readUntil("error"); len(encode(t, m)) > maxErrorBody {
			t.Errorf("%s: an error of %d bytes", c.path, len(encode(t, m)))
		}
	}
	n.send(object{"type": "job_ack", "job_id": text, "attempt_id": 1})
	if m := n.readUntil("error"); len(encode(t, m)) > maxErrorBody {
		t.Errorf("an error of %d bytes", len(encode(t, m)))
	}
	for path, first := range map[string]object{
		"/ws/node": {"type": "node_register", "node_id": text}, "/ws/session": {"type": "session_start", "langs": []string{text, "en"}},
	} {
		for _, m := range []object{first, {"type": text}} {
			c := ts.connect(path)
			c.send(m)
			if m := c.readUntil("error"); len(encode(t, m)) > maxErrorBody {
				t.Errorf("%s: an error of %d bytes", path, len(encode(t, m)))
			}
		}
	}
}
