package server_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestWithinTheLimits sends what is only just allowed: the other side of the bad input.
func TestWithinTheLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("n1", obj{"max_concurrent_jobs": 100})
	text := string(encode(t, utterance(nil)))
	open := strings.TrimSuffix(text, "}")
	for name, body := range map[string]string{
		"as large as may be": text + strings.Repeat(" ", wire.MaxBody-len(text)),
		"as deep as may be":  open + `,"x":` + strings.Repeat("[", wire.MaxDepth-1) + strings.Repeat("]", wire.MaxDepth-1) + "}",
		"brackets in text":   open + `,"x":"` + strings.Repeat(`[{\"`, 100) + `"}`,
		"unknown fields":     open + `,"x":1,"options":{"y":[]}}`,
		"nulls":              open + `,"audio_ref":null,"options":null,"request_id":null}`,
	} {
		if a := w.askUnchecked("POST", "/v1/dispatch/f2f", body); a.status != 200 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8", `Application/JSON;charset="UTF-8"`} {
		if a := w.ask("POST", "/v1/dispatch/explain", contentType, []byte(text)); a.status != 200 {
			t.Errorf("content type %s: %d %s", contentType, a.status, a.body)
		}
	}
	for _, max := range []int{0, 10_000} {
		w.post("/v1/node/register", capable(obj{"node_id": "n2", "max_concurrent_jobs": max})).into(new(obj))
	}
	for _, load := range []float64{0, 1} {
		w.post("/v1/node/heartbeat", obj{"node_id": "n2", "current_load": obj{"cpu": load, "gpu": load, "memory": load}}).ok()
	}
}

// askUnchecked sends a request whose own form the description need not allow: the scheduler is more lenient
// than what it advises.
func (w *world) askUnchecked(method, path, body string) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Transport.(*checked).next.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var got bytes.Buffer
	if _, err := got.ReadFrom(resp.Body); err != nil {
		w.t.Fatal(err)
	}
	return answer{t: w.t, asked: method + " " + path, status: resp.StatusCode, header: resp.Header, body: got.Bytes()}
}

// TestUncleanPath is told that there is nothing, like at any other path that is not there. The redirect that
// net/http would send on its own is no answer in the form of all answers, and is sent before anybody looked at
// the name the scheduler was called by.
func TestUncleanPath(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, path := range []string{"//", "/v1//nodes", "/v1/./nodes", "/v1/x/../nodes", "/v1/nodes/../nodes", "//v1/job/done"} {
		for _, method := range []string{"GET", "POST"} {
			a := s.askUnchecked(method, path, `{}`)
			if a.status != http.StatusNotFound {
				t.Errorf("%s %s: want 404, got %d %s %q", method, path, a.status, a.header.Get("Location"), a.body)
			}
		}
	}
	s.unchanged(t)
}

// TestCrossSitePost refuses what a page in somebody's browser sends. Without keys the scheduler trusts whoever
// is on this machine, and a browser on it takes orders from strangers: a form needs no leave to POST to
// 127.0.0.1. Messages with a body are safe because no form can send JSON; these have none.
func TestCrossSitePost(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, path := range []string{"/v1/nodes/n1/drain", "/v1/nodes/n1/resume", "/v1/jobs/" + s.held.JobID + "/cancel"} {
		for name, headers := range map[string]map[string]string{
			"fetch metadata": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Origin": "https://evil.example"},
			"origin":         {"Origin": "https://evil.example"},
			"opaque origin":  {"Origin": "null"},
		} {
			req, err := http.NewRequest(http.MethodPost, s.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range headers {
				req.Header.Set(k, v)
			}
			if a := s.do(req); a.status != http.StatusForbidden {
				t.Errorf("POST %s with %s: want 403, got %d", path, name, a.status)
			}
		}
	}
	s.unchanged(t)
}

// TestShortBody cuts a body short: it is an error of the sender, not of the scheduler.
func TestShortBody(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	body := string(encode(t, s.n1.about(s.held)))
	req, err := http.NewRequest(http.MethodPost, s.url+"/v1/job/done", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.ContentLength = int64(len(body)) + 10 // the client notices and cuts the connection
	if _, err := s.client.Transport.(*checked).next.RoundTrip(req); err == nil {
		t.Fatal("the client should have noticed")
	}
	s.unchanged(t)
}
