package server

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// docHandlers serve the descriptions of the API, and the files of the dashboard. They are public: what the page shows comes from the API.
type docHandlers struct {
	responder
	// openAPI and asyncAPI are the descriptions of the routes and of the WebSockets, as YAML, made at the first call.
	openAPI, asyncAPI func() ([]byte, error)
	files             map[string]*dashboardFile // of the dashboard, by their path, such as assets/index-x.js
}

// newDocHandlers makes the handlers. routes are the routes of the server, which include these.
func newDocHandlers(p responder, version string, routes func() []route) *docHandlers {
	return &docHandlers{
		responder: p,
		openAPI:   sync.OnceValues(func() ([]byte, error) { return describeRoutes(routes(), version) }),
		asyncAPI:  sync.OnceValues(func() ([]byte, error) { return describeSockets(version) }),
		files:     dashboardFiles(),
	}
}

func (h *docHandlers) routes() []route {
	return append(h.dashboardRoutes(), []route{
		{
			method: "GET", path: "/openapi.yaml", rule: everyone, tag: "operations", summary: "This description", media: "application/yaml",
			handler: handler{serve: h.serve(h.openAPI)},
		},
		{
			method: "GET", path: "/asyncapi.yaml", rule: everyone, tag: "operations", summary: "The description of the WebSockets",
			media:   "application/yaml",
			handler: handler{serve: h.serve(h.asyncAPI)},
		},
	}...)
}

// serve makes the handler of a description.
func (h *docHandlers) serve(describe func() ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		description, err := describe()
		if err != nil {
			h.log.Error("the API description cannot be made", "error", err)
			h.writeError(w, wire.Errorf(wire.Internal, "the description could not be made; it was logged"))
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		writeBody(w, description)
	}
}

// describeRoutes makes the OpenAPI 3.1 description of the routes from the types of their requests and answers.
func describeRoutes(routes []route, version string) ([]byte, error) {
	registry := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
	api := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Lingua Scheduler", Version: version,
			Description: "The control plane of a real-time speech-translation system. Nodes register and send heartbeats; every " +
				"utterance is one job, which is dispatched to a capable node and retried until it ends. Every answer has the header " +
				"X-Request-Id: that of the request, if it is a valid identifier, or a new one.",
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{"key": {
				Type: "http", Scheme: "bearer",
				Description: "An operator's key, or a node's token for the requests of nodes. A scheduler without keys requires none.",
			}},
		},
	}
	failure := registry.Schema(reflect.TypeFor[wire.Error](), true, "Error")
	for _, r := range routes {
		if !r.page {
			api.AddOperation(operation(registry, failure, &r))
		}
	}
	for _, s := range registry.Map() {
		allowFurtherFields(s)
	}
	return api.YAML()
}

func operation(registry huma.Registry, failure *huma.Schema, r *route) *huma.Operation {
	op := &huma.Operation{
		OperationID: operationID(r), Method: r.method, Path: r.path, Summary: r.summary, Description: r.description,
		Tags: []string{r.tag}, Responses: make(map[string]*huma.Response),
	}
	for _, p := range r.params {
		where := "query"
		if p.inPath {
			where = "path"
		}
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: p.name, In: where, Required: p.inPath, Description: p.description, Schema: &huma.Schema{Type: p.kind},
		})
	}
	if r.rule.credential {
		op.Description = strings.TrimPrefix(op.Description+
			" If there are keys, it needs a credential of its own, whatever auth.anonymous_role is.", " ")
	}
	codes := r.codes
	if r.handler.in != nil {
		op.RequestBody = &huma.RequestBody{Required: !r.optionalBody, Content: content(registry.Schema(r.handler.in, true, ""))}
		codes = append([]wire.Code{wire.InvalidRequest, wire.UnsupportedMediaType, wire.PayloadTooLarge}, codes...)
	} else if len(r.params) > 0 {
		codes = append([]wire.Code{wire.InvalidRequest}, codes...)
	}
	ok := &huma.Response{Description: "OK"}
	if r.handler.out != nil {
		ok.Content = content(registry.Schema(r.handler.out, true, ""))
	} else {
		ok.Content = map[string]*huma.MediaType{r.media: {}}
	}
	if r.upgrade {
		op.Responses["101"] = &huma.Response{Description: "The connection is upgraded to a WebSocket."}
		op.Responses["426"] = &huma.Response{Description: "INVALID_REQUEST: a WebSocket is served here", Content: content(failure)}
		codes = append(codes, wire.InvalidRequest, wire.RateLimited)
	} else {
		op.Responses["200"] = ok
	}
	if r.alsoStatus != 0 {
		op.Responses[strconv.Itoa(r.alsoStatus)] = &huma.Response{Description: http.StatusText(r.alsoStatus), Content: ok.Content}
	}
	if !r.rule.public {
		codes = append(codes, wire.Unauthorized)
		if r.forPeople() && !slices.Contains(codes, wire.RateLimited) {
			codes = append(codes, wire.RateLimited)
		}
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

// operationID is the name of an operation, from its method and path.
func operationID(r *route) string {
	path := strings.NewReplacer("/", "-", "{", "", "}", "", ".", "-", "_", "-").Replace(strings.TrimPrefix(r.path, "/"))
	return strings.ToLower(fmt.Sprintf("%s-%s", r.method, path))
}

// allowFurtherFields lets a schema accept fields that it does not name: unknown fields of requests are ignored, and answers may get
// new fields.
func allowFurtherFields(s *huma.Schema) {
	if s.Type == huma.TypeObject && s.AdditionalProperties == false {
		s.AdditionalProperties = nil
	}
}
