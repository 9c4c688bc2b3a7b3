package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"

	"github.com/lingua-scheduler/lingua/internal/compat"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/test/docpage"
	"github.com/lingua-scheduler/lingua/wire"
)

const repository = "../.."

func loadPages(t *testing.T) []docpage.Page {
	t.Helper()
	pages, err := docpage.Load(repository)
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// decodeStrictly decodes a JSON object and refuses fields that the type does not have.
func decodeStrictly(text []byte, into any) error {
	if err := wire.Decode(text, into); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// checkFrame checks a text frame of a page: its type exists for its socket and direction, it has no field that the type does not
// have, and it matches the AsyncAPI description.
func checkFrame(t *testing.T, path string, w action, text []byte) error {
	t.Helper()
	typ, err := wire.TypeOf(text)
	if err != nil {
		return err
	}
	frames := wirespec.Frames()
	at := slices.IndexFunc(frames, func(f wirespec.FrameInfo) bool {
		return f.Frame.Type() == typ && f.Path() == path && actionOf(f.Side) == w
	})
	if at < 0 {
		return fmt.Errorf("there is no message %s for the scheduler to %s on %s", typ, w, path)
	}
	fields := parseObject(t, text)
	delete(fields, "type") // is no field of the Go type
	if err := decodeStrictly(encode(t, fields), reflect.New(reflect.TypeOf(frames[at].Frame)).Interface()); err != nil {
		return err
	}
	return validateMessage(t, asyncAPI(t).strict[messageKey{path, w, string(typ)}], parseObject(t, text))
}

// translated returns a frame of a node or session of the existing system in our own names. It has no field without a meaning.
func translated(t *testing.T, text []byte) ([]byte, error) {
	t.Helper()
	var (
		register  compat.NodeRegister
		heartbeat compat.NodeHeartbeat
		start     compat.SessionStart
	)
	typ, err := wire.TypeOf(text)
	if err != nil {
		return nil, err
	}
	fields := parseObject(t, text)
	delete(fields, "type") // is no field of the Go type
	switch typ {
	case register.Type():
		if err := wire.Decode(text, &register); err != nil {
			return nil, err
		}
		if warnings := register.Translate(); warnings != nil {
			return nil, fmt.Errorf("%q", warnings)
		}
		return wire.EncodeFrame(register.NodeRegister)
	case heartbeat.Type():
		if err := decodeStrictly(encode(t, fields), &heartbeat); err != nil {
			return nil, err
		}
		heartbeat.Translate()
		return wire.EncodeFrame(heartbeat.NodeHeartbeat)
	case start.Type():
		if err := decodeStrictly(encode(t, fields), &start); err != nil {
			return nil, err
		}
		return wire.EncodeFrame(start.Translate())
	}
	return text, nil
}

// unknownFrames are the transcripts with a frame of a type that does not exist, which the scheduler refuses.
var unknownFrames = map[string]string{"node-errors": "node_hello"}

// TestFramesInDocs decodes every frame of every transcript.
func TestFramesInDocs(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, page := range loadPages(t) {
		for _, b := range page.Blocks() {
			name := b.TranscriptName()
			if name == "" {
				continue
			}
			who, _, _ := strings.Cut(name, "-")
			entries, err := b.Transcript()
			if err != nil {
				t.Error(err)
			}
			for i := range entries {
				if err := checkEntry(t, "/ws/"+who, name, &entries[i], seen); err != nil {
					t.Errorf("%s:%d: %v", b.Page, entries[i].Line, err)
				}
			}
		}
	}
	const never = "/ws/node send warning" // this version sends none
	for _, f := range wirespec.Frames() {
		key := fmt.Sprintf("%s %s %s", f.Path(), actionOf(f.Side), f.Frame.Type())
		if seen[key] == (key == never) {
			t.Errorf("%s is in a transcript: %v", key, seen[key])
		}
	}
}

// checkEntry checks one line of a transcript, and records the type of a frame in seen.
func checkEntry(t *testing.T, path, name string, e *docpage.Entry, seen map[string]bool) error {
	t.Helper()
	w := sent
	if e.Sent {
		w = received // by the scheduler
	}
	switch e.Kind {
	case docpage.Text:
		typ, _ := wire.TypeOf(e.JSON)
		text := e.JSON
		if e.Sent && strings.HasSuffix(name, "-existing") {
			var err error
			if text, err = translated(t, text); err != nil {
				return err
			}
		}
		err := checkFrame(t, path, w, text)
		if string(typ) == unknownFrames[name] {
			if err == nil {
				return fmt.Errorf("the type %s exists", typ)
			}
			return nil
		}
		seen[fmt.Sprintf("%s %s %s", path, w, typ)] = true
		return err
	case docpage.Binary:
		var h wire.BinaryHeader
		if err := decodeStrictly(e.JSON, &h); err != nil {
			return err
		}
		return validateMessage(t, asyncAPI(t).headers[messageKey{path, w, h.Kind}], parseObject(t, e.JSON))
	case docpage.Close:
		if !slices.ContainsFunc(wirespec.Closes(), func(c wirespec.CloseInfo) bool { return int(c.Code) == e.Code }) {
			return fmt.Errorf("there is no close code %d", e.Code)
		}
	}
	return nil
}

// TestJSONInDocs decodes every block of JSON. Its info string tells what it is: "json POST /v1/job/ack" a request, "json answer
// POST /v1/sessions" an answer, "json POST callback_url" an assignment, "json error" an error.
func TestJSONInDocs(t *testing.T) {
	t.Parallel()
	requests, answers := startScheduler(t).scheduler.Server.RouteTypes()
	requests["POST callback_url"] = reflect.TypeFor[wire.Assignment]()
	answers["error"] = reflect.TypeFor[wire.Error]()
	answers["GET model_hub.url"] = reflect.TypeFor[health.HubList]()
	answers["GET model_hub.url/{service_id}"] = reflect.TypeFor[health.HubService]()
	seen := 0
	for _, page := range loadPages(t) {
		for _, b := range page.Blocks() {
			if b.Language() != "json" {
				continue
			}
			seen++
			typ := requests[b.About()]
			if answer, ok := strings.CutPrefix(b.About(), "answer "); ok {
				typ = answers[answer]
			} else if typ == nil {
				typ = answers[b.About()]
			}
			if typ == nil {
				t.Errorf("%s:%d: %q is no request, no answer and no error: say after json what the block is", b.Page, b.Line, b.About())
				continue
			}
			if err := decodeStrictly([]byte(b.Body), reflect.New(typ).Interface()); err != nil {
				t.Errorf("%s:%d: %v", b.Page, b.Line, err)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d blocks were found", seen)
	}
}

// TestInlineJSONInDocs checks the objects within sentences: they are JSON, and an object with a type is a frame.
func TestInlineJSONInDocs(t *testing.T) {
	t.Parallel()
	for _, page := range loadPages(t) {
		for _, s := range page.Spans() {
			if !strings.HasPrefix(s.Text, `{"`) {
				continue
			}
			var m object
			if err := json.Unmarshal([]byte(s.Text), &m); err != nil {
				t.Errorf("%s:%d: %s: %v", s.Page, s.Line, s.Text, err)
			}
			if m["type"] != nil {
				t.Errorf("%s:%d: %s: show frames in transcripts, where they are checked", s.Page, s.Line, s.Text)
			}
		}
	}
}

// curlRequest returns the request of a curl command; nil if the line is none, or is for another server.
func curlRequest(line string) (*http.Request, []byte, error) {
	line, _, _ = strings.Cut(line, " | ")
	words := docpage.Words(line)
	if len(words) == 0 || words[0] != "curl" {
		return nil, nil, nil
	}
	method, target, body := http.MethodGet, "", ""
	header := make(http.Header)
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "-s":
		case "-H", "-d", "-X":
			if i+1 == len(words) {
				return nil, nil, fmt.Errorf("%s has no value", words[i])
			}
			switch flag, value := words[i], words[i+1]; flag {
			case "-H":
				name, content, _ := strings.Cut(value, ": ")
				header.Set(name, content)
			case "-d":
				method, body = http.MethodPost, value
			case "-X":
				method = value
			}
			i++
		default:
			target = words[i]
		}
	}
	if u, err := url.Parse(target); err != nil || u.Port() != "5010" {
		return nil, nil, fmt.Errorf("%q is not the address of a scheduler", target)
	}
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	if err == nil {
		r.Header = header
	}
	return r, []byte(body), err
}

// TestCurlInDocs checks every curl command: its operation exists, and its body matches the OpenAPI description and has no other
// fields.
func TestCurlInDocs(t *testing.T) {
	t.Parallel()
	s := startScheduler(t).scheduler.Server
	described, seen := loadOpenAPI(t, s), 0
	requests, _ := s.RouteTypes()
	for _, page := range loadPages(t) {
		var lines []string
		for _, b := range page.Blocks() {
			lines = append(lines, b.Commands()...)
		}
		for _, span := range page.Spans() {
			if strings.HasPrefix(span.Text, "curl ") {
				lines = append(lines, span.Text)
			}
		}
		for _, line := range lines {
			r, body, err := curlRequest(line)
			if err != nil {
				t.Errorf("%s: %s: %v", page.Path, line, err)
			}
			if r == nil || r.URL.Path == metricsPath {
				continue
			}
			seen++
			route, params := described.route(r.Method, r.URL)
			if route == nil {
				t.Errorf("%s: %s: there is no %s %s", page.Path, line, r.Method, r.URL.Path)
				continue
			}
			if typ := requests[r.Method+" "+route.Path]; typ != nil {
				if err := decodeStrictly(body, reflect.New(typ).Interface()); err != nil {
					t.Errorf("%s: %s: %v", page.Path, line, err)
				}
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: anyCredential}
			if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
				t.Errorf("%s: %s: %v", page.Path, line, err)
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d commands were found", seen)
	}
}

// TestRegistrationWarningsAreInDocs compares the warnings of a registration with docs/codes.md.
func TestRegistrationWarningsAreInDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(repository + "/docs/codes.md")
	if err != nil {
		t.Fatal(err)
	}
	page := docpage.Page{Text: string(text)}
	rows := page.Table("registration warnings")
	var answer wire.RegisterResponse
	startScheduler(t).post("/v1/node/register", object{"semantic_langs": []string{"en"}, "max_concurrent_jobs": 1}).decode(&answer)
	if len(answer.Warnings) != 1 || len(rows) != 1 || rows[0][0] != answer.Warnings[0] {
		t.Errorf("the answer has %q, docs/codes.md has %q", answer.Warnings, rows)
	}
}
