package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

const goldenAsyncAPI = "../../api/asyncapi.yaml"

// TestAsyncAPI holds the description of the sockets against the specification of AsyncAPI and against the copy in api/,
// which is the one that people read. The flag -update writes the copy anew.
func TestAsyncAPI(t *testing.T) {
	t.Parallel()
	made, err := describeSockets()
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
		t.Errorf("the sockets have changed: if that is meant, run this test with -update (-%s +now)\n%s",
			goldenAsyncAPI, cmp.Diff(strings.Split(string(golden), "\n"), strings.Split(string(made), "\n")))
	}
}

// asyncAPISchema is the specification, as far as a schema can say it. See testdata/asyncapi/README.md.
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

// TestAsyncAPISchemaRefuses: a check that refuses nothing would prove nothing.
func TestAsyncAPISchemaRefuses(t *testing.T) {
	t.Parallel()
	schema, err := asyncAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	made, err := describeSockets()
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(doc map[string]any){
		"another version":      func(doc map[string]any) { doc["asyncapi"] = "2.6.0" },
		"no info":              func(doc map[string]any) { delete(doc, "info") },
		"an unknown action":    func(doc map[string]any) { at(doc, "#/operations/toNode").(map[string]any)["action"] = "publish" },
		"an unknown field":     func(doc map[string]any) { at(doc, "#/channels/node").(map[string]any)["path"] = "/" },
		"an unknown binding":   func(doc map[string]any) { at(doc, "#/channels/node/bindings/ws").(map[string]any)["cookies"] = "" },
		"a schema that is not": func(doc map[string]any) { at(doc, "#/components/schemas/Drain").(map[string]any)["type"] = "flag" },
	} {
		doc, err := readYAML(made)
		if err != nil {
			t.Fatal(err)
		}
		spoil(doc)
		if schema.Validate(doc) == nil {
			t.Errorf("%s was not noticed", name)
		}
	}
}

// TestEveryFrameIsDescribed holds the table of frames against the description, both ways, and the references against
// what they point to, which the schema of AsyncAPI does not.
func TestEveryFrameIsDescribed(t *testing.T) {
	t.Parallel()
	d := theSockets(t)
	var want, got []string
	for _, f := range wirespec.Frames() {
		want = append(want, fmt.Sprintf("%s %s %s: %s", f.Path(), wayOf(f.Side), f.Frame.Type(), f.About))
	}
	for key := range d.frames {
		m := at(d.doc, "#/channels/"+strings.TrimPrefix(key.path, "/ws/")+"/messages/"+key.name).(map[string]any)
		got = append(got, fmt.Sprintf("%s %s %s: %s", key.path, key.way, key.name, m["summary"]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-wirespec.Frames() +description)\n%s", diff)
	}
	lookUp(t, d.doc, d.doc)
}

// lookUp follows every reference.
func lookUp(t *testing.T, doc map[string]any, v any) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			lookUp(t, doc, e)
		}
	case map[string]any:
		if to := ref(v); to != "" && at(doc, to) == nil {
			t.Errorf("%s is not there", to)
		} else if to != "" && len(v) > 1 {
			t.Errorf("what stands beside the reference to %s is ignored: %v", to, v)
		}
		for _, e := range v {
			lookUp(t, doc, e)
		}
	}
}

// TestCloseCodesAreDescribed: the page for people and the description name the same codes.
func TestCloseCodesAreDescribed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/sockets.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := func(text string) []string {
		all := regexp.MustCompile(`\b4[45]\d\d\b`).FindAllString(text, -1)
		slices.Sort(all)
		return slices.Compact(all)
	}
	about := at(theSockets(t).doc, "#/info").(map[string]any)["description"].(string)
	if diff := cmp.Diff(codes(string(page)), codes(about)); diff != "" || len(codes(about)) == 0 {
		t.Errorf("(-docs/sockets.md +description)\n%s", diff)
	}
}

// TestFramesFit: every frame, with all its fields and with only those that are always sent, is as described, and nothing
// of it is left out of the description.
func TestFramesFit(t *testing.T) {
	t.Parallel()
	d := theSockets(t)
	for _, f := range wirespec.Frames() {
		for _, all := range []bool{true, false} {
			text := sampleFrame(t, f.Frame, all)
			checkFrame(t, f.Path(), wayOf(f.Side), text)
			if err := validate(t, d.closed[keyOf(f)], object(t, text)); err != nil {
				t.Errorf("not all of it is described: %v\n%s", err, text)
			}
			more := object(t, text).with(obj{"not_known": obj{}})
			if err := validate(t, d.frames[keyOf(f)], more); err != nil {
				t.Errorf("a field that is not known must be allowed: %v", err)
			}
			if err := d.fits(f.Path(), wayOf(f.Side), encode(t, more)); (err == nil) != (wayOf(f.Side) == received) {
				t.Errorf("%s with a field that is not known: %v", f.Frame.Type(), err)
			}
		}
	}
}

// TestFramesThatDoNotFit spoils every frame in every way.
func TestFramesThatDoNotFit(t *testing.T) {
	t.Parallel()
	d := theSockets(t)
	for _, f := range wirespec.Frames() {
		whole, least := object(t, sampleFrame(t, f.Frame, true)), object(t, sampleFrame(t, f.Frame, false))
		refused := func(m obj, how string, args ...any) {
			t.Helper()
			if validate(t, d.frames[keyOf(f)], m) == nil {
				t.Errorf("%s %s", f.Frame.Type(), fmt.Sprintf(how, args...))
			}
		}
		refused(whole.with(obj{"type": "another"}), "may have another type")
		if d.fits(f.Path(), wayOf(f.Side), encode(t, whole.with(obj{"type": "another"}))) == nil {
			t.Errorf("there is a message of another type")
		}
		for name := range least { // the type is one of them
			refused(least.with(obj{name: nil}), "may lack %s", name)
			if name != "result" {
				refused(least.with(obj{name: json.RawMessage("null")}), "may have null as %s", name)
			}
		}
		for name, value := range whole {
			if name != "result" { // a node's own, of any kind
				refused(whole.with(obj{name: anotherKind(value)}), "may have %v as %s", anotherKind(value), name)
			}
		}
	}
}

// TestFramesGoOneWay: what one side says is not for the other to say, and not on the other socket.
func TestFramesGoOneWay(t *testing.T) {
	t.Parallel()
	d := theSockets(t)
	lines := make(map[messageKey]bool)
	for _, f := range wirespec.Frames() {
		lines[keyOf(f)] = true
	}
	for _, f := range wirespec.Frames() {
		text := sampleFrame(t, f.Frame, true)
		for _, path := range []string{"/ws/node", "/ws/session"} {
			for _, w := range []way{sent, received} {
				err := d.fits(path, w, text)
				if want := lines[messageKey{path, w, string(f.Frame.Type())}]; (err == nil) != want {
					t.Errorf("%s %s %s: %v", path, w, f.Frame.Type(), err)
				}
			}
		}
	}
}

// TestBinaryFramesFit holds the headers of binary frames against their description.
func TestBinaryFramesFit(t *testing.T) {
	t.Parallel()
	d := theSockets(t)
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
			m := object(t, encode(t, h))
			if err := validate(t, d.headers[key], m); err != nil {
				t.Errorf("%v: %v", key, err)
			}
			other := wire.KindAudio
			if kind == other {
				other = wire.KindTTS
			}
			if validate(t, d.headers[key], m.with(obj{"kind": other})) == nil {
				t.Errorf("%v may be of kind %s", key, other)
			}
			for name := range m {
				if name != "last" && validate(t, d.headers[key], m.with(obj{name: nil})) == nil {
					t.Errorf("%v may lack %s", key, name)
				}
				if validate(t, d.headers[key], m.with(obj{name: anotherKind(m[name])})) == nil {
					t.Errorf("%v may have %v as %s", key, anotherKind(m[name]), name)
				}
			}
		}
	}
}

func theSockets(t *testing.T) *describedSockets {
	t.Helper()
	d, err := socketsDescribed()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func wayOf(s wirespec.Side) way {
	if s == wirespec.FromNode || s == wirespec.FromClient {
		return received
	}
	return sent
}

func keyOf(f wirespec.FrameInfo) messageKey {
	return messageKey{f.Path(), wayOf(f.Side), string(f.Frame.Type())}
}

func validate(t *testing.T, s *jsonschema.Schema, m obj) error {
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

func object(t *testing.T, text []byte) obj {
	t.Helper()
	var m obj
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

// anotherKind is a value that is not of the kind of the one given.
func anotherKind(v any) any {
	if _, ok := v.(string); ok {
		return 7
	}
	return "seven"
}
