package server_test

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// bodySchemas are the schemas of the JSON bodies of a description. Each is compiled once: openapi3filter would compile it for every body.
type bodySchemas struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema // by their place in the description
}

// descriptionURL is the name of the description for the compiler. Nothing is read from it.
const descriptionURL = "file:///openapi.json"

func newBodySchemas(doc *openapi3.T) (*bodySchemas, error) {
	text, err := doc.MarshalJSON()
	if err != nil {
		return nil, err
	}
	description, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	return &bodySchemas{compiler: compiler, compiled: make(map[string]*jsonschema.Schema)}, compiler.AddResource(descriptionURL, description)
}

// validate checks a body with the schema at a place in the description.
func (b *bodySchemas) validate(body []byte, place ...string) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	schema, err := b.at(place)
	if err != nil {
		return fmt.Errorf("the schema at %s: %w", strings.Join(place, " "), err)
	}
	return schema.Validate(value)
}

func (b *bodySchemas) at(place []string) (*jsonschema.Schema, error) {
	var pointer strings.Builder
	for _, name := range place {
		pointer.WriteString("/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name)))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	schema, ok := b.compiled[pointer.String()]
	if !ok {
		var err error
		if schema, err = b.compiler.Compile(descriptionURL + "#" + pointer.String()); err != nil {
			return nil, err
		}
		b.compiled[pointer.String()] = schema
	}
	return schema, nil
}

// requestPlace returns where the description has the schema of the body of a request; nil: nowhere, or it is not JSON.
func requestPlace(r *routers.Route, header http.Header, body []byte) []string {
	if len(body) == 0 || r.Operation.RequestBody.Ref != "" {
		return nil
	}
	return jsonPlace(r, r.Operation.RequestBody.Value.Content, header, "requestBody")
}

// responsePlace returns where the description has the schema of the body of an answer; nil: nowhere, or it is not JSON.
func responsePlace(r *routers.Route, status int, header http.Header, body []byte) []string {
	name := strconv.Itoa(status)
	response := r.Operation.Responses.Status(status)
	if response == nil {
		response, name = r.Operation.Responses.Default(), "default"
	}
	if len(body) == 0 || response == nil || response.Ref != "" {
		return nil
	}
	return jsonPlace(r, response.Value.Content, header, "responses", name)
}

func jsonPlace(r *routers.Route, content openapi3.Content, header http.Header, part ...string) []string {
	const media = "application/json"
	if got, _, err := mime.ParseMediaType(header.Get("Content-Type")); err != nil || got != media {
		return nil
	}
	if described := content[media]; described == nil || described.Schema == nil {
		return nil
	}
	return append(append([]string{"paths", r.Path, strings.ToLower(r.Method)}, part...), "content", media, "schema")
}
