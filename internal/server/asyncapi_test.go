package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/test/docpage"
	"github.com/lingua-scheduler/lingua/wire"
)

const goldenAsyncAPI = "../../api/asyncapi.yaml"

// TestAsyncAPIGolden: the description of the sockets is valid AsyncAPI, and equal to the copy in api/. The flag -update rewrites
// the copy.
func TestAsyncAPIGolden(t *testing.T) {
	t.Parallel()
	made, err := makeAsyncAPI()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := readYAML(made)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := asyncAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Errorf("not valid: %v", err)
	}
	if *update {
		if err := os.WriteFile(goldenAsyncAPI, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(goldenAsyncAPI)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(golden, made) {
		t.Errorf("the sockets have changed: if that is intended, run this test with -update (-%s +now)\n%s",
			goldenAsyncAPI, cmp.Diff(strings.Split(string(golden), "\n"), strings.Split(string(made), "\n")))
	}
}

// asyncAPISchema is the JSON Schema of the specification. See testdata/asyncapi/README.md.
var asyncAPISchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	text, err := os.ReadFile("testdata/asyncapi/3.0.0.json")
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	const where = "http://asyncapi.com/definitions/3.0.0/asyncapi.json"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(where, doc); err != nil {
		return nil, err
	}
	return c.Compile(where)
})

// TestAsyncAPISchemaRejectsInvalidDocuments: the schema detects invalid descriptions, so that TestAsyncAPIGolden proves something.
func TestAsyncAPISchemaRejectsInvalidDocuments(t *testing.T) {
	t.Parallel()
	schema, err := asyncAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	made, err := makeAsyncAPI()
	if err != nil {
		t.Fatal(err)
	}
	for name, corrupt := range map[string]func(doc map[string]any){
		"another version":    func(doc map[string]any) { doc["asyncapi"] = "2.6.0" },
		"no info":            func(doc map[string]any) { delete(doc, "info") },
		"an unknown action":  func(doc map[string]any) { resolve(doc, "#/operations/toNode").(map[string]any)["action"] = "publish" },
		"an unknown field":   func(doc map[string]any) { resolve(doc, "#/channels/node").(map[string]any)["path"] = "/" },
		"an unknown binding": func(doc map[string]any) { resolve(doc, "#/channels/node/bindings/ws").(map[string]any)["cookies"] = "" },
		"an invalid schema":  func(doc map[string]any) { resolve(doc, "#/components/schemas/Drain").(map[string]any)["type"] = "flag" },
	} {
		doc, err := readYAML(made)
		if err != nil {
			t.Fatal(err)
		}
		corrupt(doc)
		if schema.Validate(doc) == nil {
			t.Errorf("%s was not detected", name)
		}
	}
}

// TestEveryMessageIsDescribed: wire.Frames and the description have the same messages, and every reference resolves, which the
// schema of AsyncAPI does not check.
func TestEveryMessageIsDescribed(t *testing.T) {
	t.Parallel()
	d := asyncAPI(t)
	var want, got []string
	for _, f := range wirespec.Frames() {
		want = append(want, fmt.Sprintf("%s %s %s: %s", f.Path(), actionOf(f.Side), f.Frame.Type(), f.About))
	}
	for key := range d.messages {
		m := resolve(d.doc, "#/channels/"+strings.TrimPrefix(key.path, "/ws/")+"/messages/"+key.name).(map[string]any)
		got = append(got, fmt.Sprintf("%s %s %s: %s", key.path, key.action, key.name, m["summary"]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-wirespec.Frames() +description)\n%s", diff)
	}
	checkReferences(t, d.doc, d.doc)
}

// checkReferences resolves every reference.
func checkReferences(t *testing.T, doc map[string]any, v any) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			checkReferences(t, doc, e)
		}
	case map[string]any:
		if to := refOf(v); to != "" && resolve(doc, to) == nil {
			t.Errorf("%s does not resolve", to)
		} else if to != "" && len(v) > 1 {
			t.Errorf("fields beside the reference to %s are ignored: %v", to, v)
		}
		for _, e := range v {
			checkReferences(t, doc, e)
		}
	}
}

// TestCloseCodesAreDescribed: docs/codes.md and the description have the same table of close codes.
func TestCloseCodesAreDescribed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(repository + "/docs/codes.md")
	if err != nil {
		t.Fatal(err)
	}
	page := docpage.Page{Text: string(text)}
	about := resolve(asyncAPI(t).doc, "#/info").(map[string]any)["description"].(string)
	_, table, _ := strings.Cut(about, "|---|---|---|---|\n")
	var described []string
	for line := range strings.Lines(table) {
		described = append(described, strings.TrimSpace(line))
	}
	var documented []string
	for _, row := range page.Table("close codes") {
		documented = append(documented, "| "+strings.Join(row, " | ")+" |")
	}
	if diff := cmp.Diff(documented, described); diff != "" || len(described) == 0 {
		t.Errorf("(-docs/codes.md +description)\n%s", diff)
	}
}

// TestMessagesMatchDescription: every message, with all fields and with the required ones only, matches its description, and the
// description has all its fields.
func TestMessagesMatchDescription(t *testing.T) {
	t.Parallel()
	d := asyncAPI(t)
	for _, f := range wirespec.Frames() {
		for _, all := range []bool{true, false} {
			text := sampleMessage(t, f.Frame, all)
			checkMessage(t, f.Path(), actionOf(f.Side), text)
			if err := validateMessage(t, d.strict[keyOf(f)], parseObject(t, text)); err != nil {
				t.Errorf("a field is not described: %v\n%s", err, text)
			}
			more := parseObject(t, text).with(object{"not_known": object{}})
			if err := validateMessage(t, d.messages[keyOf(f)], more); err != nil {
				t.Errorf("an unknown field must be allowed: %v", err)
			}
			if err := d.validate(f.Path(), actionOf(f.Side), encode(t, more)); (err == nil) != (actionOf(f.Side) == received) {
				t.Errorf("%s with an unknown field: %v", f.Frame.Type(), err)
			}
		}
	}
}

// TestInvalidMessagesDoNotMatchDescription: each message with a field that is missing, null or of another type does not match its
// description.
func TestInvalidMessagesDoNotMatchDescription(t *testing.T) {
	t.Parallel()
	d := asyncAPI(t)
	for _, f := range wirespec.Frames() {
		full, minimal := parseObject(t, sampleMessage(t, f.Frame, true)), parseObject(t, sampleMessage(t, f.Frame, false))
		refused := func(m object, how string, args ...any) {
			t.Helper()
			if validateMessage(t, d.messages[keyOf(f)], m) == nil {
				t.Errorf("%s %s", f.Frame.Type(), fmt.Sprintf(how, args...))
			}
		}
		refused(full.with(object{"type": "another"}), "may have another type")
		if d.validate(f.Path(), actionOf(f.Side), encode(t, full.with(object{"type": "another"}))) == nil {
			t.Errorf("there is a message of another type")
		}
		for name := range minimal { // includes the type
			refused(minimal.with(object{name: nil}), "may lack %s", name)
			if name != "result" {
				refused(minimal.with(object{name: json.RawMessage("null")}), "may have null as %s", name)
			}
		}
		for name, value := range full {
			if name != "result" { // is the node's own, of any type
				refused(full.with(object{name: otherType(value)}), "may have %v as %s", otherType(value), name)
			}
		}
	}
}

// TestMessagesHaveOneDirection: a message is described only for the side that sends it, and for its socket.
func TestMessagesHaveOneDirection(t *testing.T) {
	t.Parallel()
	d := asyncAPI(t)
	described := make(map[messageKey]bool)
	for _, f := range wirespec.Frames() {
		described[keyOf(f)] = true
	}
	for _, f := range wirespec.Frames() {
		text := sampleMessage(t, f.Frame, true)
		for _, path := range []string{"/ws/node", "/ws/session"} {
			for _, w := range []action{sent, received} {
				err := d.validate(path, w, text)
				if want := described[messageKey{path, w, string(f.Frame.Type())}]; (err == nil) != want {
					t.Errorf("%s %s %s: %v", path, w, f.Frame.Type(), err)
				}
			}
		}
	}
}

// TestBinaryHeadersMatchDescription: the headers of binary frames match their descriptions.
func TestBinaryHeadersMatchDescription(t *testing.T) {
	t.Parallel()
	d := asyncAPI(t)
	kinds := map[messageKey]string{
		{"/ws/node", sent, "audio"}:   wire.KindAudio,
		{"/ws/node", received, "tts"}: wire.KindTTS,
		{"/ws/session", sent, "tts"}:  wire.KindTTS,
	}
	if len(d.headers) != len(kinds) {
		t.Errorf("headers of %d messages are described; want %d", len(d.headers), len(kinds))
	}
	for key, kind := range kinds {
		for _, last := range []bool{false, true} {
			h := wire.BinaryHeader{Kind: kind, ActiveJob: wire.ActiveJob{JobID: "j", AttemptID: 1}, Last: last}
			m := parseObject(t, encode(t, h))
			if err := validateMessage(t, d.headers[key], m); err != nil {
				t.Errorf("%v: %v", key, err)
			}
			other := wire.KindAudio
			if kind == other {
				other = wire.KindTTS
			}
			if validateMessage(t, d.headers[key], m.with(object{"kind": other})) == nil {
				t.Errorf("%v may be of kind %s", key, other)
			}
			for name := range m {
				if name != "last" && validateMessage(t, d.headers[key], m.with(object{name: nil})) == nil {
					t.Errorf("%v may lack %s", key, name)
				}
				if validateMessage(t, d.headers[key], m.with(object{name: otherType(m[name])})) == nil {
					t.Errorf("%v may have %v as %s", key, otherType(m[name]), name)
				}
			}
		}
	}
}

func asyncAPI(t *testing.T) *asyncAPIDoc {
	t.Helper()
	d, err := loadAsyncAPI()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func actionOf(s wirespec.Side) action {
	if s == wirespec.FromNode || s == wirespec.FromClient {
		return received
	}
	return sent
}

func keyOf(f wirespec.FrameInfo) messageKey {
	return messageKey{f.Path(), actionOf(f.Side), string(f.Frame.Type())}
}

func validateMessage(t *testing.T, s *jsonschema.Schema, m object) error {
	t.Helper()
	if s == nil {
		t.Fatal("there is no such message")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(encode(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

func parseObject(t *testing.T, text []byte) object {
	t.Helper()
	var m object
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

// otherType is a value of another JSON type.
func otherType(v any) any {
	if _, ok := v.(string); ok {
		return 7
	}
	return "seven"
}
