package server

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// describe makes the OpenAPI 3.1 description of the routes from the types they take and give.
func describe(routes []route, version string) ([]byte, error) {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	api := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Lingua Scheduler", Version: version,
			Description: "The control plane of a real-time speech-translation system. Nodes register and send heartbeats; every utterance is one job, given to one capable node and seen through.",
			License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{"key": {
				Type: "http", Scheme: "bearer", Description: "An operator's key, or a node's token for what nodes do. A scheduler without keys wants none.",
			}},
		},
	}
	failure := registry.Schema(reflect.TypeFor[wire.Error](), true, "Error")
	for _, r := range routes {
		api.AddOperation(operation(registry, failure, &r))
	}
	for _, s := range registry.Map() {
		open(s)
	}
	return api.YAML()
}

func operation(registry huma.Registry, failure *huma.Schema, r *route) *huma.Operation {
	op := &huma.Operation{
		OperationID: operationID(r), Method: r.method, Path: r.path, Summary: r.summary, Description: r.about,
		Tags: []string{r.tag}, Responses: make(map[string]*huma.Response),
	}
	for _, p := range r.params {
		where := "query"
		if p.inPath {
			where = "path"
		}
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: p.name, In: where, Required: p.inPath, Description: p.about, Schema: &huma.Schema{Type: p.kind},
		})
	}
	codes := r.codes
	if r.in != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: content(registry.Schema(r.in, true, ""))}
		codes = append([]wire.Code{wire.InvalidRequest, wire.UnsupportedMediaType, wire.PayloadTooLarge}, codes...)
	} else if len(r.params) > 0 {
		codes = append([]wire.Code{wire.InvalidRequest}, codes...)
	}
	ok := &huma.Response{Description: "OK"}
	if r.out != nil {
		ok.Content = content(registry.Schema(r.out, true, ""))
	} else {
		ok.Content = map[string]*huma.MediaType{r.media: {}}
	}
	if r.upgrade {
		op.Responses["101"] = &huma.Response{Description: "The connection is a WebSocket from now on."}
		op.Responses["426"] = &huma.Response{Description: "INVALID_REQUEST: a WebSocket is served here", Content: content(failure)}
		codes = append(codes, wire.InvalidRequest, wire.RateLimited)
	} else {
		op.Responses["200"] = ok
	}
	if r.alsoStatus != 0 {
		op.Responses[strconv.Itoa(r.alsoStatus)] = &huma.Response{Description: http.StatusText(r.alsoStatus), Content: ok.Content}
	}
	if r.who != anybody {
		codes = append(codes, wire.Unauthorized)
		op.Security = []map[string][]string{{}, {"key": {}}}
	}
	for _, code := range append(codes, wire.MethodNotAllowed, wire.Forbidden, wire.Internal) {
		status := strconv.Itoa(wirespec.Status(code))
		if known := op.Responses[status]; known != nil {
			known.Description += ", " + string(code)
			continue
		}
		op.Responses[status] = &huma.Response{Description: string(code), Content: content(failure)}
	}
	return op
}

func content(s *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/json": {Schema: s}}
}

// operationID makes a name of method and path.
func operationID(r *route) string {
	path := strings.NewReplacer("/", "-", "{", "", "}", "", ".", "-", "_", "-").Replace(strings.TrimPrefix(r.path, "/"))
	return strings.ToLower(fmt.Sprintf("%s-%s", r.method, path))
}

// open lets a schema accept fields it does not name: requests may carry more than is read, and answers may
// grow.
func open(s *huma.Schema) {
	if s.Type == huma.TypeObject && s.AdditionalProperties == false {
		s.AdditionalProperties = nil
	}
}
