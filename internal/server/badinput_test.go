package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// badRequest is an invalid request, and the error that must answer it.
type badRequest struct {
	name        string
	method      string // POST unless given
	path        string
	host        string
	contentType string // application/json by default; "none" for none
	body        any    // an object, or the text of the body
	code        wire.Code
	field       string // the field of the error, which its detail must name; anyField: not checked
	detail      string // the error's detail must contain it
}

const anyField = "*"

// fixture is a scheduler with a job in flight on n1, a job that is done, and a second node n2.
type fixture struct {
	*testScheduler
	n1, n2            *callbackNode
	heldJob, endedJob delivery
	before            visibleState
	lastSeenBefore    map[string]time.Time
}

// visibleState is everything that the API shows of nodes and jobs.
type visibleState struct {
	Nodes wire.NodeList
	Jobs  wire.JobList
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	ts := startScheduler(t, func(c *config.Config) { // the job stays in flight for the whole table
		c.Scheduler.Dispatch.AttemptTimeoutMS, c.Scheduler.Dispatch.JobTimeoutMS = 600_000, 1_200_000
	})
	services := object{"installed_services": []object{{"service_id": "s", "status": "ready"}}}
	f := &fixture{testScheduler: ts, n1: ts.registerNode("n1", services), n2: ts.registerNode("n2", services)}
	on := func(id string) delivery {
		d, _ := ts.dispatchAndReceive(dispatchBody(object{"request_id": "req-" + id, "options": object{"preferred_node_id": id}}))
		return d
	}
	f.endedJob = on("n2")
	f.n2.done(f.endedJob, object{"result": object{"text_tgt": "好"}}).expectOK()
	f.heldJob = on("n1")
	f.n1.ack(f.heldJob, nil).expectOK()
	ts.awaitFree("n2")
	f.before = f.readState()
	_, f.lastSeenBefore = f.lastSeen()
	return f
}

// readState bypasses the validation of answers, which other tests do: it is called for every case.
func (f *fixture) readState() visibleState {
	f.t.Helper()
	var now visibleState
	for path, into := range map[string]any{"/v1/nodes": &now.Nodes, "/v1/jobs": &now.Jobs} {
		rec := httptest.NewRecorder()
		f.scheduler.Server.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, f.url+path, nil))
		if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil || rec.Code != http.StatusOK {
			f.t.Fatalf("GET %s: %d %s", path, rec.Code, rec.Body)
		}
	}
	return now
}

// lastSeen is when each node was last seen, as an interval, because the store reports an age.
func (f *fixture) lastSeen() (notBefore, notAfter map[string]time.Time) {
	f.t.Helper()
	notBefore, notAfter = make(map[string]time.Time), make(map[string]time.Time)
	early := time.Now()
	all, err := f.scheduler.Store.Overdue(f.t.Context(), 0)
	late := time.Now()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, n := range all.Nodes {
		notBefore[string(n.Node)], notAfter[string(n.Node)] = early.Add(-n.Age), late.Add(-n.Age)
	}
	return notBefore, notAfter
}

// clockSlack is the maximum difference of two readings of one moment: Redis has a resolution of milliseconds.
func clockSlack() time.Duration {
	if *redisURL == "" {
		return 0
	}
	return 2 * time.Millisecond
}

// expectUnchanged wants the state to be unchanged, including when the nodes were last seen.
func (f *fixture) expectUnchanged(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(f.before, f.readState(), cmpopts.IgnoreFields(wire.Node{}, "LastHeartbeatMS")); diff != "" {
		t.Errorf("the request changed something: (-before +after)\n%s", diff)
	}
	notBefore, _ := f.lastSeen()
	for id, at := range notBefore {
		if at.After(f.lastSeenBefore[id].Add(clockSlack())) {
			t.Errorf("the request counted as a heartbeat of %s", id)
		}
	}
	f.expectNoDelivery()
}

// sendBad sends a bad request.
func (f *fixture) sendBad(t *testing.T, b *badRequest) response {
	t.Helper()
	var body []byte
	switch given := b.body.(type) {
	case nil:
	case string:
		body = []byte(given)
	default:
		body = encode(t, given)
	}
	method := b.method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, f.url+b.path, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	switch b.contentType {
	case "":
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
	case "none":
	default:
		req.Header.Set("Content-Type", b.contentType)
	}
	if b.host != "" {
		req.Host = b.host
	}
	a := f.sendRequest(req)
	a.t = t
	return a
}

// TestBadInput: each case of the table is answered with its code and a detail that names the field, and changes nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	table := slices.Concat(
		badBodies(f), badRegistrations(), badHeartbeats(f), badDispatches(), badReports(f), badModelReports(f), badPaths(), badQueries(), badHosts(f),
	)
	for i := range table {
		b := &table[i]
		t.Run(b.name, func(t *testing.T) {
			a := f.sendBad(t, b)
			e := a.expectError(b.code)
			if b.field != anyField {
				if e.Field != b.field {
					t.Errorf("want field %q, got %q: %s", b.field, e.Field, e.Detail)
				}
				if !strings.Contains(e.Detail, b.field) {
					t.Errorf("the detail does not name %s: %q", b.field, e.Detail)
				}
			}
			if !strings.Contains(e.Detail, b.detail) {
				t.Errorf("the detail does not contain %q: %q", b.detail, e.Detail)
			}
			if got := a.header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
			f.expectUnchanged(t)
		})
	}
	if f.t.Failed() {
		return
	}
	// The job in flight was not affected.
	f.n1.done(f.heldJob, nil).expectOK()
}

// TestMethodNotAllowed: every path answers methods that it does not have with METHOD_NOT_ALLOWED and Allow.
func TestMethodNotAllowed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	allowed := make(map[string][]string)
	for _, route := range f.scheduler.Server.Routes() {
		method, path, _ := strings.Cut(route, " ")
		allowed[path] = append(allowed[path], method)
	}
	allowed[metricsPath] = []string{"GET"} // exists whether or not the table has it
	for pattern, has := range allowed {
		if parent := pattern[:strings.LastIndexByte(pattern, '/')+1] + "{id}"; allowed[parent] != nil && parent != pattern {
			continue // TestNodeNamedTable and TestNamesLikeActions: it has the methods of both paths
		}
		path := strings.ReplaceAll(pattern, "{id}", "n1")
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			if slices.Contains(has, method) {
				continue
			}
			a := f.request(method, path, "application/json", []byte(`{}`))
			e := a.expectError(wire.MethodNotAllowed)
			if diff := cmp.Diff(has, a.header.Values("Allow")); diff != "" {
				t.Errorf("%s %s: Allow: (-want +got)\n%s", method, path, diff)
			}
			for _, right := range has {
				if !strings.Contains(e.Detail, right) {
					t.Errorf("%s %s: the detail does not name %s: %q", method, path, right, e.Detail)
				}
			}
		}
	}
	f.expectUnchanged(t)
}

// TestInputWithinLimits: input at the limits is accepted.
func TestInputWithinLimits(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", object{"max_concurrent_jobs": 100})
	text := string(encode(t, dispatchBody(nil)))
	open := strings.TrimSuffix(text, "}")
	for name, body := range map[string]string{
		"as large as may be": text + strings.Repeat(" ", wire.MaxBody-len(text)),
		"as deep as may be":  open + `,"x":` + strings.Repeat("[", wire.MaxDepth-1) + strings.Repeat("]", wire.MaxDepth-1) + "}",
		"brackets in text":   open + `,"x":"` + strings.Repeat(`[{\"`, 100) + `"}`,
		"unknown fields":     open + `,"x":1,"y":{"z":[]}}`,
		"nulls":              open + `,"audio_ref":null,"options":null,"request_id":null}`,
	} {
		if a := ts.requestUnchecked("POST", "/v1/dispatch/f2f", body); a.status != 200 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8", `Application/JSON;charset="UTF-8"`} {
		if a := ts.request("POST", "/v1/dispatch/explain", contentType, []byte(text)); a.status != 200 {
			t.Errorf("content type %s: %d %s", contentType, a.status, a.body)
		}
	}
	for _, max := range []int{0, 10_000} {
		ts.post("/v1/node/register", nodeDeclaration(object{"node_id": "n2", "max_concurrent_jobs": max})).decode(new(object))
	}
	for _, load := range []float64{0, 1} {
		ts.post("/v1/node/heartbeat", object{"node_id": "n2", "current_load": object{"cpu": load, "gpu": load, "memory": load}}).expectOK()
	}
}

// requestUnchecked sends a request that the OpenAPI description need not allow: the scheduler accepts more than it describes.
func (ts *testScheduler) requestUnchecked(method, path, body string) response {
	ts.t.Helper()
	req, err := http.NewRequest(method, ts.url+path, strings.NewReader(body))
	if err != nil {
		ts.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := ts.client.Transport.(*validatingTransport).next.RoundTrip(req)
	if err != nil {
		ts.t.Fatal(err)
	}
	defer resp.Body.Close()
	var got bytes.Buffer
	if _, err := got.ReadFrom(resp.Body); err != nil {
		ts.t.Fatal(err)
	}
	return response{t: ts.t, label: method + " " + path, status: resp.StatusCode, header: resp.Header, body: got.Bytes()}
}

// TestUncleanPathIsNotFound: a path that net/http would redirect is answered with NOT_FOUND. The redirect would not be a JSON
// error, and would precede the check of the Host.
func TestUncleanPathIsNotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, path := range []string{"//", "/v1//nodes", "/v1/./nodes", "/v1/x/../nodes", "/v1/nodes/../nodes", "//v1/job/done"} {
		for _, method := range []string{"GET", "POST"} {
			a := f.requestUnchecked(method, path, `{}`)
			if a.status != http.StatusNotFound {
				t.Errorf("%s %s: want 404, got %d %s %q", method, path, a.status, a.header.Get("Location"), a.body)
			}
		}
	}
	f.expectUnchanged(t)
}

// TestCrossSitePostIsRefused: a POST from a page of another site is refused. Without keys the scheduler trusts every local client,
// and a form of any page can POST to 127.0.0.1. Requests with a body are safe because a form cannot send JSON; these have none.
func TestCrossSitePostIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, path := range []string{"/v1/nodes/n1/drain", "/v1/nodes/n1/resume", "/v1/jobs/" + f.heldJob.JobID + "/cancel"} {
		for name, headers := range map[string]map[string]string{
			"fetch metadata": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Origin": "https://evil.example"},
			"origin":         {"Origin": "https://evil.example"},
			"opaque origin":  {"Origin": "null"},
		} {
			req, err := http.NewRequest(http.MethodPost, f.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range headers {
				req.Header.Set(k, v)
			}
			if a := f.sendRequest(req); a.status != http.StatusForbidden {
				t.Errorf("POST %s with %s: want 403, got %d", path, name, a.status)
			}
		}
	}
	f.expectUnchanged(t)
}

// TestTruncatedBody: a body that ends early changes nothing.
func TestTruncatedBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	body := string(encode(t, f.n1.reportBody(f.heldJob)))
	req, err := http.NewRequest(http.MethodPost, f.url+"/v1/job/done", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.ContentLength = int64(len(body)) + 10 // the client detects it and closes the connection
	if _, err := f.client.Transport.(*validatingTransport).next.RoundTrip(req); err == nil {
		t.Fatal("the client did not detect the truncated body")
	}
	f.expectUnchanged(t)
}
