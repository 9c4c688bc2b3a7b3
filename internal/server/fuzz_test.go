package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// taker is a way to nodes on which every job arrives, so that no input of the fuzzer makes the scheduler call
// somebody who really listens.
type taker struct{}

func (taker) Deliver(context.Context, *core.Node, *wire.Assignment) error { return nil }
func (taker) Cancel(context.Context, core.NodeID, core.JobID, int)        {}

// FuzzServer throws anything at the handler. It never panics and never blames itself, and whatever is not a
// success is an error in the form of all errors, with a code of the table under its own status.
func FuzzServer(f *testing.F) {
	cfg := config.Default()
	cfg.Scheduler.ModelNotAvailable.NodeRatePerMinute = 1 << 30
	s, err := scheduler.New(f.Context(), cfg, wire.VersionResponse{Version: "test", Go: "go"}, slog.New(slog.DiscardHandler), taker{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Jobs.Close)
	handler, described := s.Server.Handler(), describedBy(f, s.Server)
	send := func(method, path, contentType string, body []byte) (*http.Request, *httptest.ResponseRecorder) {
		// The request is made by hand: what makes it for tests panics when it is not well formed.
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") {
			return nil, nil // a server does not let it through to the handler
		}
		req := &http.Request{
			Method: method, URL: u, Host: "127.0.0.1", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RequestURI: path,
			Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)),
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		return req, rec
	}

	const asJSON = "application/json"
	node := encode(f, capable(obj{"node_id": "n1", "callback_url": "http://127.0.0.1:1/jobs"}))
	_, rec := send("POST", "/v1/node/register", asJSON, node)
	if rec.Code != 200 {
		f.Fatalf("register: %s", rec.Body)
	}
	_, rec = send("POST", "/v1/dispatch/f2f", asJSON, encode(f, utterance(obj{"request_id": "req-1"})))
	var placed wire.DispatchResponse
	if err := json.Unmarshal(rec.Body.Bytes(), &placed); err != nil || rec.Code != 200 {
		f.Fatalf("dispatch: %s", rec.Body)
	}
	report := encode(f, obj{"job_id": placed.JobID, "attempt_id": 1, "node_id": "n1", "epoch": 1, "status": "ok", "result": obj{"text_tgt": "x"}})
	f.Add("POST", "/v1/node/register", asJSON, node)
	f.Add("POST", "/v1/node/heartbeat", asJSON, []byte(`{"node_id":"n1","hb_seq":1,"current_jobs":1,"current_load":{"cpu":0.5},"active":[{"job_id":"j","attempt_id":1}]}`))
	f.Add("POST", "/v1/node/model_not_available", asJSON, []byte(`{"node_id":"n1","service_id":"s","job_id":"j","attempt_id":1}`))
	f.Add("POST", "/v1/dispatch/f2f", asJSON, encode(f, utterance(obj{"request_id": "req-1"})))
	f.Add("POST", "/v1/dispatch/explain", asJSON, encode(f, utterance(obj{"options": obj{"strict": true, "preferred_node_id": "n1"}})))
	f.Add("POST", "/v1/job/ack", asJSON, report)
	f.Add("POST", "/v1/job/done", asJSON, report)
	f.Add("POST", "/v1/job/fail", asJSON, report)
	f.Add("POST", "/v1/nodes/n1/drain", "", []byte(nil))
	f.Add("POST", "/v1/nodes/n1/resume", "", []byte(nil))
	f.Add("POST", "/v1/jobs/"+placed.JobID+"/cancel", "", []byte(nil))
	for _, path := range []string{
		"/", "/v1/nodes", "/v1/nodes/n1", "/v1/jobs?state=DONE&limit=1&node_id=n1&session_id=s", "/v1/jobs/" + placed.JobID, "/v1/pools", "/v1/version",
		"/healthz", "/readyz", "/openapi.yaml", "/metrics", "/v1/nodes/%2F", "/v1/jobs?limit=%zz", "/v1/nodes/n1?x", "/%00",
	} {
		f.Add("GET", path, "", []byte(nil))
	}
	f.Add("BREW", "/v1/nodes", "", []byte(nil))
	f.Add("POST", "/v1/job/done", "text/plain; charset=\"", []byte("{"))

	f.Fuzz(func(t *testing.T, method, path, contentType string, body []byte) {
		if !wellFormed(method) {
			return // net/http answers this itself; it never reaches a handler
		}
		req, rec := send(method, path, contentType, body)
		if req == nil {
			return // nor does this
		}
		answer := rec.Body.Bytes()
		if rec.Code/100 != 2 {
			var e wire.Error
			if err := json.Unmarshal(answer, &e); err != nil && method != http.MethodHead {
				t.Fatalf("%s %s answered %d with something else than an error: %q", method, path, rec.Code, answer)
			}
			switch ready := req.URL.Path == "/readyz" && rec.Code == http.StatusServiceUnavailable; {
			case ready:
			case rec.Code == http.StatusInternalServerError, !known(e.Code), wirespec.Status(e.Code) != rec.Code, e.Detail == "":
				t.Fatalf("%s %s answered %d: %s", method, path, rec.Code, answer)
			}
		}
		if req.URL.Path != metrics && rec.Code/100 != 2 {
			if err := described.fits(req, body, rec.Code, rec.Header(), answer); err != nil {
				t.Fatalf("%s %s answered %d, not as /openapi.yaml says: %v\n%s", method, path, rec.Code, err, answer)
			}
		}
	})
}

// wellFormed reports whether a method is a token, as HTTP wants it.
func wellFormed(method string) bool {
	if method == "" || method == http.MethodConnect {
		return false
	}
	for _, c := range method {
		if c <= ' ' || c >= 127 || strings.ContainsRune("()<>@,;:\\\"/[]?={}", c) {
			return false
		}
	}
	return true
}
