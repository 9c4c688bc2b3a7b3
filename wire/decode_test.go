package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nested is an object that holds arrays, depth levels deep in all.
func nested(depth int) string {
	return `{"result":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
}

func TestDecodeAccepts(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"smallest":                        `{}`,
		"blank around":                    " \r\n\t{} \n",
		"unknown field":                   `{"node_id":"n","colour":"blue","more":{"a":[1]}}`,
		"null field":                      `{"node_id":null}`,
		"as deep as may be":               nested(MaxDepth),
		"brackets in a string":            `{"reason":"` + strings.Repeat("[{", 100) + `"}`,
		"brackets after an escaped quote": `{"reason":"\"` + strings.Repeat("[", 100) + `"}`,
		"brackets after a backslash":      `{"a":"\\","reason":"` + strings.Repeat("[", 100) + `"}`,
		"wide, not deep":                  `{"result":[` + strings.Repeat("[],", 1000) + `[]]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := Decode([]byte(body), &JobDoneRequest{}); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

func TestDecodeReadsEveryField(t *testing.T) {
	t.Parallel()
	var got JobDoneRequest
	body := `{"job_id":"job-1","attempt_id":2,"node_id":"n","epoch":1763179200000001,"status":"ok","result":{"text_tgt":"hi"}}`
	if err := Decode([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	epoch := int64(1763179200000001) // more digits than a float64 is sure of
	want := JobDoneRequest{
		JobAckRequest: JobAckRequest{JobID: "job-1", AttemptID: 2, NodeID: "n", Epoch: &epoch},
		Status:        "ok", Result: json.RawMessage(`{"text_tgt":"hi"}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

// Buffers of bodies are reused, so decoded values must not point into them.
func TestDecodeCopiesTheBody(t *testing.T) {
	t.Parallel()
	body := []byte(`{"job_id":"job-1","result":{"a":1}}`)
	var got JobDoneRequest
	if err := Decode(body, &got); err != nil {
		t.Fatal(err)
	}
	clear(body)
	if got.JobID != "job-1" || string(got.Result) != `{"a":1}` {
		t.Errorf("after the buffer was cleared: %q, %q", got.JobID, got.Result)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		into       any
		field      string
		detail     string
	}{
		{"empty", "", &RegisterRequest{}, "", "the body is empty"},
		{"blank", " \n\t", &RegisterRequest{}, "", "the body is empty"},
		{"text", "hello", &RegisterRequest{}, "", "not JSON: invalid character 'h'"},
		{"form", "node_id=n1", &RegisterRequest{}, "", "not JSON"},
		{"single quotes", `{'node_id':'n'}`, &RegisterRequest{}, "", "at byte 2"},
		{"trailing comma", `{"node_id":"n",}`, &RegisterRequest{}, "", "not JSON"},
		{"comment", `{} // mine`, &RegisterRequest{}, "", "after the JSON object"},
		{"byte order mark", "\ufeff{}", &RegisterRequest{}, "", "not JSON"},
		{"truncated in an object", `{"node_id":"n"`, &RegisterRequest{}, "", "ends too early"},
		{"truncated in a string", `{"node_id":"n`, &RegisterRequest{}, "", "ends too early"},
		{"only a brace", `{`, &RegisterRequest{}, "", "ends too early"},
		{"newline in a string", "{\"node_id\":\"a\nb\"}", &RegisterRequest{}, "", "not JSON"},

		{"array", `[{"node_id":"n"}]`, &RegisterRequest{}, "", "must be a JSON object, not array"},
		{"string", `"n"`, &RegisterRequest{}, "", "must be a JSON object, not string"},
		{"number", `1`, &RegisterRequest{}, "", "must be a JSON object, not number"},
		{"boolean", `true`, &RegisterRequest{}, "", "must be a JSON object, not bool"},

		{"two objects", `{}{}`, &RegisterRequest{}, "", "after the JSON object"},
		{"two lines of objects", "{}\n{}\n", &RegisterRequest{}, "", "after the JSON object"},
		{"object and text", `{} x`, &RegisterRequest{}, "", "after the JSON object"},
		{"extra closing brace", `{}}`, &RegisterRequest{}, "", "after the JSON object"},

		{"too deep", nested(MaxDepth + 1), &JobDoneRequest{}, "", "deeper than 32 levels"},
		{"too deep in objects", strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33), &JobDoneRequest{}, "", "deeper than 32 levels"},
		{"far too deep", strings.Repeat("[", 1<<19), &JobDoneRequest{}, "", "deeper than 32 levels"},
		{"too deep in an unknown field", `{"x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, &OKResponse{}, "", "deeper than 32 levels"},

		{"number for a string", `{"session_id":5}`, &DispatchRequest{}, "session_id", "must be a string, not number"},
		{"object for a string", `{"src_lang":{"tag":"en"}}`, &DispatchRequest{}, "src_lang", "must be a string, not object"},
		{"string for an object", `{"options":"tts"}`, &DispatchRequest{}, "options", "must be an object, not string"},
		{"string for a list, inside", `{"options":{"features":"tone"}}`, &DispatchRequest{}, "options.features", "must be an array, not string"},
		{"number in a list, inside", `{"options":{"required_models":["m",3]}}`, &DispatchRequest{}, "options.required_models", "must be a string, not number"},
		{"string for a flag, inside", `{"options":{"require_tts":"yes"}}`, &DispatchRequest{}, "options.require_tts", "must be true or false, not string"},
		{"string for a whole number", `{"attempt_id":"1"}`, &JobAckRequest{}, "attempt_id", "must be a whole number, not string"},
		{"fraction for a whole number", `{"attempt_id":1.5}`, &JobAckRequest{}, "attempt_id", "must be a whole number, not number 1.5"},
		{"number too large", `{"epoch":99999999999999999999}`, &JobAckRequest{}, "epoch", "must be a whole number, not number 9999"},
		{"negative count", `{"hb_seq":-1}`, &HeartbeatRequest{}, "hb_seq", "must be a whole number of 0 or more, not number -1"},
		{"list for a map", `{"reasons":[]}`, &Error{}, "reasons", "must be an object, not array"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkRefusal(t, Decode([]byte(c.body), c.into), c.field, c.detail)
		})
	}
}

func checkRefusal(t *testing.T, err error, field, detail string) {
	t.Helper()
	var got *Error
	if !errors.As(err, &got) {
		t.Fatalf("got %v (%T), want a *wire.Error", err, err)
	}
	if diff := cmp.Diff([]string{string(InvalidRequest), field}, []string{string(got.Code), got.Field}); diff != "" {
		t.Errorf("code and field (-want +got):\n%s", diff)
	}
	if !strings.Contains(got.Detail, detail) {
		t.Errorf("detail %q does not contain %q", got.Detail, detail)
	}
	if field != "" && !strings.HasPrefix(got.Detail, field+": ") {
		t.Errorf("detail %q does not begin with the field", got.Detail)
	}
}

// null is valid JSON and no object; json.Unmarshal would decode it as an empty registration.
func TestDecodeRefusesNull(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"null", " null\n"} {
		checkRefusal(t, Decode([]byte(body), &RegisterRequest{}), "", "must be a JSON object, not null")
	}
}

// Embedded Go structs must not show in the name of a field.
func TestDecodeErrorNamesTheJSONField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		into       any
		field      string
		detail     string
	}{
		{"register", `{"asr_langs":"en"}`, &RegisterRequest{}, "asr_langs", "must be an array, not string"},
		{"register, in a list", `{"semantic_langs":["en",5]}`, &RegisterRequest{}, "semantic_langs", "must be a string, not number"},
		{"register, in a list of lists", `{"nmt_pairs":[["en",5]]}`, &RegisterRequest{}, "nmt_pairs", "must be a string, not number"},
		{"register, pair as a string", `{"nmt_pairs":["en-zh"]}`, &RegisterRequest{}, "nmt_pairs", "must be an array, not string"},
		{"register, in a list of objects", `{"installed_services":[{"status":1}]}`, &RegisterRequest{}, "installed_services.status", "must be a string, not number"},
		{"register, maximum", `{"max_concurrent_jobs":"4"}`, &RegisterRequest{}, "max_concurrent_jobs", "must be a whole number, not string"},
		{"heartbeat, inside", `{"current_load":{"cpu":"high"}}`, &HeartbeatRequest{}, "current_load.cpu", "must be a number, not string"},
		{"heartbeat, active", `{"active":[{"attempt_id":"x"}]}`, &HeartbeatRequest{}, "active.attempt_id", "must be a whole number, not string"},
		{"heartbeat, types", `{"capability_by_type":{"asr":1}}`, &HeartbeatRequest{}, "capability_by_type.asr", "must be true or false, not number"},
		{"done", `{"attempt_id":"1"}`, &JobDoneRequest{}, "attempt_id", "must be a whole number, not string"},
		{"fail", `{"job_id":1}`, &JobFailRequest{}, "job_id", "must be a string, not number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkRefusal(t, Decode([]byte(c.body), c.into), c.field, c.detail)
		})
	}
}

// Error details name JSON types, never Go types.
func TestExpectedDescribesEveryFieldType(t *testing.T) {
	t.Parallel()
	var visit func(typ reflect.Type)
	visit = func(typ reflect.Type) {
		text := expected(typ)
		if !strings.HasPrefix(text, "a string") && !slices.Contains([]string{
			"true or false", "a whole number", "a whole number of 0 or more", "a number", "an array", "an object",
		}, text) {
			t.Errorf("%s is described as %q", typ, text)
		}
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			if typ.Elem().Kind() != reflect.Uint8 {
				visit(typ.Elem())
			}
		case reflect.Struct:
			for i := range typ.NumField() {
				visit(typ.Field(i).Type)
			}
		}
	}
	for _, r := range requests {
		visit(reflect.TypeOf(r))
	}
}

// FuzzDecode decodes arbitrary bytes as every request body.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "[]", "null", "{}{}", `{"node_id":5}`, `{"node_id":"\ud800"}`, "{\"node_id\":\"\xff\"}", nested(32), nested(33),
		`{"semantic_langs":["en"],"max_concurrent_jobs":4,"current_load":{"cpu":0.5},"active":[{"job_id":"j","attempt_id":1}]}`,
		`{"job_id":"j","attempt_id":1,"node_id":"n","epoch":1,"result":{"a":[1,2,{"b":null}]}}`,
		`{"session_id":"s","src_lang":"en","tgt_lang":"zh","options":{"features":["tone"],"strict":true}}`,
		`{"attempt_id":1e400}`, `{"hb_seq":-0}`, `{"reasons":{"a":1.0}}`, `{"NODE_ID":1}`, `]]]]{{`, "{\"a\":\"\\", "\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		for _, r := range requests {
			typ := reflect.TypeOf(r)
			into := reflect.New(typ)
			err := Decode(body, into.Interface())
			if !bytes.Equal(body, before) {
				t.Fatalf("%s: decoding changed the body", typ)
			}
			if err != nil {
				checkDecodeError(t, typ, err)
				continue
			}
			if trimmed := bytes.TrimSpace(body); !json.Valid(body) || trimmed[0] != '{' {
				t.Fatalf("%s: %q was accepted and is no JSON object", typ, body)
			}
			// An accepted body can be encoded, and is accepted again.
			sent, err := json.Marshal(into.Interface())
			if err != nil {
				t.Fatalf("%s: %q was accepted and cannot be encoded: %v", typ, body, err)
			}
			if err := Decode(sent, reflect.New(typ).Interface()); err != nil {
				t.Fatalf("%s: %q was accepted, but its encoding %q is not: %v", typ, body, sent, err)
			}
		}
	})
}

func checkDecodeError(t *testing.T, typ reflect.Type, err error) {
	t.Helper()
	var e *Error
	switch {
	case !errors.As(err, &e):
		t.Fatalf("%s: error is a %T, want *wire.Error: %v", typ, err, err)
	case e == nil:
		t.Fatalf("%s: a nil *wire.Error was returned as an error", typ)
	case e.Code != InvalidRequest:
		t.Fatalf("%s: code %q, want INVALID_REQUEST", typ, e.Code)
	case e.Detail == "":
		t.Fatalf("%s: an error without a detail", typ)
	}
}

func TestDecodeErrorOfInvalidBase64(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"data":5}`:      "data: must be base64 in a string, not number",
		`{"data":"!!!!"}`: "data is not base64: the mistake is at byte 0 of it",
	} {
		var in AudioChunk
		err := Decode([]byte(body), &in)
		var e *Error
		if !errors.As(err, &e) || e.Detail != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
