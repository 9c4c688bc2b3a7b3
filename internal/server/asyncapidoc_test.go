package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/wire"
)

// action is the direction of a message as AsyncAPI names it, from the point of view of the scheduler.
type action string

const (
	sent     action = "send"
	received action = "receive"
)

// checkMessage checks that a text frame is a message that the description has for this socket and direction, and that it matches.
func checkMessage(t testing.TB, path string, w action, text []byte) {
	t.Helper()
	d, err := loadAsyncAPI()
	if err != nil {
		t.Fatalf("the description of the sockets cannot be read: %v", err)
	}
	if err := d.validate(path, w, text); err != nil {
		t.Errorf("%s: %v\n%s", path, err, text)
	}
}

// asyncAPIDoc is the description of the sockets, with compiled schemas.
type asyncAPIDoc struct {
	doc map[string]any
	// messages are the schemas of the text messages, and strict the same without further fields.
	messages, strict map[messageKey]*jsonschema.Schema
	// headers are the schemas of the headers of binary frames.
	headers map[messageKey]*jsonschema.Schema
}

type messageKey struct {
	path   string
	action action
	name   string
}

// validate returns how a message differs from its description. The scheduler sends no fields that are not described; those that it
// receives are ignored.
func (d *asyncAPIDoc) validate(path string, w action, text []byte) error {
	name, err := wire.TypeOf(text)
	if err != nil {
		return err
	}
	from := d.messages
	if w == sent {
		from = d.strict
	}
	schema := from[messageKey{path, w, string(name)}]
	if schema == nil {
		return fmt.Errorf("no message %s is described for the scheduler to %s there", name, w)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// loadAsyncAPI parses the description once for all tests.
var loadAsyncAPI = sync.OnceValues(func() (*asyncAPIDoc, error) {
	text, err := makeAsyncAPI()
	if err != nil {
		return nil, err
	}
	doc, err := readYAML(text)
	if err != nil {
		return nil, err
	}
	d := &asyncAPIDoc{doc: doc}
	if d.messages, err = compileSchemas(doc, "payload"); err != nil {
		return nil, err
	}
	if d.headers, err = compileSchemas(doc, "headers"); err != nil {
		return nil, err
	}
	strict, err := readYAML(text)
	if err != nil {
		return nil, err
	}
	for _, s := range resolve(strict, "#/components/schemas").(map[string]any) {
		if schema := s.(map[string]any); schema["properties"] != nil && schema["additionalProperties"] == nil {
			schema["additionalProperties"] = false
		}
	}
	d.strict, err = compileSchemas(strict, "payload")
	return d, err
})

// makeAsyncAPI makes the description as it is in the repository: its version is that of the protocol.
func makeAsyncAPI() ([]byte, error) { return server.DescribeSockets(wire.Subprotocol) }

// readYAML parses YAML as a JSON document, with the parser of the OpenAPI library.
func readYAML(text []byte) (map[string]any, error) {
	value, err := openapi3filter.YamlBodyDecoder(bytes.NewReader(text), nil, nil, nil)
	if err != nil {
		return nil, err
	}
	plain, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err != nil {
		return nil, err
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the document is a %T, not an object", doc)
	}
	return object, nil
}

// compileSchemas compiles the schemas of one part of every message, payload or headers. The payloads of binary frames have none.
func compileSchemas(doc map[string]any, part string) (map[messageKey]*jsonschema.Schema, error) {
	const where = "https://lingua.invalid/asyncapi.yaml"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.AssertContent()
	if err := c.AddResource(where, doc); err != nil {
		return nil, err
	}
	out := make(map[messageKey]*jsonschema.Schema)
	for id, o := range doc["operations"].(map[string]any) {
		operation := o.(map[string]any)
		channel, ok := resolve(doc, refOf(operation["channel"])).(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the channel of operation %s does not resolve", id)
		}
		for _, m := range operation["messages"].([]any) {
			message, ok := resolve(doc, refOf(m)).(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s of operation %s does not resolve", refOf(m), id)
			}
			if message[part] == nil || part == "payload" && message["contentType"] != nil {
				continue
			}
			schema, err := c.Compile(where + refOf(m) + "/" + part)
			if err != nil {
				return nil, err
			}
			key := messageKey{channel["address"].(string), action(operation["action"].(string)), message["name"].(string)}
			out[key] = schema
		}
	}
	return out, nil
}

// refOf is the target of a reference object.
func refOf(v any) string {
	to, _ := v.(map[string]any)["$ref"].(string)
	return to
}

// resolve returns the target of a reference; nil if there is none.
func resolve(doc map[string]any, ref string) any {
	var v any = doc
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		v = v.(map[string]any)[name]
		if _, deeper := v.(map[string]any); !deeper {
			return nil
		}
	}
	return v
}

// sampleMessage encodes a message with every field, or with the required ones only.
func sampleMessage(t *testing.T, f wire.Frame, all bool) []byte {
	t.Helper()
	v := reflect.New(reflect.TypeOf(f)).Elem()
	fill(t, v, reflect.StructField{}, all)
	text, err := wire.EncodeFrame(v.Interface().(wire.Frame))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// fill sets a value that the tags of its field allow. It uses reflection, so that the samples include fields that are added later.
func fill(t *testing.T, v reflect.Value, field reflect.StructField, all bool) {
	t.Helper()
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes([]byte(`{"text_tgt":"hello"}`))
		return
	case []byte:
		v.SetBytes([]byte("audio"))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			inner := v.Type().Field(i)
			if all || !strings.Contains(inner.Tag.Get("json"), ",omit") {
				fill(t, v.Field(i), inner, all)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), field, all)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), field, all)
		}
	case reflect.Map:
		one := reflect.New(v.Type().Elem()).Elem()
		fill(t, one, field, all)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("FULL"), one)
	case reflect.String:
		text, _, _ := strings.Cut(field.Tag.Get("enum"), ",")
		switch {
		case field.Tag.Get("format") == "uri":
			text = "https://node.example.com/jobs"
		case text == "":
			text = field.Name
		}
		if least, err := strconv.Atoi(field.Tag.Get("minLength")); err == nil && len(text) < least {
			text += strings.Repeat("x", least-len(text))
		}
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true) // false would be omitted by omitempty
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(within(t, field, number(field.Name))))
	case reflect.Uint64:
		v.SetUint(uint64(within(t, field, number(field.Name))))
	case reflect.Float64:
		v.SetFloat(within(t, field, number(field.Name)/1000))
	default:
		t.Fatalf("do not know how to fill a %s", v.Type())
	}
}

// number derives a number from 1 to 999 from a name.
func number(name string) float64 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return 1 + float64(h.Sum32()%999)
}

// within limits a number to the bounds of its field.
func within(t *testing.T, field reflect.StructField, n float64) float64 {
	t.Helper()
	bound := func(tag string, otherwise float64) float64 {
		text, ok := field.Tag.Lookup(tag)
		if !ok {
			return otherwise
		}
		b, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s of %s: %v", tag, field.Name, err)
		}
		return b
	}
	return min(max(n, bound("minimum", n)), bound("maximum", n))
}
