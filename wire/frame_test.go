package wire

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// receiversOfType returns the names of the types that have a method Type, sorted.
func receiversOfType(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, file := range sources(t) {
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "Type" {
				names = append(names, fn.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func TestEveryFrameIsListed(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, f := range frames {
		listed = append(listed, reflect.TypeOf(f).Name())
	}
	slices.Sort(listed)
	if diff := cmp.Diff(receiversOfType(t), listed); diff != "" {
		t.Errorf("frames (-declared +listed):\n%s", diff)
	}
}

// Every frame is tested with all its fields and with only those that are never omitted.
func TestFramesRoundTripWithTheirType(t *testing.T) {
	t.Parallel()
	for _, f := range frames {
		for _, all := range []bool{true, false} {
			frame := sample(t, reflect.TypeOf(f), all).Interface().(Frame)
			text, err := EncodeFrame(frame)
			if err != nil {
				t.Fatal(err)
			}
			if typ, err := TypeOf(text); err != nil || typ != frame.Type() {
				t.Errorf("%s: type %q, %v", text, typ, err)
			}
			back := reflect.New(reflect.TypeOf(frame))
			if err := Decode(text, back.Interface()); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if diff := cmp.Diff(frame, back.Elem().Interface()); diff != "" {
				t.Errorf("after a round trip (-want +got):\n%s", diff)
			}
		}
	}
}

func TestTypeOfRefusesFramesWithoutType(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`: "type: ", `{"type":""}`: "type: ", `{"type":7}`: "type: must be a string", `[]`: "must be a JSON object", ``: "empty", `nope`: "not JSON",
	} {
		if typ, err := TypeOf([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want an error with %q", text, typ, err, want)
		}
	}
}

func TestBinaryFrameRoundTrip(t *testing.T) {
	t.Parallel()
	h := BinaryHeader{Kind: KindTTS, ActiveJob: ActiveJob{JobID: "job-1", AttemptID: 2}, Chunk: 3, Last: true}
	frame, err := AppendBinary(nil, &h, []byte("audio"))
	if err != nil {
		t.Fatal(err)
	}
	got, data, err := ReadBinary(frame)
	if err != nil || string(data) != "audio" {
		t.Fatalf("%q, %v", data, err)
	}
	if diff := cmp.Diff(h, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, bad := range map[string][]byte{
		"empty": nil, "short": {0, 0}, "header past the end": {0, 0, 0, 9, '{'}, "endless header": {255, 255, 255, 255},
		"no JSON": {0, 0, 0, 1, 'x'}, "no job": append([]byte{0, 0, 0, 16}, `{"kind":"audio"}`...),
		"other kind": append([]byte{0, 0, 0, 13}, `{"kind":"no"}`...),
	} {
		if h, _, err := ReadBinary(bad); err == nil {
			t.Errorf("%s: read as %+v", name, h)
		}
	}
}

func FuzzReadBinary(f *testing.F) {
	ok, _ := AppendBinary(nil, &BinaryHeader{Kind: KindAudio, ActiveJob: ActiveJob{JobID: "j", AttemptID: 1}}, []byte("x"))
	f.Add(ok)
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, data, err := ReadBinary(frame)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(frame, data) {
			t.Errorf("%+v: the payload is not the end of the frame", h)
		}
	})
}

func FuzzTypeOf(f *testing.F) {
	f.Add([]byte(`{"type":"keepalive"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		typ, err := TypeOf(text)
		if err == nil && typ == "" {
			t.Errorf("%q has an empty type", text)
		}
		var whole struct {
			Type FrameType `json:"type"`
		}
		if json.Unmarshal(text, &whole) == nil && bytes.Count(text, []byte(`"type"`)) == 1 && bytes.HasPrefix(text, []byte(`{"type":"`)) && utf8.Valid(text) && whole.Type != typ {
			t.Errorf("%q has the type %q, not %q", text, whole.Type, typ)
		}
	})
}
