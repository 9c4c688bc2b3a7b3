package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// longest is how long an error body may be, whatever was sent.
const longest = 1024

// spoiled lists bodies of a type, each with one value replaced by what is given, wherever a value can be.
func spoiled(t reflect.Type, value any) []any {
	switch t.Kind() {
	case reflect.Pointer:
		return spoiled(t.Elem(), value)
	case reflect.Slice:
		all := []any{value, []any{value}}
		for _, v := range spoiled(t.Elem(), value) {
			all = append(all, []any{v})
		}
		return all
	case reflect.Map:
		all := []any{value}
		if key, ok := value.(string); ok {
			all = append(all, obj{key: "x"}, obj{key: 1}, obj{key: obj{}})
		}
		return append(all, obj{"asr": value})
	case reflect.Struct:
		all := []any{value}
		if key, ok := value.(string); ok {
			all = append(all, obj{key: 1})
		}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			for _, v := range spoiled(f.Type, value) {
				switch m, isObject := v.(obj); {
				case name != "":
					all = append(all, obj{name: v})
				case f.Anonymous && isObject:
					all = append(all, m)
				}
			}
		}
		return all
	}
	return []any{value}
}

// TestErrorsQuoteLittle: whatever is sent, and wherever, an error repeats a few bytes of it.
func TestErrorsQuoteLittle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	handler := w.s.Server.Handler()
	ask := func(method, target string, body []byte) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", bytes.NewReader(body))
		r.Method, r.Header = method, http.Header{"Content-Type": {"application/json"}}
		path, query, _ := strings.Cut(target, "?")
		r.URL.Path, r.URL.RawQuery = path, query
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		if rec.Code >= 400 && rec.Body.Len() > longest {
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
			for _, body := range spoiled(in, value) {
				encoded, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				ask(http.MethodPost, path, encoded)
				if body, ok := body.(obj); ok { // and with the rest of it as it should be
					encoded, err := json.Marshal(utterance(body).with(body))
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
	encoded, err := json.Marshal(utterance(obj{"options": obj{"required_services": names, "region": text[:200]}}))
	if err != nil {
		t.Fatal(err)
	}
	ask(http.MethodPost, "/v1/dispatch/f2f", encoded)
	ask(http.MethodPost, "/v1/dispatch/explain", encoded)
	for _, target := range []string{
		"/v1/nodes/" + text, "/v1/jobs/" + text, "/v1/audio/" + text, "/" + text, "/v1/audio/j?token=" + text,
		"/v1/nodes?" + text, "/v1/nodes?limit=" + text, "/v1/nodes?cursor=" + text, "/v1/nodes?state=" + text, "/v1/nodes?language=" + text,
		"/v1/jobs?" + text, "/v1/jobs?" + text + "=1", "/v1/jobs?state=" + text, "/v1/jobs?limit=" + text, "/v1/jobs?node_id=" + text, "/v1/jobs?scope=" + text,
		"/v1/jobs?cursor=" + text, "/v1/pools?" + text, "/v1/pools?cursor=" + text, "/v1/dlq?id=" + text, "/v1/dlq?limit=" + text,
	} {
		ask(http.MethodGet, target, nil)
	}
	ask(strings.Repeat("M", 30<<10), "/v1/nodes", nil)
}

// TestErrorFramesQuoteLittle: the same for the sockets.
func TestErrorFramesQuoteLittle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.Repeat("x", 16<<10)
	n := w.socketNode("n1")
	s := w.connect("/ws/session")
	s.say(obj{"type": "session_start", "langs": []string{"en", "es"}})
	s.until("session_started")
	for _, p := range []*peer{n, s} {
		p.say(obj{"type": text})
		if m := p.until("error"); len(encode(t, m)) > longest {
			t.Errorf("%s: an error of %d bytes", p.path, len(encode(t, m)))
		}
	}
	n.say(obj{"type": "job_ack", "job_id": text, "attempt_id": 1})
	if m := n.until("error"); len(encode(t, m)) > longest {
		t.Errorf("an error of %d bytes", len(encode(t, m)))
	}
	for path, first := range map[string]obj{
		"/ws/node": {"type": "node_register", "node_id": text}, "/ws/session": {"type": "session_start", "langs": []string{text, "en"}},
	} {
		for _, m := range []obj{first, {"type": text}} {
			p := w.connect(path)
			p.say(m)
			if m := p.until("error"); len(encode(t, m)) > longest {
				t.Errorf("%s: an error of %d bytes", path, len(encode(t, m)))
			}
		}
	}
}
