package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/lingua-scheduler/lingua/internal/server"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// described is what /openapi.yaml says, ready to hold answers against it.
type described struct{ doc *openapi3.T }

var theDescription = struct {
	sync.Once
	d   *described
	err error
}{}

// describedBy reads the description. It is the same for every scheduler of these tests, so it is read once.
func describedBy(t testing.TB, s *server.Server) *described {
	t.Helper()
	one := &theDescription
	one.Do(func() {
		var yaml []byte
		if yaml, one.err = s.OpenAPI(); one.err == nil {
			one.d, one.err = readDescription(yaml)
		}
	})
	if one.err != nil {
		t.Fatalf("the description is not valid OpenAPI: %v", one.err)
	}
	return one.d
}

func readDescription(yaml []byte) (*described, error) {
	doc, err := openapi3.NewLoader().LoadFromData(yaml)
	if err != nil {
		return nil, err
	}
	return &described{doc: doc}, doc.Validate(context.Background())
}

// route finds what is described under a method and a path. The library's own routers take an escaped slash
// for a separator and forgive one at the end; the scheduler does neither.
func (d *described) route(method string, u *url.URL) (*routers.Route, map[string]string) {
	if method == http.MethodHead { // whatever answers to GET answers to it, without a body
		method = http.MethodGet
	}
	asked := strings.Split(u.EscapedPath(), "/")
	for path, item := range d.doc.Paths.Map() {
		pattern := strings.Split(path, "/")
		operation := item.GetOperation(method)
		if operation == nil || len(pattern) != len(asked) {
			continue
		}
		params := make(map[string]string)
		matches := true
		for i, part := range pattern {
			name, isParam := strings.CutPrefix(part, "{")
			value, err := url.PathUnescape(asked[i])
			switch {
			case isParam:
				params[strings.TrimSuffix(name, "}")] = value
				matches = matches && err == nil && value != ""
			default:
				matches = matches && part == value
			}
		}
		if matches {
			return &routers.Route{Spec: d.doc, Path: path, PathItem: item, Method: method, Operation: operation}, params
		}
	}
	return nil, nil
}

// fits says in what way an answer is not as described. What was asked is checked too where it was accepted:
// whoever follows the description must be able to say all that the scheduler understands.
func (d *described) fits(req *http.Request, asked []byte, status int, header http.Header, body []byte) error {
	route, params := d.route(req.Method, req.URL)
	if route == nil {
		return d.fitsNoRoute(req.Method, status, body)
	}
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: anyKey}
	if status/100 == 2 && route.Operation.RequestBody != nil {
		again := req.Clone(context.Background())
		again.Body = io.NopCloser(bytes.NewReader(asked))
		if err := openapi3filter.ValidateRequest(context.Background(), &openapi3filter.RequestValidationInput{
			Request: again, PathParams: params, Route: route, Options: anyKey,
		}); err != nil {
			return fmt.Errorf("accepted, but the description does not allow it: %w", err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: status, Header: header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	out.SetBodyBytes(body)
	return openapi3filter.ValidateResponse(context.Background(), out)
}

// anyKey leaves it to other tests who may ask.
var anyKey = &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}

// fitsNoRoute judges the answer to something that is not described: it must be an error in the described
// form.
func (d *described) fitsNoRoute(method string, status int, body []byte) error {
	if status != http.StatusNotFound && status != http.StatusMethodNotAllowed && status != http.StatusForbidden {
		return fmt.Errorf("status %d for something that is not described", status)
	}
	if method == http.MethodHead {
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	return d.doc.Components.Schemas["Error"].Value.VisitJSON(value, openapi3.EnableJSONSchema2020())
}

// checked is a transport that holds every answer against the description.
type checked struct {
	t         testing.TB
	described *described
	next      http.RoundTripper
}

// metrics are Prometheus' own format; the description says no more of them than that they are there.
const metrics = "/metrics"

func (c *checked) RoundTrip(req *http.Request) (*http.Response, error) {
	var asked []byte
	if req.Body != nil {
		var err error
		if asked, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(asked))
	}
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if req.URL.Path != metrics {
		if err := c.described.fits(req, asked, resp.StatusCode, resp.Header, body); err != nil {
			c.t.Errorf("%s %s answered %d, not as /openapi.yaml says: %v\n%s", req.Method, req.URL, resp.StatusCode, err, body)
		}
	}
	return resp, nil
}

// known reports whether a code is one of the table's.
func known(code wire.Code) bool {
	for _, c := range wirespec.Codes() {
		if c == code {
			return true
		}
	}
	return false
}
